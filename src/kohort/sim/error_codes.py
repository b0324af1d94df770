"""Which error codes a broker may give to which request, by Apache Kafka's documentation (S14)."""

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
    "OffsetFetch": _SHELL
    | {
        E.UNKNOWN_MEMBER_ID,
        E.STALE_MEMBER_EPOCH,
        E.ILLEGAL_GENERATION,
        E.GROUP_ID_NOT_FOUND,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.UNKNOWN_TOPIC_ID,
    },
    "DeleteGroups": _SHELL | {E.NON_EMPTY_GROUP, E.GROUP_ID_NOT_FOUND},
    "OffsetDelete": _SHELL
    | {E.GROUP_ID_NOT_FOUND, E.NON_EMPTY_GROUP, E.GROUP_SUBSCRIBED_TO_TOPIC, E.UNKNOWN_TOPIC_OR_PARTITION},
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
"""By request to a group coordinator."""

ELSEWHERE: dict[str, set[E]] = {
    "ApiVersions": {E.NONE, E.UNSUPPORTED_VERSION},
    "ConsumerGroupDescribe": _SHELL | {E.GROUP_ID_NOT_FOUND},
    "CreatePartitions": {E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION, E.INVALID_PARTITIONS, E.NOT_CONTROLLER},
    "CreateTopics": {E.NONE, E.TOPIC_ALREADY_EXISTS, E.INVALID_PARTITIONS, E.NOT_CONTROLLER},
    "DeleteTopics": {E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_ID, E.NOT_CONTROLLER},
    "DescribeGroups": _SHELL | {E.GROUP_ID_NOT_FOUND},
    "FindCoordinator": {E.NONE, E.COORDINATOR_NOT_AVAILABLE, E.INVALID_REQUEST},
    "ListOffsets": {
        E.NONE,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.NOT_LEADER_OR_FOLLOWER,
        E.FENCED_LEADER_EPOCH,
        E.UNKNOWN_LEADER_EPOCH,
        E.OFFSET_NOT_AVAILABLE,
    },
    "Metadata": {E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_ID, E.LEADER_NOT_AVAILABLE},
}
"""By other requests that simulated clients send."""


def is_allowed(request: str, code: E) -> bool:
    """Whether Kafka gives that code; nothing is known of requests that are in neither table."""
    allowed = ALLOWED.get(request) or ELSEWHERE.get(request)
    return allowed is None or code in allowed
