"""State that the recorder keeps for one classic group: owners, dark partitions, and the rebalance in progress."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from kohort.group_events import AssignmentMade, MemberGone, MemberRejoined, RebalanceStarted
from kohort.model import Millis, TopicPartition
from kohort.recorder.following import GroupRecorder, PendingRecord, RunningRebalance
from kohort.recorder.holdings import Dark
from kohort.recorder.record import PartitionChange, RebalanceRecord, Trigger


@dataclass(slots=True, eq=False)
class ClassicGroupRecorder(GroupRecorder):
    """Recorder for one classic group."""

    _carried: dict[TopicPartition, PartitionChange] = field(default_factory=dict)
    """Changes of an earlier rebalance whose new owner had not read the partition when the next rebalance began.

    The rebalance in which the first read happens records them.
    """
    _orphans: set[TopicPartition] = field(default_factory=set)
    """Partitions without an owner that a record has already reported."""
    _generation: int | None = None
    _losers: Set[str] = frozenset()
    """Members that still process a partition to which the last assignment gives no owner."""

    def started(self, event: RebalanceStarted, now: Millis) -> RebalanceRecord | None:
        """Record that a rebalance began; return the previous rebalance's record, even if first reads are missing."""
        trigger = Trigger(event.cause.value, event.member_id, event.reason)
        if self._running is not None:
            # The running rebalance was interrupted before its assignment arrived, for example
            # because the leader never sent one. It counts as one disruption, not two.
            self._running.interrupted(trigger)
            return None
        # KIP-429: a member rejoins after it has revoked partitions that the assignment took from
        # it, so that others can own them.
        follow_up = event.member_id in self._losers
        self._running = RunningRebalance(now, [trigger], self._generation if follow_up else None)
        if self.written is not None:
            self._carried = {partition: self.written.changes[partition] for partition in self.written.unread}
        return self._finish()

    def rejoined(self, event: MemberRejoined, now: Millis) -> Set[TopicPartition]:
        """Record that a member stopped partitions that it does not list as owned (cooperative), or all of them (eager).

        Returns the partitions whose first read is no longer awaited, as `removed` does.
        """
        member_id, kept = event.member.member_id, event.owned or frozenset()
        if kept and self._generation is None:
            # After a failover, the member's owned partitions are the recorder's first information about it.
            self.members[member_id] = event.member
            for partition in kept:
                self.holdings.give(partition, member_id)
        return self._darken(self.holdings.held.get(member_id, set()) - kept, now)

    def removed(self, event: MemberGone, now: Millis) -> Set[TopicPartition]:
        """Record that a member is no longer in the group. All its partitions become dark."""
        member_id = event.member.member_id
        self._went_for(Trigger(event.cause.value, member_id, event.reason))
        if self._generation is None and self._running is None:
            self.members[member_id] = event.member  # it belonged to a generation before the failover
        return self._darken(self.holdings.held.get(member_id, set()), self._stopped_at(event, now))

    def assigned(self, event: AssignmentMade, now: Millis) -> RebalanceRecord | None:
        """Record that the assignment arrived. The record waits for the new owners' first reads, if there are any.

        Returns the previous rebalance's record if it was unfinished.
        """
        earlier = self._finish()
        # Without a recorded start, a static member took over the partitions of its former member ID.
        running = self._running or RunningRebalance(now, self._gone[:1], None)
        after = {member.member_id: member for member in event.members}
        given = {partition: member_id for member_id, share in event.assignment.items() for partition in share}
        changes = self._changes(given, now)
        record = RebalanceRecord(
            group_id=self.group_id,
            generation=event.generation,
            started_at=running.started_at,
            ended_at=now,
            triggers=tuple(running.triggers),
            protocol=event.protocol,
            leader_id=event.leader_id or None,
            follow_up_of=running.follow_up_of,
            before=tuple(self.members.values()),
            after=tuple(after.values()),
            gone=tuple(self._gone),
        )
        self.awaited = {
            partition: after[change.owner]
            for partition, change in changes.items()
            if change.owner in after and change.first_read_at is None
        }
        self.written = PendingRecord(record, changes, set(self.awaited))
        for partition, member_id in given.items():
            self.holdings.give(partition, member_id)
        self._orphans = self.holdings.owner.keys() - given.keys()
        self._losers = {
            self.holdings.owner[partition] for partition in self._orphans - self.holdings.dark.keys()
        } & after.keys()
        self.members, self._generation = after, event.generation
        self._seen = dict.fromkeys(after, now)
        self._gone, self._carried, self._running = [], {}, None
        self.empty_since = None if after else now
        return earlier

    def read(self, partition: TopicPartition, now: Millis) -> RebalanceRecord | None:
        """Record the first fetch of an awaited partition; return the record if it awaits no other read."""
        self._seen[self.awaited.pop(partition).member_id] = now
        self.holdings.dark.pop(partition, None)
        if self.written is None:
            # The read happens while the next rebalance runs; cooperative members continue
            # meanwhile. The next record reports when the dark period ended.
            self._carried[partition] = replace(self._carried[partition], first_read_at=now)
            return None
        self.written.changes[partition] = replace(self.written.changes[partition], first_read_at=now)
        self.written.unread.discard(partition)
        return self.complete()

    def _changes(self, given: Mapping[TopicPartition, str], now: Millis) -> dict[TopicPartition, PartitionChange]:
        changes = {
            partition: carried
            for partition, carried in self._carried.items()
            if carried.first_read_at is not None or given.get(partition) == carried.owner
        }
        for partition, owner in given.items():
            dark, before = self.holdings.dark.get(partition), self.holdings.owner.get(partition)
            if dark is None and before == owner:
                continue
            if dark is None and before is not None:
                # The partition was reassigned before its owner revoked it: the assignor was not
                # cooperative, or the claim was stale.
                dark = self.holdings.dark[partition] = Dark(now, before)
            previous_owner, since = (dark.previous_owner, dark.since) if dark else (None, None)
            carried = changes.get(partition)
            if carried is None or carried.first_read_at is not None or carried.revoked_at != since:
                changes[partition] = PartitionChange(*partition, previous_owner, owner, since, now)
        for partition, before in self.holdings.owner.items():
            if partition not in given and partition not in self._orphans:
                dark = self.holdings.dark.get(partition)
                changes[partition] = PartitionChange(*partition, before, None, dark.since if dark else None)
        return changes
