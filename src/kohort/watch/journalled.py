"""Records of the brokers' journal, beside those that follow from the log: which of them are of one rebalance. Pure.

The journal has exact causes and times. The log has every rebalance, also of groups that no recorder
saw. So a record of the journal replaces that of the log, whichever arrives first.
"""

from collections import deque
from collections.abc import Iterable, MutableSequence
from dataclasses import dataclass, field, replace

from kohort.model import Millis
from kohort.recorder import RebalanceRecord

JOURNAL = "journal"
"""`source` of a record that the journal has."""

_SAME_MS: Millis = 30_000
"""Largest difference between two times of the same rebalance, by different observers."""
WAIT_MS: Millis = 10_000
"""Time for which a record of the journal waits for that of the log. Then it is reported alone."""
_MOST_OF_GROUP = 50
"""Number of records of one group that may replace a later record of the log."""
_MOST_GROUPS = 20_000


@dataclass(slots=True)
class Journalled:
    """Records of the journal that arrived last."""

    _records: dict[str, deque[RebalanceRecord]] = field(default_factory=dict)
    _alone: dict[tuple[str, int, Millis], Millis] = field(default_factory=dict)
    """Records that wait for the log's, by group, generation and end, with the time from which they wait no longer."""

    def add(self, record: RebalanceRecord) -> RebalanceRecord:
        """Remember a record, and return it with its source."""
        record = replace(record, source=JOURNAL)
        records = self._records.pop(record.group_id, None) or deque(maxlen=_MOST_OF_GROUP)
        self._records[record.group_id] = records  # the group that was silent for longest comes first
        records.append(record)
        if len(self._records) > _MOST_GROUPS:
            self.forget(next(iter(self._records)))
        return record

    def wait(self, record: RebalanceRecord, now: Millis) -> None:
        """Wait for the log to have this rebalance, too."""
        self._alone[record.group_id, record.generation, record.ended_at] = now + WAIT_MS

    def of(self, record: RebalanceRecord) -> RebalanceRecord | None:
        """Return the journal's record of a rebalance in the log, which waits no longer; None if there is none."""
        found = nearest(self._records.get(record.group_id, ()), record)
        if found is not None:
            self._alone.pop((found.group_id, found.generation, found.ended_at), None)
        return found

    def covers(self, polled: RebalanceRecord) -> bool:
        """Return whether the journal has a rebalance at about the time of one that two descriptions show."""
        known = self._records.get(polled.group_id, ())
        return any(record.is_rebalance and abs(record.ended_at - polled.ended_at) <= _SAME_MS for record in known)

    def due(self, now: Millis) -> list[RebalanceRecord]:
        """Return the records for which the log has had no rebalance for some seconds, each once."""
        over = [key for key, until in self._alone.items() if until <= now]
        found = []
        for key in over:
            del self._alone[key]
            group_id, generation, ended_at = key
            found += [
                record
                for record in self._records.get(group_id, ())
                if (record.generation, record.ended_at) == (generation, ended_at)
            ][-1:]
        return found

    def forget(self, group_id: str) -> None:
        """Forget a group that was deleted."""
        for record in self._records.pop(group_id, ()):
            self._alone.pop((group_id, record.generation, record.ended_at), None)


def nearest(records: Iterable[RebalanceRecord], record: RebalanceRecord) -> RebalanceRecord | None:
    """Return the record of the same rebalance. A static member that returns repeats a generation, at another time."""
    same = [
        each
        for each in records
        if each.generation == record.generation
        and each.is_rebalance == record.is_rebalance
        and each.held_offsets == record.held_offsets
        and abs(each.ended_at - record.ended_at) <= _SAME_MS
    ]
    return min(same, key=lambda each: abs(each.ended_at - record.ended_at), default=None)


def put(kept: MutableSequence[RebalanceRecord], record: RebalanceRecord) -> bool:
    """Store a record in place of that of the same rebalance. Returns whether there was one."""
    old = nearest(reversed(kept), record)
    if old is None:
        return False
    kept[kept.index(old)] = record
    return True


def insert(kept: deque[RebalanceRecord], record: RebalanceRecord) -> None:
    """Insert a record by its end. A rebalance replaces what two descriptions of the group showed at about that time."""
    rest = [
        each
        for each in kept
        if not (record.is_rebalance and each.polled and abs(each.ended_at - record.ended_at) <= _SAME_MS)
    ]
    place = next((at for at in range(len(rest), 0, -1) if rest[at - 1].ended_at <= record.ended_at), 0)
    kept.clear()
    kept.extend([*rest[:place], record, *rest[place:]])
