"""Statistics for stats_cb: the part of librdkafka's document that Kohort's clients know."""

import json
import time
from collections.abc import Callable
from typing import Any

from kohort.compat.confluent.clients import OneRecordConsumer
from kohort.compat.confluent.configuration import Configuration
from kohort.compat.confluent.values import TopicPartition
from kohort.model import TopicPartition as Partition


class Statistics:
    """Calls stats_cb every statistics.interval.ms, from the thread that polls."""

    def __init__(self, configuration: Configuration, collect: Callable[[], dict[str, Any]]) -> None:
        self._callback = configuration.stats_cb
        self._every_s = configuration.statistics_interval_s
        self._collect = collect
        self._began = time.monotonic()
        self._due_at = self._began + self._every_s
        self._client_id = configuration.kohort.get("client_id", "kohort")
        self.wanted = self._callback is not None and self._every_s > 0

    def serve(self) -> None:
        """Call stats_cb if it is due."""
        now = time.monotonic()
        if not self.wanted or now < self._due_at:
            return
        self._due_at = now + self._every_s
        document = {
            "name": self._client_id,
            "client_id": self._client_id,
            "ts": int(now * 1_000_000),
            "time": int(time.time()),
            "age": int((now - self._began) * 1_000_000),
            **self._collect(),
        }
        assert self._callback is not None
        self._callback(json.dumps(document))


def consumer_statistics(
    client: OneRecordConsumer, configuration: Configuration, position: Callable[[Partition], TopicPartition]
) -> dict[str, Any]:
    """Return the positions and the lag of each assigned partition."""
    topics: dict[str, Any] = {}
    for partition, lag in client.lags().items():
        high = client.highwater(partition)
        topic = topics.setdefault(partition.topic, {"topic": partition.topic, "partitions": {}})
        topic["partitions"][str(partition.partition)] = {
            "partition": partition.partition,
            "app_offset": position(partition).offset,
            "hi_offset": -1001 if high is None else high,
            "consumer_lag": -1 if lag is None else lag,
        }
    return {
        "type": "consumer",
        "topics": topics,
        "cgrp": {"state": "up" if client.generation is not None else "init", "assignment_size": len(client.assignment)},
    }
