"""One classic group as the recorder follows it: who processes what, what is dark, and the rebalance under way."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from kohort.coordinator.events import AssignmentMade, MemberGone, MemberRejoined, RebalanceStarted
from kohort.model import Millis, TopicPartition
from kohort.recorder.following import Following, Running, Written
from kohort.recorder.holdings import Dark
from kohort.recorder.record import PartitionChange, RebalanceRecord, Trigger


@dataclass(slots=True, eq=False)
class GroupJournal(Following):
    """Follows one classic group."""

    _carried: dict[TopicPartition, PartitionChange] = field(default_factory=dict)
    """Changes that a record had to be written without the end of; they belong to the rebalance that ends them."""
    _orphans: set[TopicPartition] = field(default_factory=set)
    """Given to nobody, and said so in a record."""
    _generation: int | None = None
    _losers: Set[str] = frozenset()
    """Members that still process something which the last assignment gave to nobody."""

    def started(self, event: RebalanceStarted, now: Millis) -> RebalanceRecord | None:
        """Something made a rebalance necessary; the record of the one before is written as it stands."""
        trigger = Trigger(event.cause.value, event.member_id, event.reason)
        if self._running is not None:
            # It stopped before its assignment came, as when the leader never sends one: one disturbance, not two.
            self._running.triggers.append(trigger)
            return None
        # KIP-429: who has given up what the assignment took from it joins again, so that others can have it.
        follow_up = event.member_id in self._losers
        self._running = Running(now, [trigger], self._generation if follow_up else None)
        if self.written is not None:
            self._carried = {partition: self.written.changes[partition] for partition in self.written.unread}
        return self._finish()

    def rejoined(self, event: MemberRejoined, now: Millis) -> Set[TopicPartition]:
        """A member has stopped what it does not list as owned (cooperative), or everything (eager).

        Returns what is not awaited any more, as does `removed`.
        """
        member_id, kept = event.member.member_id, event.owned or frozenset()
        if kept and self._generation is None:
            # After a failover this is the first that the recorder hears of who is there and has what.
            self.members[member_id] = event.member
            for partition in kept:
                self.holdings.give(partition, member_id)
        return self._darken(self.holdings.held.get(member_id, set()) - kept, now)

    def removed(self, event: MemberGone, now: Millis) -> Set[TopicPartition]:
        """A member is no longer in the group; whatever it had is dark."""
        member_id = event.member.member_id
        self._gone.append(Trigger(event.cause.value, member_id, event.reason))
        if self._generation is None and self._running is None:
            self.members[member_id] = event.member  # it was in a generation of before the failover
        return self._darken(self.holdings.held.get(member_id, set()), now)

    def assigned(self, event: AssignmentMade, now: Millis) -> RebalanceRecord | None:
        """The rebalance is over; its record waits for the new owners' first reads, unless there are none."""
        earlier = self._finish()
        # Without a beginning: a static member took over what its earlier life had.
        running = self._running or Running(now, self._gone[:1], None)
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
        self.written = Written(record, changes, set(self.awaited))
        for partition, member_id in given.items():
            self.holdings.give(partition, member_id)
        self._orphans = self.holdings.owner.keys() - given.keys()
        self._losers = {
            self.holdings.owner[partition] for partition in self._orphans - self.holdings.dark.keys()
        } & after.keys()
        self.members, self._generation = after, event.generation
        self._gone, self._carried, self._running = [], {}, None
        self.empty_since = None if after else now
        return earlier

    def read(self, partition: TopicPartition, now: Millis) -> RebalanceRecord | None:
        """The awaited member fetched the partition; the record is complete if that was the last to wait for."""
        del self.awaited[partition]
        self.holdings.dark.pop(partition, None)
        if self.written is None:
            # Read while the next rebalance runs, which in a cooperative group stops nobody: its darkness ends in that.
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
                # Given away under its owner's hands: the assignor was not cooperative, or the claim was stale.
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
