"""State that the recorder keeps for one consumer group (KIP-848).

Members change one by one, and only a member that must give up a partition stops processing it. A
rebalance lasts from the first change that requires a new target until every member has reached that
target.
"""

from collections.abc import Set
from dataclasses import dataclass, field, replace

from kohort.group_events import (
    GroupEpochBumped,
    GroupSettled,
    MemberCame,
    MemberFacts,
    MemberGone,
    MemberMoved,
    Refused,
    TargetRefused,
)
from kohort.model import Millis, TopicPartition
from kohort.recorder.following import MOST_TRIGGERS, GroupRecorder, PendingRecord, RunningRebalance
from kohort.recorder.record import PartitionChange, RebalanceRecord, Trigger

_MOST_REFUSED = 50
"""Maximum number of refused targets that one record lists."""


@dataclass(slots=True, eq=False)
class ConsumerGroupRecorder(GroupRecorder):
    """Recorder for one group.

    A record lists only affected members: a large group has thousands of members that continue
    undisturbed.
    """

    _changes: dict[TopicPartition, PartitionChange] = field(default_factory=dict)
    """Changes of the rebalance in progress, and unread ones of the previous rebalance."""
    _came: dict[str, MemberFacts] = field(default_factory=dict)
    _went: dict[str, MemberFacts] = field(default_factory=dict)
    _reported: set[TopicPartition] = field(default_factory=set)
    """Dark partitions without an owner that a record has already reported."""
    _refused: list[Refused] = field(default_factory=list)
    """Refused targets of the rebalance in progress."""

    def bumped(self, event: GroupEpochBumped, now: Millis) -> RebalanceRecord | None:
        """Record that a change requires a new target; return the previous record, even if reads are missing."""
        trigger = Trigger(event.cause.value, event.member_id, event.reason)
        if self._running is not None:
            self._running.interrupted(trigger)
            return None
        self._running = RunningRebalance(now, [trigger], None)
        if self.written is not None:
            self._changes |= {partition: self.written.changes[partition] for partition in self.written.unread}
        return self._finish()

    def came(self, event: MemberCame) -> None:
        """Record that a member joined. It has no partitions yet."""
        self.members[event.member.member_id] = self._came[event.member.member_id] = event.member
        self.empty_since = None

    def removed(self, event: MemberGone, now: Millis) -> Set[TopicPartition]:
        """Record that a member is no longer in the group. All its partitions become dark.

        Returns the partitions whose first read is no longer awaited, as `moved` does.
        """
        member_id = event.member.member_id
        self._went_for(Trigger(event.cause.value, member_id, event.reason))
        self._came.pop(member_id, None)
        if len(self._went) >= MOST_TRIGGERS:
            del self._went[next(iter(self._went))]
        self._went[member_id] = event.member
        self.members.pop(member_id, None)
        return self._darken(self.holdings.held.get(member_id, set()), self._stopped_at(event, now))

    def moved(self, event: MemberMoved, now: Millis) -> Set[TopicPartition]:
        """Record that a member gave up or received partitions."""
        member_id = event.member.member_id
        self.members[member_id] = event.member
        self._seen[member_id] = now
        for partition in event.owes | event.gave_up:
            self.holdings.give(partition, member_id)  # after a failover, the recorder may not know the owner yet
        given_up = self._darken(event.gave_up, now)
        if event.took and self._running is None:
            # A static member takes over the partitions of its former member ID; no other member changes.
            self._running = RunningRebalance(now, self._gone[-1:], None)
        for partition in event.took:
            dark = self.holdings.dark.get(partition)
            previous, since = (None, None) if dark is None else (dark.previous_owner, dark.since)
            self._changes[partition] = PartitionChange(*partition, previous, member_id, since, now)
            self.holdings.give(partition, member_id)
            self.awaited[partition] = event.member
        return given_up

    def refused(self, event: TargetRefused) -> None:
        """Record that a target was refused: the rebalance's record then explains the delay."""
        if len(self._refused) < _MOST_REFUSED:
            self._refused.append(event.refused)

    def settled(self, event: GroupSettled, now: Millis) -> RebalanceRecord | None:
        """Record that every member has reached its target. The record waits for the new owners' first reads, if any.

        Returns the previous rebalance's record if it was unfinished.
        """
        earlier = self._finish()
        running = self._running or RunningRebalance(now, self._gone[-1:], None)
        changes = self._changes | self._left()
        before, after = self._concerned(running, changes)
        record = RebalanceRecord(
            group_id=self.group_id,
            generation=event.epoch,
            started_at=running.started_at,
            ended_at=now,
            triggers=tuple(running.triggers),
            protocol=event.assignor or None,
            before=before,
            after=after,
            size=len(self.members),
            gone=tuple(self._gone),
            weighed=event.weighed,
            refused=tuple(self._refused),
        )
        self.written = PendingRecord(record, changes, self.awaited.keys() & changes.keys())
        self._reported = self.holdings.dark.keys() - self.awaited.keys()
        self._running, self._changes, self._came, self._went, self._gone = None, {}, {}, {}, []
        self._refused = []
        self.empty_since = None if self.members else now
        return earlier

    def read(self, partition: TopicPartition, now: Millis) -> RebalanceRecord | None:
        """Record the first fetch of an awaited partition; return the record if it awaits no other read."""
        self._seen[self.awaited.pop(partition).member_id] = now
        self.holdings.dark.pop(partition, None)
        if partition in self._changes:
            self._changes[partition] = replace(self._changes[partition], first_read_at=now)
        if self.written is None or partition not in self.written.unread:
            return None
        self.written.changes[partition] = replace(self.written.changes[partition], first_read_at=now)
        self.written.unread.discard(partition)
        return self.complete()

    def _left(self) -> dict[TopicPartition, PartitionChange]:
        """Return partitions that were given up and have no new owner: no member subscribes to them, or none is left."""
        return {
            partition: PartitionChange(*partition, dark.previous_owner, None, dark.since)
            for partition, dark in self.holdings.dark.items()
            if partition not in self._changes and partition not in self.awaited and partition not in self._reported
        }

    def _concerned(
        self, running: RunningRebalance, changes: dict[TopicPartition, PartitionChange]
    ) -> tuple[tuple[MemberFacts, ...], tuple[MemberFacts, ...]]:
        """Return the affected members before and after.

        A member is affected if it joined, left or triggered the rebalance, or if any of its
        partitions changed hands.
        """
        named = {change.owner for change in changes.values()} | {c.previous_owner for c in changes.values()}
        named |= {trigger.member_id for trigger in running.triggers} | self._came.keys()
        after = {member_id: facts for member_id, facts in self.members.items() if member_id in named}
        stayed = {member_id: facts for member_id, facts in after.items() if member_id not in self._came}
        return tuple((stayed | self._went).values()), tuple(after.values())
