"""State of one group as its log tells it, and the records of its rebalances. Pure.

The recorder of Kohort's broker makes the records, from the events that the log proves. Facts that
no record of `__consumer_offsets` has are left out: when a classic group's rebalance began, and which
request was the cause. Commits bound when members stopped and when they read first.
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
from kohort.watch.commits import Commit
from kohort.watch.darkness import MOST_PENDING, Darkness, is_same
from kohort.watch.generations import MOST_TRIGGERS, Before, LastGeneration, events_of
from kohort.watch.lag import EndOffsets

NO_ENDS: Mapping[TopicPartition, EndOffsets] = {}

REBALANCING = ("PreparingRebalance", "CompletingRebalance")
"""States in which a classic group rebalances: its members join, or wait for their assignment."""

MOST_REBALANCES = 1_000
"""Number of rebalances that are kept for each group."""

_AWAY = -2
"""Member epoch of a static member that left and may return (KIP-848)."""
_FIRST_EPOCHS = 2
"""Highest group epoch that the first member of a new group raises: 1 or 2, depending on the broker."""


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
    revoking_since: Millis | None = None
    """Time from which it owes a revocation; None if it owes none."""
    slowest_revocation_ms: Millis | None = None
    """Longest time that it took to give up partitions; None if it gave up none, and in a classic group."""


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
class _Former:
    """Group before its deletion. It goes on with the other protocol if that is written at the same time."""

    at: Millis
    type: str
    generation: int
    protocol: str | None
    members: dict[str, WatchedMember]


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
    _darkness: Darkness = field(default_factory=Darkness)
    _unowned: dict[TopicPartition, Millis] = field(default_factory=dict)
    """Time at which each partition lost its owner, if it has none."""
    _taken: dict[TopicPartition, str] = field(default_factory=dict)
    """Last owner of each partition that a cooperative assignor took from it in the last generation."""
    _former: _Former | None = None
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
    def deleted_at(self) -> Millis | None:
        """Time of its deletion; None if it was not deleted, or goes on with the other protocol."""
        return None if self._former is None else self._former.at

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
    def dark_now(self) -> dict[TopicPartition, Millis]:
        """Partitions that are known to have no owner, with the time since when.

        None are dark in a group without members, because nobody waits for it.
        """
        if not self.members:
            return {}
        topics = {topic for member in self.members.values() for topic in member.topics}
        matches_more = any(member.expression for member in self.members.values())
        return {
            partition: since for partition, since in self._unowned.items() if matches_more or partition.topic in topics
        }

    @property
    def waits(self) -> bool:
        """Whether more may become known of a record that was returned already."""
        return self._darkness.waits

    def is_pending(self, record: RebalanceRecord) -> bool:
        """Return whether more may become known of this record."""
        return self._darkness.is_pending(record)

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

    def apply(
        self,
        change: GroupChange,
        names: Mapping[UUID, str],
        ends: Mapping[TopicPartition, EndOffsets] = NO_ENDS,
    ) -> list[RebalanceRecord]:
        """Apply a change, and return the records of the rebalances that it completes, oldest first.

        A record of which more is known by now is returned again: it replaces the earlier one with the
        same generation and the same `ended_at`, here and in `rebalances`.

        - `names`: Names of topics by ID.
        - `ends`: End offsets over time, if they are sampled. They show which partitions stand still.
        """
        if self._darkness.waits:
            overdue = self.expire(change.at)
            if overdue:
                return [*overdue, *self.apply(change, names, ends)]
        match change:
            case Committed():
                return self._commit(change, ends.get(change.partition))
            case CommitDeleted():
                self.commits.pop(change.partition, None)
                return []
        self.described_state = None
        records: list[RebalanceRecord] = []
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
        return self._keep(records)

    def expire(self, now: Millis) -> list[RebalanceRecord]:
        """Stop to wait for first commits after a minute, and return the records of which more is known by now.

        `now` is the time up to which the log has been read, which is earlier than the present while
        history is read. A group without changes in its log needs this call.
        """
        return self._keep(self._darkness.expire(now)) if self._darkness.waits else []

    def _commit(self, change: Committed, ends: EndOffsets | None) -> list[RebalanceRecord]:
        before = self.commits.get(change.partition)
        self.commits[change.partition], amended = self._darkness.committed(
            change.partition, before, change.offset, change.at, ends, after_gap=change.after_gap
        )
        return [] if amended is None else self._keep([amended])

    def _keep(self, records: list[RebalanceRecord]) -> list[RebalanceRecord]:
        """Store records in `rebalances`, in place of those that they amend."""
        for record in records:
            newest = range(len(self.rebalances) - 1, max(-1, len(self.rebalances) - 3 * MOST_PENDING), -1)
            place = next((at for at in newest if is_same(self.rebalances[at], record)), None)
            if place is None:
                self.rebalances.append(record)
            else:
                self.rebalances[place] = record
        return records

    # -- classic groups

    def _generation(self, change: GenerationWritten) -> list[RebalanceRecord]:
        resumed = self.type is None and self._resume("classic", change.at)
        known = self.type == "classic"
        before, after = self.members, {member.facts.member_id: member for member in change.members}
        again = known and change.generation == self.epoch
        if resumed and again and after.keys() < before.keys():
            # The rebalance without the members that left is still to come, and shows them as gone.
            self.protocol, self.protocol_type, self.leader_id = change.protocol, change.protocol_type, change.leader_id
            return []
        created = not known and change.generation == 0 and not after
        events = [] if again and before.keys() == after.keys() else events_of(change, self._last if known else None)
        taken = self._taken_by(change, known)
        lost = self.owners.keys() - {partition for member in change.members for partition in member.assigned}
        self.type, self.epoch, self._complete = "classic", change.generation, True
        self.protocol, self.protocol_type, self.leader_id = change.protocol, change.protocol_type, change.leader_id
        self.members = {
            member_id: WatchedMember(member.facts, member.topics, owned=member.assigned)
            for member_id, member in after.items()
        }
        self._unowned |= dict.fromkeys(lost, change.at)
        for partition in self.owners:
            self._unowned.pop(partition, None)
        records = self._observe(events, change.at)
        if not again:
            self._taken = taken
            for partition in taken:
                self._darkness.told(partition, change.at)
        return [] if created else records

    @property
    def _last(self) -> LastGeneration:
        members = {
            member_id: Before(member.facts, member.topics, member.owned) for member_id, member in self.members.items()
        }
        return LastGeneration(self.epoch, self.protocol, members, self._taken, self._unowned.keys())

    def _taken_by(self, change: GenerationWritten, known: bool) -> dict[TopicPartition, str]:
        """Return the partitions that the generation takes from members that stay, and gives to none yet."""
        given = {partition for member in change.members for partition in member.assigned}
        stay = {member.facts.member_id: member.kept for member in change.members} if known else {}
        return {
            partition: member_id
            for member_id, kept in stay.items()
            if member_id in self.members
            for partition in (self.members[member_id].owned & kept) - given
        }

    def _deleted(self, change: GroupDeleted) -> list[RebalanceRecord]:
        if change.type != self.type:
            return []
        former = self._former
        gone = former.members if former is not None and former.at == change.at else {}
        self._former = _Former(change.at, change.type, self.epoch or 0, self.protocol, gone | self.members)
        self.type = self.epoch = self.target_epoch = self.protocol = self.leader_id = None
        self.members, self._unowned, self._taken = {}, {}, {}
        self._journal = Journal(wait_ms=0)
        self._darkness = Darkness(self._darkness.usual)
        self._complete = self._moving = False
        self._reasons = []
        return []

    def _resume(self, type_: str, at: Millis) -> bool:
        """Go on with the members of the other protocol, if the group was deleted at this time to change to this one."""
        former, self._former = self._former, None
        if former is None or former.at != at or former.type == type_:
            return False
        facts = tuple(member.facts for member in former.members.values())
        owned = {member_id: member.owned for member_id, member in former.members.items()}
        self.members = {
            member_id: WatchedMember(member.facts, member.topics, member.expression, owned=member.owned)
            for member_id, member in former.members.items()
        }
        self._seed(AssignmentMade(self.group_id, former.generation, former.protocol, "", facts, owned), at)
        self.type, self.epoch, self.protocol, self._complete = type_, former.generation, former.protocol, True
        return True

    # -- consumer groups

    def _epoch(self, change: EpochRaised) -> list[RebalanceRecord]:
        if self.type is None:
            self._resume("consumer", change.at)
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
            for cause, member_id in (reasons or [(Cause.UNKNOWN, "")])[:MOST_TRIGGERS]
        ]
        records = self._observe(events, change.at)
        return records + (self._settle(change.at) if not self.members else [])

    def _member(self, change: MemberWritten) -> list[RebalanceRecord]:
        if self.type is None:
            self._resume("consumer", change.at)
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
        self._unowned |= dict.fromkeys(member.owned, change.at)
        if self._former is None or self._former.at != change.at:
            self._former = _Former(change.at, "consumer", self.epoch or 0, self.protocol, {})
        self._former.members[change.member_id] = member  # the group may change to the classic protocol
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
        member.held, owned = change.assigned | change.revoking, member.owned
        member.owned = _named(member.held, names)
        self._time_revocation(member, owned & member.owned, _named(change.revoking, names), change.at)
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
            self._unowned |= dict.fromkeys(gave_up, change.at)
            for partition in took:
                since = self._unowned.pop(partition, None)
                if since is not None:
                    self._darkness.took(partition, self.commits.get(partition), unowned=since, at=change.at)
            events.append(MemberMoved(self.group_id, member.facts, change.epoch, revoking, gave_up, took))
        return events

    def _time_revocation(
        self,
        member: WatchedMember,
        kept: frozenset[TopicPartition],
        revoking: frozenset[TopicPartition],
        at: Millis,
    ) -> None:
        for partition in kept - revoking:
            self._darkness.kept(partition)
        for partition in revoking:
            self._darkness.told(partition, at)
        if member.revoking_since is not None:
            took = max(0, at - member.revoking_since)
            member.slowest_revocation_ms = max(took, member.slowest_revocation_ms or 0)
        member.revoking_since = (member.revoking_since or at) if revoking else None

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
        records += self._journal.expire(at)  # it is not told of first reads
        return [
            dated
            for record in records
            for dated in self._darkness.dated(_without_unknown(record, self.type), self.commits)
        ]

    def _seed(self, event: GroupEvent, at: Millis) -> None:
        self._journal.observe(event, at)
        self._journal.expire(at)


def _named(partitions: Iterable[IdPartition], names: Mapping[UUID, str]) -> frozenset[TopicPartition]:
    """Return the partitions by name. Those of deleted topics no longer have one and are omitted."""
    return frozenset(TopicPartition(names[topic_id], number) for topic_id, number in partitions if topic_id in names)


def _without_unknown(record: RebalanceRecord, type_: str | None) -> RebalanceRecord:
    """Leave out what the log does not tell: the records of a classic group only have the result."""
    triggers = tuple(trigger for trigger in record.triggers if trigger.cause != Cause.UNKNOWN.value)
    return replace(record, triggers=triggers, started_at=None if type_ == "classic" else record.started_at)
