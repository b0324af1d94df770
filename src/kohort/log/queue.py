"""What waits between append and settle, over all partitions of a store."""

from collections.abc import Iterator
from dataclasses import dataclass

from kohort.log.partition import Queued, SegmentedLog


@dataclass(frozen=True, slots=True)
class Taken:
    """The appends that one sync makes durable."""

    logs: list[tuple[SegmentedLog, list[Queued]]]
    size: int


class AppendQueue:
    """Which logs have appends that no sync took yet, and how many bytes are under way in all."""

    __slots__ = ("_dirty", "_under_way", "queued_bytes")

    def __init__(self) -> None:
        self._dirty: dict[SegmentedLog, None] = {}
        self._under_way: Taken | None = None
        self.queued_bytes = 0

    @property
    def waits(self) -> bool:
        """Whether anything was appended since the last take."""
        return bool(self._dirty)

    def note(self, log: SegmentedLog, size: int) -> None:
        """That log has one more append."""
        self._dirty[log] = None
        self.queued_bytes += size

    def take(self) -> Taken:
        """All that waits, which may be nothing."""
        assert self._under_way is None, "take before the last one was settled or failed"
        logs = []
        for log in self._dirty:
            logs.append((log, log.queue))
            log.queue = []
        self._dirty.clear()
        self._under_way = Taken(logs, self.queued_bytes)
        return self._under_way

    def finish(self, taken: Taken) -> None:
        """It is settled."""
        assert self._under_way is taken
        self._under_way = None
        self.queued_bytes -= taken.size

    def drop(self, taken: Taken) -> None:
        """It failed, and with it everything that was appended meanwhile."""
        assert self._under_way is taken
        self._under_way = None
        held = dict(taken.logs)
        for log in self._all(taken):
            log.drop_unsettled(held.get(log, []))
        self._dirty.clear()
        self.queued_bytes = 0

    def forget(self, log: SegmentedLog) -> None:
        """That log is deleted; what it queued is no longer waited for."""
        if log in self._dirty:
            del self._dirty[log]
            self.queued_bytes -= sum(one.size for one in log.queue)
            log.queue = []

    def _all(self, taken: Taken) -> Iterator[SegmentedLog]:
        yield from dict.fromkeys([*(log for log, _ in taken.logs), *self._dirty])
