"""What a member asks of the shell around it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kohort.errors import ErrorCode, KafkaError
from kohort.member.events import MemberTimer
from kohort.model import UUID, Millis, TopicPartition
from kohort.wire.codec import Message


@dataclass(frozen=True, slots=True)
class Send:
    """Send `message` to the coordinator; answer with `Responded` or `RequestFailed` under the same number.

    `timeout_ms` is set where the coordinator may hold the answer longer than request.timeout.ms.
    """

    request: int
    message: Message
    timeout_ms: Millis | None = None


@dataclass(frozen=True, slots=True)
class CommitSettled:
    """How a commit ended. A partition that is not in `errors` is committed."""

    commit: int
    errors: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)


@dataclass(slots=True)
class Actions:
    """What to do, in the order of the fields.

    At most one of `revoke`, `lost` and `assign` is set, and no further one comes until `CallbackDone`.
    """

    timers: dict[MemberTimer, Millis | None] = field(default_factory=dict)
    """When to fire each; None cancels."""
    find_coordinator: bool = False
    """Look the group's coordinator up afresh; answer with `CoordinatorFound` or `CoordinatorUnavailable`."""
    send: list[Send] = field(default_factory=list)
    metadata: frozenset[str] | None = None
    """The topics whose partition counts the member wants to be told, now and whenever they change."""
    topic_ids: frozenset[UUID] | None = None
    """Set with `metadata`: the topics whose names it wants to be told, as soon as they are known."""
    revoke: frozenset[TopicPartition] | None = None
    """Stop processing these. Commits of them still work until `CallbackDone`."""
    lost: frozenset[TopicPartition] | None = None
    """These belong to others already: forget them, commit nothing."""
    assign: frozenset[TopicPartition] | None = None
    """Newly won; an empty set says that the rebalance brought nothing new."""
    settled: list[CommitSettled] = field(default_factory=list)
    warning: str | None = None
    """For the log: something went otherwise than the application's people wished, and the member goes on."""
    error: KafkaError | None = None
    """The member is out of the group and stays out until it subscribes again."""
