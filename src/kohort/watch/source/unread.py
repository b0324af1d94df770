"""First unread records: their timestamps are the lags in seconds where the log has gaps."""

import asyncio
from collections.abc import Mapping
from typing import Any

from kohort.client import ErrorCode, KafkaError
from kohort.model import TopicPartition
from kohort.watch.lag import EndPoint
from kohort.watch.source.clients import unread_consumer

_SLICE_S = 0.05
"""Time after which the position is looked at: it passes markers of transactions, which are no records."""
_MOST_TOPICS = 10_000


class FirstUnread:
    """Reader of single records. It needs the ACL Read on their topics, which it does not ask for again if denied."""

    def __init__(self, options: Mapping[str, Any], *, timeout_s: float = 2.0) -> None:
        """Create the reader. An open transaction holds its records back: after `timeout_s` one counts as unreadable."""
        self._timeout_s = timeout_s
        self._consumer = unread_consumer(options)
        self._denied: set[str] = set()

    async def close(self) -> None:
        """End reading."""
        await self._consumer.close()

    async def first(self, partition: TopicPartition, offset: int, end: int) -> EndPoint | int | None:
        """Return the first record at or after this offset, or None if it cannot be read.

        Returns an offset, at least `end`, if there is no record before it.
        """
        if offset >= end:
            return offset
        if partition.topic in self._denied:
            return None
        try:
            return await self._first(partition, offset, end)
        except KafkaError as problem:
            if problem.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED and len(self._denied) < _MOST_TOPICS:
                self._denied.add(partition.topic)
            return None
        finally:
            self._consumer.assign([])

    async def _first(self, partition: TopicPartition, offset: int, end: int) -> EndPoint | int | None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._timeout_s
        self._consumer.assign([partition])
        self._consumer.seek(partition, offset)
        while loop.time() < until:
            records = await self._consumer.poll(1, _SLICE_S)
            if records:
                return EndPoint(records[0].timestamp, records[0].offset)
            reached = self._consumer.positions().get(partition, 0)
            if reached >= end:
                return reached
        return None
