"""What waits between append and settle, over all partitions of a store.

New files are made one by one, and 900 of them take a second. So one sync makes a bounded number of them, and each of
these syncs also has what the partitions that are synced first have appended by then.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kohort.log.partition import Queued, SegmentedLog

NEW_FILES = 32
"""The most that one sync makes, but for one partition that needs more."""

Waiting = list[tuple[SegmentedLog, list[Queued]]]


@dataclass(frozen=True, slots=True)
class Taken:
    """The appends that one sync makes durable."""

    logs: Waiting
    is_last: bool = True
    """False if later takes have the rest of what was appended before."""

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(one.size for _, queued in self.logs for one in queued)


class AppendQueue:
    """Which logs have appends that no sync took yet, and how many bytes are under way in all."""

    __slots__ = ("_dirty", "_new_files", "_rest", "_under_way", "queued_bytes")

    def __init__(self, new_files: Callable[[Sequence[Queued]], int] = lambda queued: 0) -> None:
        """`new_files` counts the files that these appends of one log need and that do not exist."""
        self._new_files = new_files
        self._dirty: dict[SegmentedLog, None] = {}
        self._rest: Waiting = []
        """What the last take left of the appends that it divided."""
        self._under_way: Taken | None = None
        self.queued_bytes = 0

    @property
    def waits(self) -> bool:
        """Whether anything was appended that no take had."""
        return bool(self._dirty or self._rest)

    def note(self, log: SegmentedLog, size: int) -> None:
        """That log has one more append."""
        self._dirty[log] = None
        self.queued_bytes += size

    def take(self) -> Taken:
        """All that waits, which may be nothing; or a part of it, and then the rest before anything else.

        Logs that are synced first are never part of the rest.
        """
        assert self._under_way is None, "take before the last one was settled or failed"
        waiting = self._rest + self._take_queues(first_only=bool(self._rest))
        logs: Waiting = []
        self._rest = []
        room = NEW_FILES
        for log, queued in waiting:
            new = 0 if log.is_synced_first else self._new_files(queued)
            if not new or new <= room or room == NEW_FILES:
                room -= new
                logs.append((log, queued))
            else:
                self._rest.append((log, queued))
        self._under_way = Taken(logs, not self._rest)
        return self._under_way

    def finish(self, taken: Taken) -> None:
        """It is settled."""
        assert self._under_way is taken
        self._under_way = None
        self.queued_bytes -= taken.size

    def drop(self, taken: Taken) -> None:
        """It failed, and with it the rest and everything that was appended meanwhile."""
        assert self._under_way is taken
        self._under_way = None
        held = dict([*taken.logs, *self._rest])
        for log in dict.fromkeys([*held, *self._dirty]):
            log.drop_unsettled(held.get(log, []))
        self._rest = []
        self._dirty.clear()
        self.queued_bytes = 0

    def forget(self, log: SegmentedLog) -> None:
        """That log is deleted; what it queued is no longer waited for."""
        if log in self._dirty:
            del self._dirty[log]
            self.queued_bytes -= sum(one.size for one in log.queue)
            log.queue = []

    def _take_queues(self, *, first_only: bool) -> Waiting:
        found: Waiting = []
        for log in [log for log in self._dirty if log.is_synced_first or not first_only]:
            found.append((log, log.queue))
            log.queue = []
            del self._dirty[log]
        return found
