"""Rejected members: the error code, which is Apache Kafka's, and a reason for the operator.

A code such as INCONSISTENT_GROUP_PROTOCOL has many causes, and a client shows only the code. So each
rejection that requires a change of configuration is an event, for the log and the journal. Codes of
the normal protocol (UNKNOWN_MEMBER_ID, MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS) are not.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kohort.coordinator.config import GroupConfig, MigrationPolicy
from kohort.coordinator.effects import Effects, RequestContext
from kohort.coordinator.subscriptions import are_readable
from kohort.errors import ErrorCode
from kohort.group_events import MemberFacts, MemberRefused
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest

TOO_LARGE = ErrorCode.UNKNOWN_SERVER_ERROR
"""Kafka fails to write the group's record in this case and has no better code; clients treat it as fatal."""

_NEEDS_OPERATOR = frozenset(
    {
        TOO_LARGE,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
    }
)


@dataclass(frozen=True, slots=True)
class RefusingGroup:
    """Requirements of a group for its members, which a rejected classic member does not meet."""

    max_size: int
    max_size_setting: str
    """Name of the setting that limits its size."""
    protocol_type: str | None
    """Protocol type that members must have; None for any."""
    assignors: Collection[str]
    """Assignors that all classic members support."""
    migration_policy: MigrationPolicy | None = None
    """Policy that must allow migration, if the group has members that use the consumer protocol."""


def subscription_size(protocols: Mapping[str, bytes]) -> int:
    """Return the total size of a classic member's subscriptions for all its assignors, in bytes."""
    return sum(map(len, protocols.values()))


def too_large(size: int, limit: int) -> str:
    """Return the reason that accompanies TOO_LARGE."""
    return (
        f"its subscription has {size} bytes, more than the {limit} that fit into a record of __consumer_offsets:"
        " subscribe to fewer topics or by a regular expression, or send less user data"
    )


def join_refused_because(
    config: GroupConfig,
    group: RefusingGroup,
    request: JoinGroupRequest,
    protocols: Mapping[str, bytes],
    code: ErrorCode,
    context: RequestContext,
    out: Effects,
) -> None:
    """Record why a JoinGroup was rejected with `code`, if a change of configuration is required."""
    if code not in _NEEDS_OPERATOR:
        return
    match code:
        case ErrorCode.GROUP_MAX_SIZE_REACHED:
            reason = f"the group has all {group.max_size} members that {group.max_size_setting} allows"
        case ErrorCode.INVALID_SESSION_TIMEOUT:
            reason = (
                f"its session.timeout.ms {request.session_timeout_ms} is not between {config.min_session_timeout_ms}"
                f" (group.min.session.timeout.ms) and {config.max_session_timeout_ms} (group.max.session.timeout.ms)"
            )
        case ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            reason = _why_inconsistent(group, request.protocol_type, protocols)
        case _:
            reason = too_large(subscription_size(protocols), config.max_subscription_bytes)
    facts = MemberFacts(request.member_id, context.client_id, context.client_host, request.group_instance_id)
    out.events.append(MemberRefused(request.group_id, facts, code.name, reason))


def heartbeat_refused_because(
    request: ConsumerGroupHeartbeatRequest, code: ErrorCode, reason: str, context: RequestContext, out: Effects
) -> None:
    """Record why a ConsumerGroupHeartbeat was rejected with `code`, if a change of configuration is required."""
    joins = request.member_epoch == 0 and code is ErrorCode.GROUP_ID_NOT_FOUND
    if code in _NEEDS_OPERATOR or joins:  # a classic group that cannot become a consumer group
        facts = MemberFacts(request.member_id, context.client_id, context.client_host, request.instance_id)
        out.events.append(MemberRefused(request.group_id, facts, code.name, reason))


def _why_inconsistent(group: RefusingGroup, protocol_type: str, protocols: Mapping[str, bytes]) -> str:
    policy, expected = group.migration_policy, group.protocol_type
    if policy is not None and not (policy.upgrades or policy.downgrades):
        return (
            "the group uses the consumer protocol, the member the classic one, and group.consumer.migration.policy"
            f" is {policy.value}"
        )
    if not protocol_type or not protocols:
        return "it names no assignor"
    if expected is not None and protocol_type != expected:
        return f"its protocol type is {protocol_type}, the group's {expected}"
    if not are_readable(protocol_type, protocols):
        return "its subscription cannot be read: the bytes are not those of the consumer protocol"
    return f"its assignors {_listed(protocols)} have none in common with {_listed(group.assignors)} of the group"


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none"
