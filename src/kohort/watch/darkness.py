"""Dark times of a group's partitions, from its log. Pure.

A rebalance is reported at once, when only the stops of the previous owners are known. The first
commits of the new owners tell the rest within a minute, and the record is amended.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from kohort.model import Millis, TopicPartition
from kohort.recorder import PartitionChange, RebalanceRecord
from kohort.watch.commits import Commit, Stop, first_read, proves_reading, stopped
from kohort.watch.lag import EndOffsets

WAIT_MS: Millis = 60_000
"""Maximum time for which a record waits for first commits. After it, an end of a dark time is unknown."""
MOST_PARTITIONS = 200_000
"""Number of partitions of one group of which times are kept; the oldest are forgotten first."""
MOST_PENDING = 8
"""Maximum number of records of one group that wait at the same time."""


@dataclass(slots=True, eq=False)
class _Pending:
    """Record that lacks the first commits of some new owners."""

    record: RebalanceRecord
    changes: list[PartitionChange]
    unread: dict[TopicPartition, tuple[int, Stop]]
    """Place in `changes` and the stop of the owner before, by partition."""
    learned: bool = False
    """Whether more is known than the record that was returned last."""

    def amended(self) -> RebalanceRecord:
        return replace(self.record, partitions=tuple(self.changes))


@dataclass(slots=True)
class _Early:
    """Handover in a consumer group whose rebalance is not over, so that no record has it yet."""

    stop: Stop
    assigned: Millis
    read: Millis | None = None
    error: Millis = 0
    is_over: bool = False
    """Whether the new owner's first commit is known, even if it does not tell the first read."""


@dataclass(slots=True)
class Darkness:
    """Dark times of one group: which are known, and which records wait for more."""

    usual: Millis | None = None
    """Usual time between two commits of its busiest partitions."""
    _told: dict[TopicPartition, Millis] = field(default_factory=dict)
    """Time at which the owner was told to stop a partition that it has not given up yet, or that nobody owns."""
    _owned_from: dict[TopicPartition, Millis] = field(default_factory=dict)
    """Time at which the present owner received a partition."""
    _rebalanced_at: Millis = 0
    """End of the last rebalance."""
    _early: dict[TopicPartition, _Early] = field(default_factory=dict)
    _pending: list[_Pending] = field(default_factory=list)
    _waiting: dict[TopicPartition, _Pending] = field(default_factory=dict)

    @property
    def waits(self) -> bool:
        """Whether any record waits for first commits."""
        return len(self._pending) > 0

    def is_pending(self, record: RebalanceRecord) -> bool:
        """Return whether this record waits for first commits."""
        return any(is_same(each.record, record) for each in self._pending)

    def told(self, partition: TopicPartition, at: Millis) -> None:
        """Take the time from which the owner of a partition knows that it must stop."""
        self._told.setdefault(partition, at)

    def kept(self, partition: TopicPartition) -> None:
        """Take that the owner of a partition need not stop any more."""
        self._told.pop(partition, None)

    def forget(self, partition: TopicPartition) -> None:
        """Forget a partition that the group no longer reads, such as one of a deleted topic."""
        for times in (self._told, self._owned_from):
            times.pop(partition, None)
        if (early := self._early.get(partition)) is not None and early.is_over:
            del self._early[partition]

    def took(self, partition: TopicPartition, commit: Commit | None, *, unowned: Millis, at: Millis) -> None:
        """Take that a member of a consumer group received a partition, which had no owner since `unowned`.

        `commit` is the partition's last commit. The new owner may commit long before the rebalance
        is over and its record is made.
        """
        if partition in self._waiting:
            _, stop = self._waiting[partition].unread[partition]
        elif partition in self._early and not self._early[partition].is_over:
            stop = self._early[partition].stop
        else:
            stop = stopped(
                commit,
                self.usual,
                owned_from=self._owned_from.get(partition),
                told=self._told.get(partition),
                known=unowned,
            )
        self._told.pop(partition, None)
        self._owned_from[partition] = at
        self._early[partition] = _Early(stop, at)

    def dated(self, record: RebalanceRecord, commits: Mapping[TopicPartition, Commit]) -> Iterator[RebalanceRecord]:
        """Yield earlier records that this one completes, then the record itself with the times of all stops."""
        self._rebalanced_at = max(self._rebalanced_at, record.ended_at)
        changes = list(record.partitions)
        unread: dict[TopicPartition, tuple[int, Stop]] = {}
        ended: list[_Pending] = []
        for place, change in enumerate(changes):
            partition = TopicPartition(change.topic, change.partition)
            if change.owner is None and change.revoked_at is None and partition in self._waiting:
                continue  # its owner is told to stop, may have read it, and commits as it stops
            # If its last owner has not read it, it has been dark since the owner before stopped.
            awaited, early = self._no_longer_awaited(partition, ended), self._early.pop(partition, None)
            if early is not None and change.owner is not None:
                changes[place] = self._of_early(change, early)
                if not early.is_over and not record.was_empty:
                    unread[partition] = place, early.stop
                continue
            since = awaited or self._stop(partition, change, record, commits)
            changes[place] = replace(change, revoked_at=None if since is None else since.at)
            if change.owner is None:
                self._owned_from.pop(partition, None)
                if since is not None:
                    self._told[partition] = since.at
                continue
            self._told.pop(partition, None)
            self._owned_from[partition] = record.ended_at if change.assigned_at is None else change.assigned_at
            if since is not None and not record.was_empty:
                unread[partition] = place, since
        for times in (self._told, self._owned_from, self._early):
            bound(times, MOST_PARTITIONS)
        yield from (each.amended() for each in ended)
        pending = _Pending(record, changes, unread)
        yield pending.amended()
        if unread:
            self._pending.append(pending)
            self._waiting |= dict.fromkeys(unread, pending)
        while len(self._pending) > MOST_PENDING:
            yield from self._give_up(self._pending[0])

    def _of_early(self, change: PartitionChange, early: _Early) -> PartitionChange:
        if early.read is None:
            return replace(change, revoked_at=early.stop.at)
        return replace(change, revoked_at=early.stop.at, first_read_at=early.read, dark_error_ms=early.error)

    def _stop(
        self,
        partition: TopicPartition,
        change: PartitionChange,
        record: RebalanceRecord,
        commits: Mapping[TopicPartition, Commit],
    ) -> Stop | None:
        """Return when the owner before stopped; None if there was none, or if it goes on."""
        if change.previous_owner is None or (change.owner is None and change.revoked_at is None):
            return None
        known = record.ended_at if change.assigned_at is None else change.assigned_at
        return stopped(
            commits.get(partition),
            self.usual,
            owned_from=self._owned_from.get(partition),
            told=self._told.get(partition),
            known=known if change.revoked_at is None else min(known, change.revoked_at),
        )

    def committed(
        self,
        partition: TopicPartition,
        before: Commit | None,
        offset: int,
        at: Millis,
        ends: EndOffsets | None,
        *,
        after_gap: bool = False,
    ) -> tuple[Commit, RebalanceRecord | None]:
        """Take a commit, and return it with its interval, and the record that it completes, if any.

        - `after_gap`: Whether commits between `before` and this one were left out.
        """
        pending = self._waiting.get(partition)
        if before is None:
            commit = Commit(offset, at)
        else:
            commit = before.followed_by(offset, at, same_owner=pending is None and not after_gap)
            if commit.usual is not None:
                usual = (
                    commit.usual if self.usual is None else min(commit.usual, (63 * self.usual + commit.usual) // 64)
                )
                self.usual = usual
        if (early := self._early.get(partition)) is not None and not early.is_over:
            if before is None or offset <= before.offset or at < early.assigned:
                return commit._replace(gap=None), None
            early.is_over = True
            early.read, early.error = self._read(before, early.stop, at, ends, early.assigned, 0)
            return commit._replace(gap=None), None
        if pending is None:
            return commit, None
        place, stop = pending.unread[partition]
        change = pending.changes[place]
        assigned = pending.record.ended_at if change.assigned_at is None else change.assigned_at
        if at < assigned or (before is not None and offset <= before.offset):
            return commit._replace(gap=None), None  # it proves no reading: clients repeat unchanged offsets
        del self._waiting[partition], pending.unread[partition]
        # Members of a classic group cannot commit while it rebalances.
        rebalanced = self._rebalanced_at if pending.record.started_at is None else 0
        read, error = (None, 0) if before is None else self._read(before, stop, at, ends, assigned, rebalanced)
        if read is not None:
            pending.changes[place] = replace(change, first_read_at=read, dark_error_ms=error)
            pending.learned = True
        if pending.unread:
            return commit, None
        self._pending.remove(pending)
        return commit, pending.amended() if pending.learned else None

    def _read(
        self,
        before: Commit,
        stop: Stop,
        committed: Millis,
        ends: EndOffsets | None,
        assigned: Millis,
        rebalanced: Millis,
    ) -> tuple[Millis | None, Millis]:
        """Return the first read of a new owner that its first commit tells, and the error of the dark time."""
        if not proves_reading(before, self.usual, ends, assigned):
            return None, 0
        read = first_read(self.usual, assigned=assigned, rebalanced=rebalanced, committed=committed)
        return read, _error(stop, read, assigned=assigned, committed=committed)

    def expire(self, now: Millis) -> list[RebalanceRecord]:
        """Give up records that have waited for a minute, and return those of which more is known by now."""
        due = [pending for pending in self._pending if pending.record.ended_at + WAIT_MS <= now]
        return [record for pending in due for record in self._give_up(pending)]

    def _give_up(self, pending: _Pending) -> Iterator[RebalanceRecord]:
        self._pending.remove(pending)
        for partition in pending.unread:
            del self._waiting[partition]
        if pending.learned:
            yield pending.amended()

    def _no_longer_awaited(self, partition: TopicPartition, ended: list[_Pending]) -> Stop | None:
        """Stop to wait for a partition, and return since when it is dark, if it was awaited.

        Adds the record that waited to `ended` if it is complete now.
        """
        pending = self._waiting.pop(partition, None)
        if pending is None:
            return None
        _, stop = pending.unread.pop(partition)
        if not pending.unread:
            self._pending.remove(pending)
            if pending.learned:
                ended.append(pending)
        return stop


def bound(kept: dict[TopicPartition, Any], most: int) -> None:
    """Remove the oldest entries if there are more than `most`, an eighth of them at once."""
    if len(kept) > most:
        for partition in list(islice(kept, len(kept) - most + most // 8)):
            del kept[partition]


def is_same(one: RebalanceRecord, other: RebalanceRecord) -> bool:
    """Return whether both records are of one rebalance. A static member that returns keeps its group's generation."""
    return (one.generation, one.ended_at) == (other.generation, other.ended_at)


def _error(stop: Stop, read: Millis, *, assigned: Millis, committed: Millis) -> Millis:
    """Return the largest error of a dark time."""
    dark = max(0, read - stop.at)
    least, most = max(0, assigned - stop.latest), max(0, committed - stop.earliest)
    return max(dark - least, most - dark)
