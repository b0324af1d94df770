"""What happened in a group, told to the recorder: facts in the order in which they happened, each with its cause.

Nobody changes them. Frozen, they would take four times as long to make, and a crowd that joins makes thousands.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from kohort.model import TopicPartition


class Cause(Enum):
    """Why a rebalance began; the value is what the journal prints."""

    FIRST_MEMBER = "first member"
    MEMBER_JOINED = "member joined"
    MEMBER_LEFT = "member left"
    SESSION_EXPIRED = "session expired"
    CONNECTION_LOST = "connection lost"
    SYNC_MISSED = "sync missed"
    POLL_TIMEOUT = "poll timeout"
    SUBSCRIPTION_CHANGED = "subscription changed"
    OWNED_CHANGED = "owned partitions changed"
    LEADER_REJOINED = "leader rejoined"
    STATIC_MEMBER_RETURNED = "static member returned"
    REBALANCE_TIMEOUT = "rebalance timeout"
    REMOVED_BY_ADMIN = "removed by an admin"
    GROUP_TOO_LARGE = "group larger than group.max.size"
    TOPICS_CHANGED = "topics changed"
    ASSIGNOR_CHANGED = "assignor changed"
    LOAD_CHANGED = "load changed"
    WEIGHT_CHANGED = "weight changed"
    REBALANCE_ENFORCED = "rebalance enforced"
    RECORDS_LOST = "records lost"


@dataclass(slots=True)
class Why:
    """What brought a rebalance about: the cause, who gave it, and what that member said (KIP-800)."""

    cause: Cause
    member_id: str | None = None
    reason: str | None = None


@dataclass(slots=True, unsafe_hash=True)
class MemberFacts:
    """Who a member is, as the broker saw it join."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None = None


@dataclass(slots=True)
class RebalanceStarted:
    """The group left Stable or Empty. `member_id` is who caused it, `reason` what that member said (KIP-800)."""

    group_id: str
    generation: int
    cause: Cause
    member_id: str | None
    reason: str | None
    protocol: str | None


@dataclass(slots=True)
class MemberRejoined:
    """A member's JoinGroup arrived in a rebalance: what it keeps processing is `owned`.

    None: it speaks an eager assignor (or does not say), so it has given up everything.
    """

    group_id: str
    member: MemberFacts
    owned: frozenset[TopicPartition] | None


@dataclass(slots=True)
class MemberGone:
    """A member left, was expelled or was replaced; whatever it owned is dark from now on."""

    group_id: str
    member: MemberFacts
    cause: Cause
    reason: str | None


@dataclass(slots=True)
class AssignmentMade:
    """The leader's assignment arrived: the rebalance is over and each member will be told its share.

    Without members: nobody is left, and the group is empty. The same generation again: a static member came back
    under a new id and took its assignment over without a rebalance.
    """

    group_id: str
    generation: int
    protocol: str | None
    leader_id: str
    members: tuple[MemberFacts, ...]
    assignment: Mapping[str, frozenset[TopicPartition]]
    """By member id; empty where the bytes are not those of the consumer protocol."""


# Of consumer groups (KIP-848), whose members move one by one.


@dataclass(slots=True)
class GroupEpochBumped:
    """The target assignment of a consumer group is to be computed anew; `member_id` is who caused it."""

    group_id: str
    epoch: int
    cause: Cause
    member_id: str | None
    reason: str | None


@dataclass(slots=True)
class MemberCame:
    """A member joined a consumer group. It has nothing yet."""

    group_id: str
    member: MemberFacts


@dataclass(slots=True)
class MemberMoved:
    """A member of a consumer group took a step toward its target, of which its heartbeat's answer tells it.

    Partitions of topics that are gone have no name any more, and are left out.
    """

    group_id: str
    member: MemberFacts
    epoch: int
    owes: frozenset[TopicPartition]
    """What it is told to give up, and still processes."""
    gave_up: frozenset[TopicPartition]
    """What it reported to have given up, or left behind for its next life (a static member that will return)."""
    took: frozenset[TopicPartition]
    """What it may process from now on."""


@dataclass(slots=True)
class Weighed:
    """What the assignor weighed for one member, in a sentence."""

    member_id: str
    reason: str


@dataclass(slots=True)
class GroupSettled:
    """Every member of a consumer group has what it should have; or nobody is left.

    `weighed` has members whose target changed since the group was settled last, of many only some.
    """

    group_id: str
    epoch: int
    assignor: str
    weighed: tuple[Weighed, ...] = ()


@dataclass(slots=True)
class Refused:
    """A target that does not count."""

    assignor: str
    member_id: str | None
    """The member that computed it; None for the coordinator."""
    reason: str


@dataclass(slots=True)
class TargetRefused:
    """An assignor failed, or its target for this group epoch cannot be: the last target counts on."""

    group_id: str
    epoch: int
    refused: Refused


@dataclass(slots=True)
class MemberRefused:
    """A member cannot be in the group as it is configured. Nothing changes in the group, which there may not be."""

    group_id: str
    member: MemberFacts
    """`member_id` is empty where it has none yet."""
    code: str
    """The name of the error code that it got."""
    reason: str


ClassicEvent = RebalanceStarted | MemberRejoined | AssignmentMade
ConsumerEvent = GroupEpochBumped | MemberCame | MemberMoved | GroupSettled | TargetRefused
GroupEvent = ClassicEvent | ConsumerEvent | MemberGone | MemberRefused
