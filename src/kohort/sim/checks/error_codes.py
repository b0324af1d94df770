"""Error codes that a broker may return for each request, by Apache Kafka's documentation (S14)."""

from __future__ import annotations

from typing import Any

from kohort.errors import ErrorCode as E
from kohort.wire.codec import Message
from kohort.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kohort.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.end_txn import EndTxnRequest
from kohort.wire.messages.init_producer_id import InitProducerIdRequest
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest
from kohort.wire.messages.offset_commit import OffsetCommitRequest
from kohort.wire.messages.offset_fetch import OffsetFetchRequest
from kohort.wire.messages.produce import ProduceRequest
from kohort.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

_SHELL = {E.NONE, E.INVALID_GROUP_ID, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR, E.COORDINATOR_LOAD_IN_PROGRESS}
_MEMBER = _SHELL | {E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID}

_LEADER = {
    E.NONE,
    E.UNKNOWN_TOPIC_OR_PARTITION,
    E.UNKNOWN_TOPIC_ID,
    E.NOT_LEADER_OR_FOLLOWER,
    E.FENCED_LEADER_EPOCH,
    E.UNKNOWN_LEADER_EPOCH,
    E.KAFKA_STORAGE_ERROR,
}

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
        E.UNSTABLE_OFFSET_COMMIT,
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
"""Codes of requests to a group coordinator."""

_OF_TRANSACTIONS = {
    E.NONE,
    E.COORDINATOR_NOT_AVAILABLE,
    E.COORDINATOR_LOAD_IN_PROGRESS,
    E.NOT_COORDINATOR,
    E.CONCURRENT_TRANSACTIONS,
    E.PRODUCER_FENCED,
    E.INVALID_PRODUCER_EPOCH,
}
"""Codes of a transaction coordinator; older versions have the last one instead of PRODUCER_FENCED."""

ELSEWHERE: dict[str, set[E]] = {
    "ApiVersions": {E.NONE, E.UNSUPPORTED_VERSION},
    "ConsumerGroupDescribe": _SHELL | {E.GROUP_ID_NOT_FOUND},
    "CreatePartitions": {E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION, E.INVALID_PARTITIONS, E.NOT_CONTROLLER},
    "CreateTopics": {E.NONE, E.TOPIC_ALREADY_EXISTS, E.INVALID_PARTITIONS, E.NOT_CONTROLLER},
    "DeleteTopics": {E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_ID, E.NOT_CONTROLLER},
    "DescribeGroups": _SHELL | {E.GROUP_ID_NOT_FOUND},
    "Fetch": _LEADER
    | {
        E.OFFSET_OUT_OF_RANGE,
        E.OFFSET_NOT_AVAILABLE,
        E.INCONSISTENT_TOPIC_ID,
        E.CORRUPT_MESSAGE,
        E.FETCH_SESSION_ID_NOT_FOUND,
        E.INVALID_FETCH_SESSION_EPOCH,
        E.FETCH_SESSION_TOPIC_ID_ERROR,
    },
    "FindCoordinator": {E.NONE, E.COORDINATOR_NOT_AVAILABLE, E.INVALID_REQUEST},
    "InitProducerId": _OF_TRANSACTIONS | {E.INVALID_TRANSACTION_TIMEOUT},
    "AddPartitionsToTxn": _OF_TRANSACTIONS
    | {
        E.INVALID_PRODUCER_ID_MAPPING,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.OPERATION_NOT_ATTEMPTED,
        E.TRANSACTION_ABORTABLE,
    },
    "AddOffsetsToTxn": _OF_TRANSACTIONS | {E.INVALID_PRODUCER_ID_MAPPING},
    "EndTxn": _OF_TRANSACTIONS | {E.INVALID_PRODUCER_ID_MAPPING, E.INVALID_TXN_STATE},
    "TxnOffsetCommit": _MEMBER
    | {
        E.ILLEGAL_GENERATION,
        E.OFFSET_METADATA_TOO_LARGE,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.CONCURRENT_TRANSACTIONS,
        E.INVALID_PRODUCER_EPOCH,
        E.INVALID_PRODUCER_ID_MAPPING,
        E.INVALID_TXN_STATE,
        E.TRANSACTION_ABORTABLE,
    },
    "WriteTxnMarkers": {
        E.NONE,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.NOT_LEADER_OR_FOLLOWER,
        E.KAFKA_STORAGE_ERROR,
        E.INVALID_PRODUCER_EPOCH,
        E.TRANSACTION_COORDINATOR_FENCED,
    },
    "ListOffsets": {
        E.NONE,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.NOT_LEADER_OR_FOLLOWER,
        E.FENCED_LEADER_EPOCH,
        E.UNKNOWN_LEADER_EPOCH,
        E.OFFSET_NOT_AVAILABLE,
    },
    "Metadata": {E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_ID, E.LEADER_NOT_AVAILABLE},
    "OffsetForLeaderEpoch": _LEADER,
    "Produce": {
        E.NONE,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.UNKNOWN_TOPIC_ID,
        E.NOT_LEADER_OR_FOLLOWER,
        E.KAFKA_STORAGE_ERROR,
        E.OUT_OF_ORDER_SEQUENCE_NUMBER,
        E.INVALID_PRODUCER_EPOCH,
        E.UNKNOWN_PRODUCER_ID,
        E.INVALID_PRODUCER_ID_MAPPING,
        E.INVALID_TXN_STATE,
        E.CONCURRENT_TRANSACTIONS,
        E.TRANSACTION_ABORTABLE,
        E.NOT_ENOUGH_REPLICAS,
    },
}
"""Codes of other requests that simulated clients send."""


_FIRST_WITH_FENCED: dict[type[Message], int] = {
    InitProducerIdRequest: 4,
    AddPartitionsToTxnRequest: 2,
    AddOffsetsToTxnRequest: 2,
    EndTxnRequest: 2,
}
"""First version that has PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH."""
_FIRST_WITH_ABORTABLE: dict[type[Message], int] = {
    AddPartitionsToTxnRequest: 4,
    ProduceRequest: 11,
    TxnOffsetCommitRequest: 4,
}
"""First version that has TRANSACTION_ABORTABLE."""


def is_allowed(request: str, code: E) -> bool:
    """Return whether Kafka returns that code; requests in neither table may have any code."""
    allowed = ALLOWED.get(request) or ELSEWHERE.get(request)
    return allowed is None or code in allowed


def unfitting(request: Message, version: int, code: E) -> str:
    """Return why Kafka does not return that code for this particular request, or "".

    The state of the group is not considered.
    """
    match code, request:
        case E.FENCED_INSTANCE_ID | E.UNRELEASED_INSTANCE_ID, _ if not any(_instance_ids(request)):
            return "it names no instance id"
        case E.MEMBER_ID_REQUIRED, JoinGroupRequest() if version < 4 or request.member_id or request.group_instance_id:
            return "it needs no member id, or has one"
        case E.GROUP_ID_NOT_FOUND, OffsetCommitRequest() if version < 9 or request.generation_id_or_member_epoch < 0:
            return "such a commit makes the group, or is of an older version"
        case E.STALE_MEMBER_EPOCH, OffsetCommitRequest() | OffsetFetchRequest() if version < 9:
            return "its version knows no member epochs"
        case E.UNSUPPORTED_VERSION, OffsetCommitRequest() if version >= 9:
            return "its version has all that a commit needs"
        case E.UNKNOWN_TOPIC_ID, OffsetCommitRequest() | OffsetFetchRequest() if version < 10:
            return "its version names topics"
        case E.ILLEGAL_GENERATION, OffsetCommitRequest() if request.generation_id_or_member_epoch < 0:
            return "it has no generation"
        case E.FENCED_MEMBER_EPOCH, ConsumerGroupHeartbeatRequest() if request.member_epoch <= 0:
            return "it joins or leaves"
        case E.UNSUPPORTED_ASSIGNOR, ConsumerGroupHeartbeatRequest() if request.server_assignor is None:
            return "it asks for no assignor"
        case E.UNSTABLE_OFFSET_COMMIT, OffsetFetchRequest() if not request.require_stable:
            return "it takes offsets that are not stable"
        case ((E.PRODUCER_FENCED | E.INVALID_PRODUCER_EPOCH | E.TRANSACTION_ABORTABLE), _):
            return _unfitting_of_producer(request, version, code)
        case E.INVALID_REGULAR_EXPRESSION, ConsumerGroupHeartbeatRequest() if not request.subscribed_topic_regex:
            return "it has no expression"
        case _:
            return ""


def _unfitting_of_producer(request: Message, version: int, code: E) -> str:
    kind = type(request)
    if code is E.TRANSACTION_ABORTABLE:
        return "" if version >= _FIRST_WITH_ABORTABLE.get(kind, 0) else "its version does not know this error"
    if kind in _FIRST_WITH_FENCED and (version >= _FIRST_WITH_FENCED[kind]) != (code is E.PRODUCER_FENCED):
        return "its version has the other error for a producer that is fenced"
    return ""


def _instance_ids(request: Any) -> list[str | None]:
    if isinstance(request, LeaveGroupRequest):
        return [member.group_instance_id for member in request.members]
    return [getattr(request, "group_instance_id", None) or getattr(request, "instance_id", None)]
