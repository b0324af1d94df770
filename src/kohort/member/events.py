"""What a member is told: by its application, by the cluster, by its timers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from kohort.errors import ErrorCode
from kohort.member.offsets import OffsetAndMetadata
from kohort.model import UUID, Millis, TopicPartition
from kohort.wire.codec import Message


class MemberTimer(Enum):
    """The member's timers; a member has each at most once."""

    HEARTBEAT = "heartbeat"
    RETRY = "retry"
    POLL = "poll"
    COMMIT = "commit"


@dataclass(frozen=True, slots=True)
class Subscribe:
    """The application wants these topics, instead of what it wanted before.

    None is as good as some: a pattern that matches nothing yet makes a member that waits, as Java's.
    `expression` is what else it wants: all topics whose names match, as the coordinator finds them (RE2; KIP-848).
    """

    topics: frozenset[str]
    expression: str | None = None


@dataclass(frozen=True, slots=True)
class Weigh:
    """The application wants this much beside other members, or nothing (0). In consumer groups only."""

    weight: float


@dataclass(frozen=True, slots=True)
class Rejoin:
    """What the member's assignor tells of it has changed, and the application wants the assignment computed anew.

    Without a reason it only wants that to be known, so that it counts whenever the assignment is computed next.
    """

    reason: str | None


@dataclass(frozen=True, slots=True)
class MetadataChanged:
    """Partition counts as the cluster reports them. A topic of `asked` that is not in `partitions` does not exist.

    `racks` are those of each partition's replicas, as far as they are known (KIP-881); `names` are those of all topics
    that are known, by id.
    """

    partitions: Mapping[str, int]
    asked: frozenset[str]
    racks: Mapping[TopicPartition, frozenset[str]] = field(default_factory=dict)
    names: Mapping[UUID, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CoordinatorFound:
    """The look-up that the member asked for succeeded: its requests reach the coordinator from now on."""


@dataclass(frozen=True, slots=True)
class CoordinatorUnavailable:
    """The look-up that the member asked for failed."""

    code: ErrorCode


@dataclass(frozen=True, slots=True)
class Responded:
    """The answer to the request of that number."""

    request: int
    response: Message


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """No answer will come: the connection was lost or the request timed out. It may have been carried out."""

    request: int
    code: ErrorCode = ErrorCode.NETWORK_EXCEPTION


@dataclass(frozen=True, slots=True)
class PollStarted:
    """The application asks for records (again): it is alive and waits for us."""


@dataclass(frozen=True, slots=True)
class PollEnded:
    """The application has its records and works on them; from now on max.poll.interval.ms runs."""


@dataclass(frozen=True, slots=True)
class CallbackDone:
    """The application has completed the revoke, lost or assign that it was last given."""


@dataclass(frozen=True, slots=True)
class CommitAsked:
    """Commit these offsets; `Actions.settled` answers with the same number, at the latest at `deadline_at`."""

    commit: int
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    deadline_at: Millis


@dataclass(frozen=True, slots=True)
class TimerFired:
    """That timer's time has come."""

    timer: MemberTimer


@dataclass(frozen=True, slots=True)
class Leave:
    """Give up all partitions, then leave the group. A static member only falls silent, unless it leaves for good."""

    reason: str = "the member closes"
    for_good: bool = False


Event = (
    Subscribe
    | Weigh
    | Rejoin
    | MetadataChanged
    | CoordinatorFound
    | CoordinatorUnavailable
    | Responded
    | RequestFailed
    | PollStarted
    | PollEnded
    | CallbackDone
    | CommitAsked
    | TimerFired
    | Leave
)
