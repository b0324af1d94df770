"""Which error codes a group coordinator may give to which request, by Apache Kafka's documentation (S14)."""

from __future__ import annotations

from kohort.errors import ErrorCode as E

_SHELL = {E.NONE, E.INVALID_GROUP_ID, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR, E.COORDINATOR_LOAD_IN_PROGRESS}
_MEMBER = _SHELL | {E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID}

ALLOWED: dict[str, set[E]] = {
    "JoinGroup": _MEMBER
    | {
        E.INCONSISTENT_GROUP_PROTOCOL,
        E.INVALID_SESSION_TIMEOUT,
        E.REBALANCE_IN_PROGRESS,
        E.MEMBER_ID_REQUIRED,
        E.GROUP_MAX_SIZE_REACHED,
        E.INVALID_REQUEST,
    },
    "SyncGroup": _MEMBER | {E.ILLEGAL_GENERATION, E.REBALANCE_IN_PROGRESS, E.INCONSISTENT_GROUP_PROTOCOL},
    "Heartbeat": _MEMBER | {E.ILLEGAL_GENERATION, E.REBALANCE_IN_PROGRESS},
    "LeaveGroup": _MEMBER,
    "OffsetCommit": _MEMBER
    | {
        E.ILLEGAL_GENERATION,
        E.REBALANCE_IN_PROGRESS,
        E.OFFSET_METADATA_TOO_LARGE,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.UNKNOWN_TOPIC_ID,
        E.GROUP_ID_NOT_FOUND,
        E.STALE_MEMBER_EPOCH,
        E.UNSUPPORTED_VERSION,
    },
    "ConsumerGroupHeartbeat": _MEMBER
    | {
        E.INVALID_REQUEST,
        E.FENCED_MEMBER_EPOCH,
        E.UNRELEASED_INSTANCE_ID,
        E.UNSUPPORTED_ASSIGNOR,
        E.INVALID_REGULAR_EXPRESSION,
        E.GROUP_MAX_SIZE_REACHED,
        E.GROUP_ID_NOT_FOUND,
    },
}
