"""Events of a group for the recorder: facts in the order in which they happened, each with its cause.

Events are immutable by convention. Freezing them would make them four times as expensive to create,
and a large number of members that join creates thousands.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from kohort.model import Millis, TopicPartition


class Cause(Enum):
    """Reason why a rebalance began; the value is what the journal prints."""

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
    MEMBER_GONE = "member left or expired"
    """For observers of the log, which cannot tell one from the other. A coordinator never reports it."""
    UNKNOWN = "unknown"
    """For observers of the log. A coordinator never reports it."""


@dataclass(slots=True)
class RebalanceReason:
    """What caused a rebalance: the cause, the member behind it, and the reason which that member gave (KIP-800)."""

    cause: Cause
    member_id: str | None = None
    reason: str | None = None


@dataclass(slots=True, unsafe_hash=True)
class MemberFacts:
    """Identity of a member, as the broker saw it join."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None = None


@dataclass(slots=True)
class RebalanceStarted:
    """Start of a rebalance: the group left Stable or Empty.

    `member_id` is the member that caused it, `reason` the reason which that member gave (KIP-800).
    """

    group_id: str
    generation: int
    cause: Cause
    member_id: str | None
    reason: str | None
    protocol: str | None


@dataclass(slots=True)
class MemberRejoined:
    """Arrival of a member's JoinGroup in a rebalance; `owned` is what it keeps processing.

    None means that its assignor is eager (or does not report it), so it has given up everything.
    """

    group_id: str
    member: MemberFacts
    owned: frozenset[TopicPartition] | None


@dataclass(slots=True)
class MemberGone:
    """End of a membership: the member left, was removed or was replaced.

    No member processes the partitions that it owned: from now on, or since `silent_since` if it
    disappeared without leaving.
    """

    group_id: str
    member: MemberFacts
    cause: Cause
    reason: str | None
    silent_since: Millis | None = None
    """Time of its last sign of life: its last request to the coordinator, or the end of its connection."""


@dataclass(slots=True)
class AssignmentMade:
    """Arrival of the leader's assignment: the rebalance is over and each member will receive its share.

    Without members, the group is empty. With an unchanged generation, a static member returned under
    a new ID and took over its assignment without a rebalance.
    """

    group_id: str
    generation: int
    protocol: str | None
    leader_id: str
    members: tuple[MemberFacts, ...]
    assignment: Mapping[str, frozenset[TopicPartition]]
    """Partitions by member ID; empty where the bytes are not those of the consumer protocol."""


# Events of consumer groups (KIP-848), whose members move one by one.


@dataclass(slots=True)
class GroupEpochBumped:
    """New group epoch: a consumer group needs a new target assignment. `member_id` is the member that caused it."""

    group_id: str
    epoch: int
    cause: Cause
    member_id: str | None
    reason: str | None


@dataclass(slots=True)
class MemberCame:
    """Arrival of a member in a consumer group. It has no partitions yet."""

    group_id: str
    member: MemberFacts


@dataclass(slots=True)
class MemberMoved:
    """Step of a consumer group's member toward its target; the answer to its heartbeat reports it.

    Partitions of deleted topics no longer have a name and are omitted.
    """

    group_id: str
    member: MemberFacts
    epoch: int
    owes: frozenset[TopicPartition]
    """Partitions that it must give up, and still processes."""
    gave_up: frozenset[TopicPartition]
    """Partitions that it reported to have given up, or left for its return (a static member that will rejoin)."""
    took: frozenset[TopicPartition]
    """Partitions that it may process from now on."""


@dataclass(slots=True)
class Weighed:
    """Values that the assignor weighed for one member, as a sentence."""

    member_id: str
    reason: str


@dataclass(slots=True)
class GroupSettled:
    """End of a consumer group's reconciliation: every member has its target, or no member is left.

    `weighed` lists members whose target changed since the group last settled, and only some if there
    are many.
    """

    group_id: str
    epoch: int
    assignor: str
    weighed: tuple[Weighed, ...] = ()


@dataclass(slots=True)
class Refused:
    """A rejected target assignment."""

    assignor: str
    member_id: str | None
    """ID of the member that computed it; None for the coordinator."""
    reason: str


@dataclass(slots=True)
class TargetRefused:
    """Failure of an assignor, or an invalid target for this group epoch; the previous target remains in force."""

    group_id: str
    epoch: int
    refused: Refused


@dataclass(slots=True)
class MemberRefused:
    """Rejection of a member because of its configuration. The group, which may not exist, does not change."""

    group_id: str
    member: MemberFacts
    """`member_id` is empty if the member has none yet."""
    code: str
    """Name of the error code that the member received."""
    reason: str


class HoldUpEnd(Enum):
    """End of a hold-up; the value is what the journal prints."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    DELETED = "offsets deleted"


@dataclass(slots=True)
class OffsetsHeldUp:
    """Members waited long for offsets that an open transaction has committed, and still wait if `end` is None.

    The group does not change.
    """

    group_id: str
    producer_id: int
    transactional_id: str | None
    """None if the coordinator has loaded the offsets from its log, which does not have it."""
    partitions: tuple[TopicPartition, ...]
    """Partitions with pending offsets of this transaction."""
    pending_since: Millis
    """Time of the oldest of these offsets."""
    waiting_since: Millis
    """Time at which a member was first told to wait. A failover starts anew."""
    end: HoldUpEnd | None = None
    log_partition: int | None = None
    """Partition of `__consumer_offsets` with the offsets; the shell sets it."""


ClassicEvent = RebalanceStarted | MemberRejoined | AssignmentMade
ConsumerEvent = GroupEpochBumped | MemberCame | MemberMoved | GroupSettled | TargetRefused
GroupEvent = ClassicEvent | ConsumerEvent | MemberGone | MemberRefused | OffsetsHeldUp
