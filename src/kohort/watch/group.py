"""State of one group as its log tells it, and the records of its rebalances. Pure.

The recorder of Kohort's broker makes the records, from the events that the log proves. Facts that
no record of `__consumer_offsets` has are left out: when a classic group's rebalance began and when
its members stopped, which request was the cause, and first reads.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from kohort.group_events import (
    AssignmentMade,
    Cause,
    GroupEpochBumped,
    GroupEvent,
    GroupSettled,
    MemberCame,
    MemberFacts,
    MemberGone,
    MemberMoved,
    RebalanceStarted,
)
from kohort.model import UUID, Millis, TopicPartition
from kohort.recorder import Journal, RebalanceRecord
from kohort.watch.changes import (
    AssignmentWritten,
    CommitDeleted,
    Committed,
    EpochRaised,
    GenerationWritten,
    GroupChange,
    GroupDeleted,
    IdPartition,
    MemberDeleted,
    MemberWritten,
    TargetComputed,
)

MOST_REBALANCES = 1_000
"""Number of rebalances that are kept for each group."""

_AWAY = -2
"""Member epoch of a static member that left and may return (KIP-848)."""
_FIRST_EPOCHS = 2
"""Highest group epoch that the first member of a new group raises: 1 or 2, depending on the broker."""
_MOST_TRIGGERS = 20


@dataclass(slots=True)
class WatchedMember:
    """Member of a group."""

    facts: MemberFacts
    topics: frozenset[str] = frozenset()
    expression: str | None = None
    epoch: int | None = None
    """Member epoch in a consumer group; None until its first assignment, and in a classic group."""
    stable: bool = True
    """Whether it owes no revocation and waits for no partition."""
    owned: frozenset[TopicPartition] = frozenset()
    """Partitions that it processes, as far as their topics have names."""
    held: frozenset[IdPartition] | None = None
    """The same by topic ID, in a consumer group; None if no record has told it yet."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Committed offset, and the time of the commit; None if it is not in the part of the log that was read."""

    offset: int
    at: Millis | None


@dataclass(frozen=True, slots=True)
class GroupFound:
    """Group as an admin API describes it, for what precedes the history in the log."""

    group_id: str
    type: str
    state: str
    epoch: int | None
    target_epoch: int | None
    protocol: str | None
    protocol_type: str | None
    members: tuple[WatchedMember, ...]
    commits: Mapping[TopicPartition, int]


@dataclass(slots=True)
class WatchedGroup:
    """A group: `apply` changes it, and returns the records of the rebalances that are complete."""

    group_id: str
    type: str | None = None
    """`classic` or `consumer`; None for offsets without a group, such as those of manual assignments."""
    epoch: int | None = None
    """Generation of a classic group, group epoch of a consumer group."""
    target_epoch: int | None = None
    protocol: str | None = None
    protocol_type: str | None = None
    leader_id: str | None = None
    members: dict[str, WatchedMember] = field(default_factory=dict)
    commits: dict[TopicPartition, Commit] = field(default_factory=dict)
    rebalances: deque[RebalanceRecord] = field(default_factory=lambda: deque(maxlen=MOST_REBALANCES))
    described_state: str | None = None
    """State that an admin API reported, until the next change in the log."""
    _journal: Journal = field(default_factory=lambda: Journal(wait_ms=0))
    _complete: bool = False
    """Whether all members are known: the history begins before the group, or an admin API described it."""
    _moving: bool = False
    """Whether a consumer group has changes that no record reports yet."""
    _metadata_hash: int = 0
    _reasons: list[tuple[Cause, str]] = field(default_factory=list)
    """Causes for the next group epoch: the coordinator writes them before the epoch, in one batch."""

    @property
    def exists(self) -> bool:
        """Whether anything of the group is left."""
        return self.type is not None or bool(self.commits)

    @property
    def state(self) -> str:
        """State, named as in Kafka. The log does not have the states in which a classic group rebalances."""
        if self.described_state is not None:
            return self.described_state
        if not self.members:
            return "Empty" if self.exists else "Dead"
        if self.type == "classic":
            return "Stable"
        if self.target_epoch is not None and self.epoch is not None and self.target_epoch < self.epoch:
            return "Assigning"
        return "Stable" if self._settled else "Reconciling"

    @property
    def owners(self) -> dict[TopicPartition, str]:
        """Member ID of each partition's owner."""
        return {partition: member.facts.member_id for member in self.members.values() for partition in member.owned}

    @property
    def _settled(self) -> bool:
        return all(
            member.epoch == _AWAY or (member.stable and member.epoch == self.epoch) for member in self.members.values()
        )

    def found(self, group: GroupFound, now: Millis) -> None:
        """Take the state that an admin API described. It makes no record of a rebalance."""
        if self.type is None:
            facts = tuple(member.facts for member in group.members)
            owned = {member.facts.member_id: member.owned for member in group.members}
            if group.type == "classic":
                self._seed(AssignmentMade(self.group_id, group.epoch or 0, group.protocol, "", facts, owned), now)
            else:
                for member in group.members:
                    nothing = frozenset[TopicPartition]()
                    self._seed(
                        MemberMoved(self.group_id, member.facts, member.epoch or 0, member.owned, nothing, nothing), now
                    )
        self.type, self.protocol, self.protocol_type = group.type, group.protocol, group.protocol_type
        self.epoch = self.epoch if group.epoch is None else group.epoch
        self.target_epoch = self.target_epoch if group.target_epoch is None else group.target_epoch
        known = self.members
        self.members = {
            member.facts.member_id: replace(member, held=known[member.facts.member_id].held)
            if member.facts.member_id in known
            else member
            for member in group.members
        }
        for partition, offset in group.commits.items():
            commit = self.commits.get(partition)
            if commit is None or commit.offset != offset:
                self.commits[partition] = Commit(offset, None)
        self.described_state, self._complete = group.state, True

    def apply(self, change: GroupChange, names: Mapping[UUID, str]) -> list[RebalanceRecord]:
        """Apply a change, and return the records of the rebalances that it completes, oldest first."""
        match change:
            case Committed():
                self.commits[change.partition] = Commit(change.offset, change.at)
                return []
            case CommitDeleted():
                self.commits.pop(change.partition, None)
                return []
        self.described_state = None
        records: list[RebalanceRecord]
        match change:
            case GenerationWritten():
                records = self._generation(change)
            case GroupDeleted():
                records = self._deleted(change)
            case EpochRaised():
                records = self._epoch(change)
            case MemberWritten():
                records = self._member(change)
            case MemberDeleted():
                records = self._member_deleted(change)
            case TargetComputed():
                self.target_epoch = change.epoch
                records = self._settle(change.at)
            case AssignmentWritten():
                records = self._assignment(change, names)
            case _:
                assert_never(change)
        self.rebalances += records
        return records

    # -- classic groups

    def _generation(self, change: GenerationWritten) -> list[RebalanceRecord]:
        known = self.type == "classic"
        before, after = self.members, {member.facts.member_id: member for member in change.members}
        again = known and change.generation == self.epoch
        created = not known and change.generation == 0 and not after
        events = [] if again and before.keys() == after.keys() else self._of_generation(change, known, again)
        self.type, self.epoch, self._complete = "classic", change.generation, True
        self.protocol, self.protocol_type, self.leader_id = change.protocol, change.protocol_type, change.leader_id
        self.members = {
            member_id: WatchedMember(member.facts, member.topics, owned=member.assigned)
            for member_id, member in after.items()
        }
        records = self._observe(events, change.at)
        return [] if created else [_without_guesses(record) for record in records]

    def _of_generation(self, change: GenerationWritten, known: bool, again: bool) -> list[GroupEvent]:
        """Return the events that lead to this generation, without their unknown times."""
        before = self.members
        after = {member.facts.member_id for member in change.members}
        gone = [member.facts for member in before.values() if member.facts.member_id not in after]
        why = Cause.STATIC_MEMBER_RETURNED if again else Cause.MEMBER_GONE
        events: list[GroupEvent] = []
        if not again:
            events += [
                RebalanceStarted(self.group_id, change.generation, cause, member_id, None, change.protocol)
                for cause, member_id in self._reasons_of(change, known)
            ]
        events += [MemberGone(self.group_id, facts, why, None) for facts in gone]
        members = tuple(member.facts for member in change.members)
        assignment = {member.facts.member_id: member.assigned for member in change.members}
        made = AssignmentMade(
            self.group_id, change.generation, change.protocol, change.leader_id or "", members, assignment
        )
        return [*events, made]

    def _reasons_of(self, change: GenerationWritten, known: bool) -> list[tuple[Cause, str | None]]:
        """Return what differs from the last generation, at least `UNKNOWN`."""
        before, after = self.members, {member.facts.member_id: member for member in change.members}
        unknown: list[tuple[Cause, str | None]] = [(Cause.UNKNOWN, None)]
        if not known:
            return [(Cause.FIRST_MEMBER, next(iter(after)))] if change.generation == 1 and after else unknown
        gone = [(Cause.MEMBER_GONE, member_id) for member_id in before if member_id not in after]
        cause = Cause.MEMBER_JOINED if before else Cause.FIRST_MEMBER
        came = [(cause, member_id) for member_id in after if member_id not in before]
        if gone or came:
            return [*gone[:_MOST_TRIGGERS], *came[:_MOST_TRIGGERS]]
        subscribed = [member_id for member_id, member in after.items() if member.topics != before[member_id].topics]
        if subscribed:
            return [(Cause.SUBSCRIPTION_CHANGED, member_id) for member_id in subscribed[:_MOST_TRIGGERS]]
        return [(Cause.ASSIGNOR_CHANGED, None)] if change.protocol != self.protocol else unknown

    def _deleted(self, change: GroupDeleted) -> list[RebalanceRecord]:
        if change.type == self.type:
            self.type = self.epoch = self.target_epoch = self.protocol = self.leader_id = None
            self.members = {}
            self._journal = Journal(wait_ms=0)
            self._complete = self._moving = False
            self._reasons = []
        return []

    # -- consumer groups

    def _epoch(self, change: EpochRaised) -> list[RebalanceRecord]:
        last, self.type = self.epoch if self.type == "consumer" else None, "consumer"
        reasons, self._reasons = self._reasons, []
        hashes, self._metadata_hash = (self._metadata_hash, change.metadata_hash), change.metadata_hash
        self.epoch = change.epoch
        if last is not None and change.epoch <= last:
            return []  # read again after the log was truncated
        if last is None and reasons and change.epoch <= _FIRST_EPOCHS:
            self._complete = True
            reasons = [(Cause.FIRST_MEMBER, member_id) for _, member_id in reasons]
        # Each member writes a step for each epoch, so all of them have appeared by the second one.
        self._complete = self._complete or last is not None
        if not self._complete:
            reasons = [(cause, member_id) for cause, member_id in reasons if cause is Cause.MEMBER_GONE]
        if not reasons and all(hashes) and hashes[0] != hashes[1]:
            reasons = [(Cause.TOPICS_CHANGED, "")]
        self._moving = True
        events: list[GroupEvent] = [
            GroupEpochBumped(self.group_id, change.epoch, cause, member_id or None, None)
            for cause, member_id in (reasons or [(Cause.UNKNOWN, "")])[:_MOST_TRIGGERS]
        ]
        records = self._observe(events, change.at)
        return records + (self._settle(change.at) if not self.members else [])

    def _member(self, change: MemberWritten) -> list[RebalanceRecord]:
        self.type = self.type or "consumer"
        member_id = change.facts.member_id
        old = self.members.get(member_id)
        if old is None:
            cause = Cause.MEMBER_JOINED if self.members or not self._complete else Cause.FIRST_MEMBER
            self._reasons.append((cause, member_id))
            self.members[member_id] = WatchedMember(change.facts, change.topics, change.expression, stable=False)
        else:
            if (old.topics, old.expression) != (change.topics, change.expression):
                self._reasons.append((Cause.SUBSCRIPTION_CHANGED, member_id))
            old.facts, old.topics, old.expression = change.facts, change.topics, change.expression
        self.protocol = change.assignor or self.protocol
        return []

    def _member_deleted(self, change: MemberDeleted) -> list[RebalanceRecord]:
        member = self.members.pop(change.member_id, None)
        if member is None:
            return []
        away = member.epoch == _AWAY
        cause = Cause.STATIC_MEMBER_RETURNED if away else Cause.MEMBER_GONE
        self._reasons.append((cause, change.member_id))
        return self._observe([MemberGone(self.group_id, member.facts, cause, None)], change.at)

    def _assignment(self, change: AssignmentWritten, names: Mapping[UUID, str]) -> list[RebalanceRecord]:
        self.type = self.type or "consumer"
        member = self.members.get(change.member_id)
        if member is None:  # the record of its identity precedes the history
            member = self.members[change.member_id] = WatchedMember(MemberFacts(change.member_id, "", ""))
        events = self._steps(change, member, names)
        member.epoch, member.stable = change.epoch, change.stable
        member.held = change.assigned | change.revoking
        member.owned = _named(member.held, names)
        return self._observe(events, change.at) + self._settle(change.at)

    def _steps(self, change: AssignmentWritten, member: WatchedMember, names: Mapping[UUID, str]) -> list[GroupEvent]:
        nothing = frozenset[TopicPartition]()
        events: list[GroupEvent] = []
        assigned, revoking = _named(change.assigned, names), _named(change.revoking, names)
        if member.held is None and member.owned:
            old = member.owned  # an admin API described it
        elif member.held is not None:
            old = _named(member.held, names)
        elif change.previous_epoch > 0:
            # It joined before the history, and nothing tells what it had before this step. What it has
            # now is recorded as held, not as taken.
            return [MemberMoved(self.group_id, member.facts, change.epoch, assigned | revoking, nothing, nothing)]
        else:
            old = nothing
            events.append(MemberCame(self.group_id, member.facts))
        gave_up, took = old - assigned - revoking, assigned - old
        if gave_up or took or revoking:
            self._moving = True
            events.append(MemberMoved(self.group_id, member.facts, change.epoch, revoking, gave_up, took))
        return events

    def _settle(self, at: Millis) -> list[RebalanceRecord]:
        """Complete the rebalance if every member has reached its target."""
        reached = self.target_epoch is None or self.epoch is None or self.target_epoch >= self.epoch
        done = reached and self._settled if self.members else self._complete
        if not self._moving or not done:
            return []
        self._moving = False
        return self._observe([GroupSettled(self.group_id, self.epoch or 0, self.protocol or "")], at)

    # -- records

    def _observe(self, events: Iterable[GroupEvent], at: Millis) -> list[RebalanceRecord]:
        records = [record for event in events for record in self._journal.observe(event, at)]
        # Nobody sees first reads in the log, so no record waits for them.
        return [_without_unknown(record) for record in records + self._journal.expire(at)]

    def _seed(self, event: GroupEvent, at: Millis) -> None:
        self._observe([event], at)


def _named(partitions: Iterable[IdPartition], names: Mapping[UUID, str]) -> frozenset[TopicPartition]:
    """Return the partitions by name. Those of deleted topics no longer have one and are omitted."""
    return frozenset(TopicPartition(names[topic_id], number) for topic_id, number in partitions if topic_id in names)


def _without_unknown(record: RebalanceRecord) -> RebalanceRecord:
    triggers = tuple(trigger for trigger in record.triggers if trigger.cause != Cause.UNKNOWN.value)
    return replace(record, triggers=triggers)


def _without_guesses(record: RebalanceRecord) -> RebalanceRecord:
    """Leave out the times that the records of a classic group do not have: they only tell the result."""
    partitions = tuple(replace(change, revoked_at=None) for change in record.partitions)
    return replace(record, started_at=None, partitions=partitions)
