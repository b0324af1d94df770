"""State of one group, which the steps of both protocols change, and the records of its rebalances. Pure.

The recorder of Kohort's broker makes the records, from the events that the log proves. Facts that
no record of `__consumer_offsets` has are left out: when a classic group's rebalance began, and which
request was the cause. Commits bound when members stopped and when they read first.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kohort.group_events import AssignmentMade, Cause, GroupEvent
from kohort.model import UUID, Millis, TopicPartition
from kohort.recorder import Journal, RebalanceRecord
from kohort.watch.changes import GroupDeleted, IdPartition
from kohort.watch.commits import Commit
from kohort.watch.darkness import MOST_PARTITIONS, Darkness, bound
from kohort.watch.group.members import Former, WatchedMember

MOST_REBALANCES = 1_000
"""Number of rebalances that are kept for each group."""

AWAY = -2
"""Member epoch of a static member that left and may return (KIP-848)."""


@dataclass(slots=True)
class GroupState:
    """What is known of a group. `classic` and `consumer` have the steps that change it."""

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
    listed_type: str | None = None
    """Type that brokers list for a group whose records are not followed: `streams` (KIP-1071)."""
    described_state: str | None = None
    """State that an admin API reported, until the next change in the log."""
    journal: Journal = field(default_factory=lambda: Journal(wait_ms=0))
    darkness: Darkness = field(default_factory=Darkness)
    unowned: dict[TopicPartition, Millis] = field(default_factory=dict)
    """Time at which each partition lost its owner, if it has none."""
    taken: dict[TopicPartition, str] = field(default_factory=dict)
    """Last owner of each partition that a cooperative assignor took from it in the last generation."""
    topics_changed_at: Millis | None = None
    """Time of the last generation that gave partitions because the topics changed."""
    former: Former | None = None
    complete: bool = False
    """Whether all members are known: the history begins before the group, or an admin API described it."""
    moving: bool = False
    """Whether a consumer group has changes that no record reports yet."""
    metadata_hash: int = 0
    reasons: list[tuple[Cause, str]] = field(default_factory=list)
    """Causes for the next group epoch: the coordinator writes them before the epoch, in one batch."""

    @property
    def shown_type(self) -> str | None:
        """Type, also of a group of which only state and offsets are known."""
        return self.listed_type if self.type is None else self.type

    @property
    def exists(self) -> bool:
        """Whether anything of the group is left."""
        return self.type is not None or bool(self.commits)

    @property
    def deleted_at(self) -> Millis | None:
        """Time of its deletion; None if it was not deleted, or goes on with the other protocol."""
        return None if self.former is None else self.former.at

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
        return "Stable" if self.settled else "Reconciling"

    @property
    def owners(self) -> dict[TopicPartition, str]:
        """Member ID of each partition's owner."""
        return {partition: member.facts.member_id for member in self.members.values() for partition in member.owned}

    @property
    def dark_now(self) -> dict[TopicPartition, Millis]:
        """Partitions that are known to have no reader, with the time since when.

        A static member that is away keeps its partitions, and does not read them. None are dark in a
        group without members, because nobody waits for it.
        """
        if not self.members:
            return {}
        away = {
            partition: member.away_since
            for member in self.members.values()
            if member.away_since is not None
            for partition in member.owned
        }
        topics = {topic for member in self.members.values() for topic in member.topics}
        matches_more = any(member.expression for member in self.members.values())
        return away | {
            partition: since for partition, since in self.unowned.items() if matches_more or partition.topic in topics
        }

    @property
    def settled(self) -> bool:
        """Whether every member of a consumer group has reached the group epoch."""
        return all(
            member.epoch == AWAY or (member.stable and member.epoch == self.epoch) for member in self.members.values()
        )

    def deleted(self, change: GroupDeleted) -> None:
        """Take the deletion of the group. It is remembered until the next change, which may show that it goes on."""
        if change.type != self.type:
            return
        former = self.former
        gone = former.members if former is not None and former.at == change.at else {}
        self.former = Former(change.at, change.type, self.epoch or 0, self.protocol, gone | self.members)
        self.type = self.epoch = self.target_epoch = self.protocol = self.leader_id = None
        self.members, self.unowned, self.taken = {}, {}, {}
        self.journal = Journal(wait_ms=0)
        self.darkness = Darkness(self.darkness.usual)
        self.complete = self.moving = False
        self.reasons = []

    def resume(self, type_: str, at: Millis) -> bool:
        """Go on with the members of the other protocol, if the group was deleted at this time to change to this one."""
        former, self.former = self.former, None
        if former is None or former.at != at or former.type == type_:
            return False
        facts = tuple(member.facts for member in former.members.values())
        owned = {member_id: member.owned for member_id, member in former.members.items()}
        self.members = {
            member_id: WatchedMember(member.facts, member.topics, member.expression, owned=member.owned)
            for member_id, member in former.members.items()
        }
        self.seed(AssignmentMade(self.group_id, former.generation, former.protocol, "", facts, owned), at)
        self.type, self.epoch, self.protocol, self.complete = type_, former.generation, former.protocol, True
        return True

    def observe(self, events: Iterable[GroupEvent], at: Millis) -> list[RebalanceRecord]:
        """Hand events to the recorder, and return the records that they complete, with the times of stops."""
        bound(self.unowned, MOST_PARTITIONS)
        records = [record for event in events for record in self.journal.observe(event, at)]
        records += self.journal.expire(at)  # it is not told of first reads
        return [
            dated
            for record in records
            for dated in self.darkness.dated(_without_unknown(record, self.type), self.commits)
        ]

    def own_named(self, names: Mapping[UUID, str]) -> bool:
        """Let members own what they hold in topics that have a name only now. Returns whether any does."""
        changed = False
        for member in self.members.values():
            owned = member.owned if member.held is None else member.owned | named(member.held, names)
            if owned != member.owned:
                member.owned, changed = owned, True
        return changed

    def seed(self, event: GroupEvent, at: Millis) -> None:
        """Hand an event to the recorder that makes no record: the state before the history."""
        self.journal.observe(event, at)
        self.journal.expire(at)


def named(partitions: Iterable[IdPartition], names: Mapping[UUID, str]) -> frozenset[TopicPartition]:
    """Return the partitions by name. Those of deleted topics no longer have one and are omitted."""
    return frozenset(TopicPartition(names[topic_id], number) for topic_id, number in partitions if topic_id in names)


def _without_unknown(record: RebalanceRecord, type_: str | None) -> RebalanceRecord:
    """Leave out what the log does not tell: the records of a classic group only have the result."""
    triggers = tuple(trigger for trigger in record.triggers if trigger.cause != Cause.UNKNOWN.value)
    return replace(record, triggers=triggers, started_at=None if type_ == "classic" else record.started_at)
