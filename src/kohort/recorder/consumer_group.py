"""One consumer group (KIP-848) as the recorder follows it: members move one by one, and only who must stops anything.

A rebalance lasts from the first change that calls for a new target until every member has arrived at it.
"""

from collections.abc import Set
from dataclasses import dataclass, field, replace

from kohort.coordinator.events import (
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
from kohort.recorder.following import Following, Running, Written
from kohort.recorder.record import PartitionChange, RebalanceRecord, Trigger

_MOST_REFUSED = 50
"""Refused targets that one record lists."""


@dataclass(slots=True, eq=False)
class ConsumerGroupJournal(Following):
    """Follows one group.

    A record names only the members that something happened to: a large group has thousands that went on undisturbed.
    """

    _changes: dict[TopicPartition, PartitionChange] = field(default_factory=dict)
    """Of the rebalance under way, and of the one before what is not read yet."""
    _came: dict[str, MemberFacts] = field(default_factory=dict)
    _went: dict[str, MemberFacts] = field(default_factory=dict)
    _told: set[TopicPartition] = field(default_factory=set)
    """Dark, without an owner, and said so in a record."""
    _refused: list[Refused] = field(default_factory=list)
    """Of the rebalance under way."""

    def bumped(self, event: GroupEpochBumped, now: Millis) -> RebalanceRecord | None:
        """Something calls for another target; the record of the rebalance before is written as it stands."""
        trigger = Trigger(event.cause.value, event.member_id, event.reason)
        if self._running is not None:
            self._running.triggers.append(trigger)
            return None
        self._running = Running(now, [trigger], None)
        if self.written is not None:
            self._changes |= {partition: self.written.changes[partition] for partition in self.written.unread}
        return self._finish()

    def came(self, event: MemberCame) -> None:
        """A member is there, with nothing yet."""
        self.members[event.member.member_id] = self._came[event.member.member_id] = event.member
        self.empty_since = None

    def removed(self, event: MemberGone, now: Millis) -> Set[TopicPartition]:
        """A member is no longer in the group; whatever it had is dark.

        Returns what is not awaited any more, as does `moved`.
        """
        member_id = event.member.member_id
        self._gone.append(Trigger(event.cause.value, member_id, event.reason))
        self._went[member_id] = event.member
        self.members.pop(member_id, None)
        return self._darken(self.holdings.held.get(member_id, set()), now)

    def moved(self, event: MemberMoved, now: Millis) -> Set[TopicPartition]:
        """A member gave something up, or took something."""
        member_id = event.member.member_id
        self.members[member_id] = event.member
        for partition in event.owes | event.gave_up:
            self.holdings.give(partition, member_id)  # after a failover this may be the first that is heard of it
        given_up = self._darken(event.gave_up, now)
        if event.took and self._running is None:
            # A static member takes over from its life before; nobody else moves for that.
            self._running = Running(now, self._gone[-1:], None)
        for partition in event.took:
            dark = self.holdings.dark.get(partition)
            previous, since = (None, None) if dark is None else (dark.previous_owner, dark.since)
            self._changes[partition] = PartitionChange(*partition, previous, member_id, since, now)
            self.holdings.give(partition, member_id)
            self.awaited[partition] = event.member
        return given_up

    def refused(self, event: TargetRefused) -> None:
        """A target does not count. The record of the rebalance tells why it took so long."""
        if len(self._refused) < _MOST_REFUSED:
            self._refused.append(event.refused)

    def settled(self, event: GroupSettled, now: Millis) -> RebalanceRecord | None:
        """Everybody has arrived; the record waits for the new owners' first reads, unless there are none."""
        earlier = self._finish()
        running = self._running or Running(now, self._gone[-1:], None)
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
        self.written = Written(record, changes, self.awaited.keys() & changes.keys())
        self._told = self.holdings.dark.keys() - self.awaited.keys()
        self._running, self._changes, self._came, self._went, self._gone = None, {}, {}, {}, []
        self._refused = []
        self.empty_since = None if self.members else now
        return earlier

    def read(self, partition: TopicPartition, now: Millis) -> RebalanceRecord | None:
        """The awaited member fetched the partition; the record is complete if that was the last to wait for."""
        del self.awaited[partition]
        self.holdings.dark.pop(partition, None)
        if partition in self._changes:
            self._changes[partition] = replace(self._changes[partition], first_read_at=now)
        if self.written is None or partition not in self.written.unread:
            return None
        self.written.changes[partition] = replace(self.written.changes[partition], first_read_at=now)
        self.written.unread.discard(partition)
        return self.complete()

    def _left(self) -> dict[TopicPartition, PartitionChange]:
        """What was given up and has no new owner: nobody asks for it any more, or nobody is left."""
        return {
            partition: PartitionChange(*partition, dark.previous_owner, None, dark.since)
            for partition, dark in self.holdings.dark.items()
            if partition not in self._changes and partition not in self.awaited and partition not in self._told
        }

    def _concerned(
        self, running: Running, changes: dict[TopicPartition, PartitionChange]
    ) -> tuple[tuple[MemberFacts, ...], tuple[MemberFacts, ...]]:
        """The members before and after that came, went, gave the cause, gave up or took something."""
        named = {change.owner for change in changes.values()} | {c.previous_owner for c in changes.values()}
        named |= {trigger.member_id for trigger in running.triggers} | self._came.keys()
        after = {member_id: facts for member_id, facts in self.members.items() if member_id in named}
        stayed = {member_id: facts for member_id, facts in after.items() if member_id not in self._came}
        return tuple((stayed | self._went).values()), tuple(after.values())
