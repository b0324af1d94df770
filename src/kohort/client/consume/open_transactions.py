"""Warnings about open transactions behind which a consumer with read_committed finds nothing to read.

Such a consumer looks as if it had reached the end: its lag is 0, because `end` is the last stable offset.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kohort.client.net import joined_names
from kohort.model import TopicPartition

_log = logging.getLogger(__name__)

LONG_S = 10.0
"""Time after which a warning is logged, in seconds. It is that of the broker for offsets in open transactions."""


@dataclass(slots=True)
class _Wait:
    """Wait of one partition at an offset that is in an open transaction or behind its first record."""

    offset: int
    since: float
    logged: bool = False


class OpenTransactionWaits:
    """Partitions of one consumer that cannot be read further until a transaction ends."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waits: dict[TopicPartition, _Wait] = {}

    def empty(self, partition: TopicPartition, offset: int, stable: int, high_watermark: int) -> None:
        """Process a fetch from `offset` without records, with the last stable offset and the high watermark."""
        if not 0 <= stable <= offset or stable >= high_watermark:
            self.continued(partition)
            return
        wait = self._waits.get(partition)
        if wait is None or wait.offset != offset:
            self.continued(partition)
            self._waits[partition] = _Wait(offset, self._clock())

    def continued(self, partition: TopicPartition) -> None:
        """Process that the partition is no longer held up."""
        wait = self._waits.pop(partition, None)
        if wait is not None and wait.logged:
            _log.warning("read again after %.1f s: %s", self._clock() - wait.since, partition)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Process partitions that are not read now."""
        for partition in partitions:
            self._waits.pop(partition, None)

    def log_long(self) -> None:
        """Log the partitions that have waited for long, once each."""
        if not self._waits:
            return
        now = self._clock()
        long = [(at, wait) for at, wait in self._waits.items() if not wait.logged and now - wait.since >= LONG_S]
        if not long:
            return
        for _, wait in long:
            wait.logged = True
        first, wait = long[0]
        _log.warning(
            "nothing to read for %.0f s: %s: there are records, but a transaction has been open since offset %d%s;"
            " reading continues when it ends: kohort transactions describe-producers %s %d names its producer",
            LONG_S,
            joined_names([at for at, _ in long]),
            wait.offset,
            f" of {first}" if len(long) > 1 else "",
            first.topic,
            first.partition,
        )
