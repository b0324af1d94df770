"""First unread records: their timestamps are the lags in seconds where the log has gaps."""

from collections.abc import Mapping
from typing import Any

from kohort.client import ErrorCode, KafkaError
from kohort.model import TopicPartition
from kohort.watch.lag import EndPoint
from kohort.watch.source.clients import unread_consumer

_TIMEOUT_S = 2.0
_MOST_TOPICS = 10_000


class FirstUnread:
    """Reader of single records. It needs the ACL Read on their topics, which it does not ask for again if denied."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._consumer = unread_consumer(options)
        self._denied: set[str] = set()

    async def close(self) -> None:
        """End reading."""
        await self._consumer.close()

    async def first(self, partition: TopicPartition, offset: int) -> EndPoint | None:
        """Return the first record at or after this offset, or None if it cannot be read."""
        if partition.topic in self._denied:
            return None
        try:
            self._consumer.assign([partition])
            self._consumer.seek(partition, offset)
            records = await self._consumer.poll(1, _TIMEOUT_S)
        except KafkaError as problem:
            if problem.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED and len(self._denied) < _MOST_TOPICS:
                self._denied.add(partition.topic)
            return None
        finally:
            self._consumer.assign([])
        return EndPoint(records[0].timestamp, records[0].offset) if records else None
