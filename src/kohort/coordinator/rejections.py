"""Rejected members: the error code, which is Apache Kafka's, and a reason for the operator.

A code such as INCONSISTENT_GROUP_PROTOCOL has many causes, and a client shows only the code. So each
rejection that requires a change of configuration is an event, for the log and the journal. Codes of
the normal protocol (UNKNOWN_MEMBER_ID, MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS) are not.
"""

from collections.abc import Collection, Mapping

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.classic.subscriptions import CONSUMER, are_readable
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.effects import Effects, RequestContext
from kohort.coordinator.events import MemberFacts, MemberRefused
from kohort.coordinator.groups import Groups
from kohort.errors import ErrorCode
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest

TOO_LARGE = ErrorCode.UNKNOWN_SERVER_ERROR
"""Kafka fails to write the group's record in this case and has no better code; clients treat it as fatal."""

_FOR_PEOPLE = frozenset(
    {
        TOO_LARGE,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
    }
)


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
    groups: Groups,
    group: ClassicGroup | ConsumerGroup | None,
    request: JoinGroupRequest,
    protocols: Mapping[str, bytes],
    code: ErrorCode,
    context: RequestContext,
    out: Effects,
) -> None:
    """Record why a JoinGroup was rejected with `code`, if a change of configuration is required."""
    if code not in _FOR_PEOPLE:
        return
    config = groups.config
    match code:
        case ErrorCode.GROUP_MAX_SIZE_REACHED:
            size, name = config.max_size, "group.max.size"
            if isinstance(group, ConsumerGroup):
                size, name = config.consumer_max_size, "group.consumer.max.size"
            reason = f"the group has all {size} members that {name} allows"
        case ErrorCode.INVALID_SESSION_TIMEOUT:
            reason = (
                f"its session.timeout.ms {request.session_timeout_ms} is not between {config.min_session_timeout_ms}"
                f" (group.min.session.timeout.ms) and {config.max_session_timeout_ms} (group.max.session.timeout.ms)"
            )
        case ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            reason = _why_inconsistent(groups, group, request.protocol_type, protocols)
        case _:
            reason = too_large(subscription_size(protocols), config.max_subscription_bytes)
    facts = MemberFacts(request.member_id, context.client_id, context.client_host, request.group_instance_id)
    out.events.append(MemberRefused(request.group_id, facts, code.name, reason))


def heartbeat_refused_because(
    request: ConsumerGroupHeartbeatRequest, code: ErrorCode, reason: str, context: RequestContext, out: Effects
) -> None:
    """Record why a ConsumerGroupHeartbeat was rejected with `code`, if a change of configuration is required."""
    joins = request.member_epoch == 0 and code is ErrorCode.GROUP_ID_NOT_FOUND
    if code in _FOR_PEOPLE or joins:  # a classic group that cannot become a consumer group
        facts = MemberFacts(request.member_id, context.client_id, context.client_host, request.instance_id)
        out.events.append(MemberRefused(request.group_id, facts, code.name, reason))


def _why_inconsistent(
    groups: Groups,
    group: ClassicGroup | ConsumerGroup | None,
    protocol_type: str,
    protocols: Mapping[str, bytes],
) -> str:
    policy = groups.config.consumer_migration_policy
    is_consumer = isinstance(group, ConsumerGroup) and bool(group.members)
    if is_consumer and not (policy.upgrades or policy.downgrades):
        return (
            "the group uses the consumer protocol, the member the classic one, and group.consumer.migration.policy"
            f" is {policy.value}"
        )
    expected = CONSUMER if is_consumer else _protocol_type(group)
    if not protocol_type or not protocols:
        return "it names no assignor"
    if expected is not None and protocol_type != expected:
        return f"its protocol type is {protocol_type}, the group's {expected}"
    if not are_readable(protocol_type, protocols):
        return "its subscription cannot be read: the bytes are not those of the consumer protocol"
    return f"its assignors {_listed(protocols)} have none in common with {_listed(_common(group))} of the group"


def _protocol_type(group: ClassicGroup | ConsumerGroup | None) -> str | None:
    if isinstance(group, ClassicGroup) and group.state is not GroupState.EMPTY:
        return group.protocol_type
    return None


def _common(group: ClassicGroup | ConsumerGroup | None) -> Collection[str]:
    """Return the assignors that every member of the group supports."""
    if isinstance(group, ClassicGroup):
        return group.common_protocols
    if isinstance(group, ConsumerGroup):
        return [name for name, members in group.classic_protocols.items() if members == group.classic_members]
    return ()


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none"
