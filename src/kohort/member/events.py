"""Events for a member: from its application, from the cluster and from its timers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from kohort.errors import ErrorCode
from kohort.member.offsets import OffsetAndMetadata
from kohort.model import UUID, Millis, TopicPartition
from kohort.wire.codec import Message


class MemberTimer(Enum):
    """Timers of a member; it has at most one of each."""

    HEARTBEAT = "heartbeat"
    RETRY = "retry"
    POLL = "poll"
    COMMIT = "commit"


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Subscription by the application; it replaces the previous one.

    It may be empty: a pattern that matches nothing yet makes a member that waits, as in Java.
    `expression` subscribes to all topics that match it, evaluated by the coordinator (RE2; KIP-848).
    """

    topics: frozenset[str]
    expression: str | None = None


@dataclass(frozen=True, slots=True)
class Weigh:
    """Weight of the member relative to others, set by the application; 0 for no partitions. Consumer groups only."""

    weight: float


@dataclass(frozen=True, slots=True)
class Rejoin:
    """Change of the user data that the assignor reports, and a request for a new assignment.

    Without a reason, the change is only reported, and takes effect with the next assignment.
    """

    reason: str | None


@dataclass(frozen=True, slots=True)
class MetadataChanged:
    """Partition counts in the cluster. A topic of `asked` that is not in `partitions` does not exist.

    `racks` contains the racks of each partition's replicas, as far as they are known (KIP-881). `names`
    contains the names of all known topics by ID.
    """

    partitions: Mapping[str, int]
    asked: frozenset[str]
    racks: Mapping[TopicPartition, frozenset[str]] = field(default_factory=dict)
    names: Mapping[UUID, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CoordinatorFound:
    """Success of the requested look-up: from now on, requests reach the coordinator."""


@dataclass(frozen=True, slots=True)
class CoordinatorUnavailable:
    """Failure of the requested look-up."""

    code: ErrorCode


@dataclass(frozen=True, slots=True)
class Responded:
    """Response to the request with that number."""

    request: int
    response: Message


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """Loss of a request: the connection failed or the request timed out. The coordinator may have executed it."""

    request: int
    code: ErrorCode = ErrorCode.NETWORK_EXCEPTION


@dataclass(frozen=True, slots=True)
class PollStarted:
    """Start of a poll: the application is alive and waits for records."""


@dataclass(frozen=True, slots=True)
class PollEnded:
    """End of a poll: the application processes its records, and max.poll.interval.ms starts."""


@dataclass(frozen=True, slots=True)
class CallbackDone:
    """Completion of the last revoke, lost or assign callback by the application."""


@dataclass(frozen=True, slots=True)
class CommitRequested:
    """Request to commit offsets; `Actions.settled` reports the result under the same number by `deadline_at`."""

    commit: int
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    deadline_at: Millis


@dataclass(frozen=True, slots=True)
class TimerFired:
    """Expiry of a timer."""

    timer: MemberTimer


@dataclass(frozen=True, slots=True)
class Leave:
    """Request to give up all partitions and leave the group.

    A static member keeps its place in the group for its session, unless `for_good`.
    """

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
    | CommitRequested
    | TimerFired
    | Leave
)
