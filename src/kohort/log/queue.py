"""Appends of all partitions of a store that are not settled yet.

Files are created one by one, and 900 of them take a second. Therefore one sync creates a bounded
number of files. Each of these syncs also includes the appends, up to that time, of partitions that
are synced first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kohort.log.partition import Queued, SegmentedLog

NEW_FILES = 32
"""Maximum number of new files per sync, unless a single partition needs more."""

Waiting = list[tuple[SegmentedLog, list[Queued]]]


@dataclass(frozen=True, slots=True)
class PendingAppends:
    """Appends that one sync makes durable."""

    logs: Waiting
    is_last: bool = True
    """False if later takes return the rest of what was appended before."""

    @property
    def size(self) -> int:
        """Size in bytes."""
        return sum(append.size for _, queued in self.logs for append in queued)


class AppendQueue:
    """Logs with appends that no take has returned yet, and the total size of unsettled appends."""

    __slots__ = ("_dirty", "_new_files", "_rest", "_under_way", "queued_bytes")

    def __init__(self, new_files: Callable[[Sequence[Queued]], int] = lambda queued: 0) -> None:
        """Create a queue. `new_files` returns the number of files that appends of one log have yet to create."""
        self._new_files = new_files
        self._dirty: dict[SegmentedLog, None] = {}
        self._rest: Waiting = []
        """Rest of the appends that the last take divided."""
        self._under_way: PendingAppends | None = None
        self.queued_bytes = 0

    @property
    def waits(self) -> bool:
        """Whether there are appends that no take has returned."""
        return bool(self._dirty or self._rest)

    def note(self, log: SegmentedLog, size: int) -> None:
        """Add an append of this log, of `size` bytes."""
        self._dirty[log] = None
        self.queued_bytes += size

    def take(self) -> PendingAppends:
        """Return all pending appends, which may be none, or a part; the next takes then return the rest first.

        Logs that are synced first are never in the rest.
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
        self._under_way = PendingAppends(logs, not self._rest)
        return self._under_way

    def finish(self, taken: PendingAppends) -> None:
        """Remove settled appends."""
        assert self._under_way is taken
        self._under_way = None
        self.queued_bytes -= taken.size

    def drop(self, taken: PendingAppends) -> None:
        """Undo the failed appends, the rest, and all later appends."""
        assert self._under_way is taken
        self._under_way = None
        held = dict([*taken.logs, *self._rest])
        for log in dict.fromkeys([*held, *self._dirty]):
            log.drop_unsettled(held.get(log, []))
        self._rest = []
        self._dirty.clear()
        self.queued_bytes = 0

    def forget(self, log: SegmentedLog) -> None:
        """Drop the queued appends of a deleted log."""
        if log in self._dirty:
            del self._dirty[log]
            self.queued_bytes -= sum(append.size for append in log.queue)
            log.queue = []

    def _take_queues(self, *, first_only: bool) -> Waiting:
        found: Waiting = []
        for log in [log for log in self._dirty if log.is_synced_first or not first_only]:
            found.append((log, log.queue))
            log.queue = []
            del self._dirty[log]
        return found
