"""Actions that a member requests from the shell around it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kohort.errors import ErrorCode, KafkaError
from kohort.member.events import MemberTimer
from kohort.model import UUID, Millis, TopicPartition
from kohort.wire.codec import Message


@dataclass(frozen=True, slots=True)
class Send:
    """Request to the coordinator; the shell replies with `Responded` or `RequestFailed` under the same number.

    `timeout_ms` is set if the coordinator may hold the answer longer than request.timeout.ms.
    """

    request: int
    message: Message
    timeout_ms: Millis | None = None


@dataclass(frozen=True, slots=True)
class CommitSettled:
    """Result of a commit. Every partition that is not in `errors` is committed."""

    commit: int
    errors: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)


@dataclass(slots=True)
class Actions:
    """Actions to carry out, in the order of the fields.

    At most one of `revoke`, `lost` and `assign` is set; the next one follows only after `CallbackDone`.
    """

    timers: dict[MemberTimer, Millis | None] = field(default_factory=dict)
    """Time at which to fire each timer; None cancels it."""
    find_coordinator: bool = False
    """Whether to look up the group's coordinator; reply with `CoordinatorFound` or `CoordinatorUnavailable`."""
    send: list[Send] = field(default_factory=list)
    metadata: frozenset[str] | None = None
    """Topics whose partition counts the member needs, now and whenever they change."""
    topic_ids: frozenset[UUID] | None = None
    """IDs of topics whose names the member needs as soon as they are known; set with `metadata`."""
    revoke: frozenset[TopicPartition] | None = None
    """Partitions to stop processing. They can still be committed until `CallbackDone`."""
    lost: frozenset[TopicPartition] | None = None
    """Partitions that other members may own already: forget them without a commit."""
    deleted: bool = False
    """Whether the lost partitions have no owner, because their topics were deleted."""
    assign: frozenset[TopicPartition] | None = None
    """Newly assigned partitions; empty if the rebalance assigned none."""
    settled: list[CommitSettled] = field(default_factory=list)
    warning: str | None = None
    """Message for the log about a problem that users should know of; the member continues."""
    error: KafkaError | None = None
    """Fatal error: the member is out of the group until the application subscribes again."""
