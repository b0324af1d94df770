"""A consumer's reaction to each error code of a broker, in one table of all codes.

Every error is raised, or logged once as a warning with its meaning. The choices are those of Apache
Kafka's consumer (FetchCollector, OffsetFetcherUtils, ConsumerCoordinator, CommitRequestManager of
4.3), which logs many of them only at debug level.
"""

from collections.abc import Iterable, Mapping
from enum import Enum

from kohort.errors import ErrorCode as E


class Operation(Enum):
    """Consumer requests, or parts of them, to which an error applies."""

    FETCH = "Fetch, of one partition"
    FETCH_REQUEST = "Fetch, of the whole request"
    LIST_OFFSETS = "ListOffsets: the offset for auto_offset_reset or a seek"
    EPOCH_END = "OffsetForLeaderEpoch: whether a new leader has the records that were read"
    OFFSET_FETCH = "OffsetFetch: the group's committed offsets"
    OFFSET_COMMIT = "OffsetCommit"
    METADATA = "Metadata, of one topic"
    FIND_COORDINATOR = "FindCoordinator, before OffsetFetch"


class Reaction(Enum):
    """The consumer's reaction to an error."""

    RAISE = "raises it from the next poll, and again after a pause while it lasts; a commit raises CommitFailedError"
    RETRY = "logs it as a warning once, and asks again after a pause; a commit only until its timeout, then it raises"
    RESET = "logs it as a warning and resets the position by auto_offset_reset; raises it if that is none"
    NEW_SESSION = "asks again at once in a new fetch session; logs it as a warning where that fails, too"


_LINK = frozenset({E.NETWORK_EXCEPTION, E.REQUEST_TIMED_OUT})
"""No response: the connection broke, or the request timed out."""

_LEADER = _LINK | {
    E.NOT_LEADER_OR_FOLLOWER,
    E.LEADER_NOT_AVAILABLE,
    E.REPLICA_NOT_AVAILABLE,
    E.LISTENER_NOT_FOUND,
    E.KAFKA_STORAGE_ERROR,
    E.FENCED_LEADER_EPOCH,
    E.UNKNOWN_LEADER_EPOCH,
    E.OFFSET_NOT_AVAILABLE,
    E.UNKNOWN_TOPIC_OR_PARTITION,
    E.UNKNOWN_SERVER_ERROR,
    E.THROTTLING_QUOTA_EXCEEDED,
}
"""Errors while a leader moves, starts or lacks a disk, or a topic is being created or deleted."""

_COORDINATOR = _LINK | {E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR}

_IDS = frozenset({E.UNKNOWN_TOPIC_ID, E.INCONSISTENT_TOPIC_ID})

_SESSION = frozenset({E.FETCH_SESSION_ID_NOT_FOUND, E.INVALID_FETCH_SESSION_EPOCH, E.FETCH_SESSION_TOPIC_ID_ERROR})

_FINAL = frozenset(
    {
        E.TOPIC_AUTHORIZATION_FAILED,
        E.GROUP_AUTHORIZATION_FAILED,
        E.CLUSTER_AUTHORIZATION_FAILED,
        E.BROKER_NOT_AVAILABLE,  # the client's own code for a closed client
        E.CORRUPT_MESSAGE,
        E.UNSUPPORTED_VERSION,
        E.INVALID_REQUEST,
        E.INVALID_TOPIC_EXCEPTION,
        E.INVALID_GROUP_ID,
        E.OFFSET_METADATA_TOO_LARGE,
        E.INVALID_COMMIT_OFFSET_SIZE,
        E.GROUP_ID_NOT_FOUND,
        E.ILLEGAL_GENERATION,
        E.UNKNOWN_MEMBER_ID,
        E.REBALANCE_IN_PROGRESS,
        E.FENCED_INSTANCE_ID,
        E.FENCED_MEMBER_EPOCH,
        E.STALE_MEMBER_EPOCH,
    }
)
"""Errors that retrying does not cure.

A member first repeats the commit under its new generation or epoch, if it gets one and still has
the partition.
"""

_EXPECTED = _LEADER | _COORDINATOR | _IDS | _SESSION | _FINAL | {E.OFFSET_OUT_OF_RANGE, E.UNSTABLE_OFFSET_COMMIT}

_UNEXPECTED = frozenset(
    {
        E.INVALID_FETCH_SIZE,
        E.MESSAGE_TOO_LARGE,
        E.STALE_CONTROLLER_EPOCH,
        E.RECORD_LIST_TOO_LARGE,
        E.NOT_ENOUGH_REPLICAS,
        E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        E.INVALID_REQUIRED_ACKS,
        E.INCONSISTENT_GROUP_PROTOCOL,
        E.INVALID_SESSION_TIMEOUT,
        E.INVALID_TIMESTAMP,
        E.UNSUPPORTED_SASL_MECHANISM,
        E.ILLEGAL_SASL_STATE,
        E.TOPIC_ALREADY_EXISTS,
        E.INVALID_PARTITIONS,
        E.INVALID_REPLICATION_FACTOR,
        E.INVALID_REPLICA_ASSIGNMENT,
        E.INVALID_CONFIG,
        E.NOT_CONTROLLER,
        E.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        E.POLICY_VIOLATION,
        E.OUT_OF_ORDER_SEQUENCE_NUMBER,
        E.DUPLICATE_SEQUENCE_NUMBER,
        E.INVALID_PRODUCER_EPOCH,
        E.INVALID_TXN_STATE,
        E.INVALID_PRODUCER_ID_MAPPING,
        E.INVALID_TRANSACTION_TIMEOUT,
        E.CONCURRENT_TRANSACTIONS,
        E.TRANSACTION_COORDINATOR_FENCED,
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        E.SECURITY_DISABLED,
        E.OPERATION_NOT_ATTEMPTED,
        E.LOG_DIR_NOT_FOUND,
        E.SASL_AUTHENTICATION_FAILED,
        E.UNKNOWN_PRODUCER_ID,
        E.REASSIGNMENT_IN_PROGRESS,
        E.DELEGATION_TOKEN_AUTH_DISABLED,
        E.DELEGATION_TOKEN_NOT_FOUND,
        E.DELEGATION_TOKEN_OWNER_MISMATCH,
        E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        E.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        E.DELEGATION_TOKEN_EXPIRED,
        E.INVALID_PRINCIPAL_TYPE,
        E.NON_EMPTY_GROUP,
        E.TOPIC_DELETION_DISABLED,
        E.UNSUPPORTED_COMPRESSION_TYPE,
        E.STALE_BROKER_EPOCH,
        E.MEMBER_ID_REQUIRED,
        E.PREFERRED_LEADER_NOT_AVAILABLE,
        E.GROUP_MAX_SIZE_REACHED,
        E.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        E.ELECTION_NOT_NEEDED,
        E.NO_REASSIGNMENT_IN_PROGRESS,
        E.GROUP_SUBSCRIBED_TO_TOPIC,
        E.INVALID_RECORD,
        E.PRODUCER_FENCED,
        E.RESOURCE_NOT_FOUND,
        E.DUPLICATE_RESOURCE,
        E.UNACCEPTABLE_CREDENTIAL,
        E.INCONSISTENT_VOTER_SET,
        E.INVALID_UPDATE_VERSION,
        E.FEATURE_UPDATE_FAILED,
        E.PRINCIPAL_DESERIALIZATION_FAILURE,
        E.SNAPSHOT_NOT_FOUND,
        E.POSITION_OUT_OF_RANGE,
        E.DUPLICATE_BROKER_REGISTRATION,
        E.BROKER_ID_NOT_REGISTERED,
        E.INCONSISTENT_CLUSTER_ID,
        E.TRANSACTIONAL_ID_NOT_FOUND,
        E.INELIGIBLE_REPLICA,
        E.NEW_LEADER_ELECTED,
        E.OFFSET_MOVED_TO_TIERED_STORAGE,
        E.UNRELEASED_INSTANCE_ID,
        E.UNSUPPORTED_ASSIGNOR,
        E.MISMATCHED_ENDPOINT_TYPE,
        E.UNSUPPORTED_ENDPOINT_TYPE,
        E.UNKNOWN_CONTROLLER_ID,
        E.UNKNOWN_SUBSCRIPTION_ID,
        E.TELEMETRY_TOO_LARGE,
        E.INVALID_REGISTRATION,
        E.TRANSACTION_ABORTABLE,
        E.INVALID_RECORD_STATE,
        E.SHARE_SESSION_NOT_FOUND,
        E.INVALID_SHARE_SESSION_EPOCH,
        E.FENCED_STATE_EPOCH,
        E.INVALID_VOTER_KEY,
        E.DUPLICATE_VOTER,
        E.VOTER_NOT_FOUND,
        E.INVALID_REGULAR_EXPRESSION,
        E.REBOOTSTRAP_REQUIRED,
    }
)
"""Codes that no broker returns for these requests.

If one does, the error is raised, even if the code is `retriable`.
"""


_COMMITTED = _COORDINATOR | _IDS | {E.UNKNOWN_TOPIC_OR_PARTITION, E.UNSTABLE_OFFSET_COMMIT}
"""Temporary errors while requesting a group's committed offsets."""


def _table(retry: Iterable[E], **others: Iterable[E]) -> Mapping[E, Reaction]:
    """Return the reaction to each code. Codes that are not given are raised."""
    found = dict.fromkeys(_EXPECTED | _UNEXPECTED, Reaction.RAISE) | dict.fromkeys(retry, Reaction.RETRY)
    for name, codes in others.items():
        found |= dict.fromkeys(codes, Reaction[name])
    return found


REACTIONS: Mapping[Operation, Mapping[E, Reaction]] = {
    Operation.FETCH: _table(_LEADER | _IDS, RESET={E.OFFSET_OUT_OF_RANGE}),
    Operation.FETCH_REQUEST: _table(_LEADER | _IDS, NEW_SESSION=_SESSION),
    Operation.LIST_OFFSETS: _table(_LEADER | _IDS),
    Operation.EPOCH_END: _table(_LEADER | _IDS),
    Operation.FIND_COORDINATOR: _table(_COMMITTED),
    # The coordinator may not know a new topic yet. A deleted topic has no committed offsets (`ask_committed`).
    Operation.OFFSET_FETCH: _table(_COMMITTED),
    Operation.OFFSET_COMMIT: _table(_COORDINATOR | {E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_ID}),
    # Other errors that prevent a topic from being known or created may end, and other topics'
    # metadata is valid.
    Operation.METADATA: _table(
        _EXPECTED | _UNEXPECTED, RAISE={E.TOPIC_AUTHORIZATION_FAILED, E.INVALID_TOPIC_EXCEPTION}
    ),
}

_ADVICE: Mapping[E, str] = {
    E.CORRUPT_MESSAGE: "seek past the damaged batch to go on without it, or restore the broker's log",
    E.KAFKA_STORAGE_ERROR: "the broker's own log says what its disk did; reading continues when another broker leads",
    E.UNKNOWN_TOPIC_OR_PARTITION: "create it, or correct the name; reading continues when it exists",
    E.UNKNOWN_TOPIC_ID: "the topic was deleted or created again; reading continues when its new id is known",
    E.LISTENER_NOT_FOUND: "give the leading broker a listener of the name by which this client connects",
    E.UNSTABLE_OFFSET_COMMIT: "reading begins when the producer commits or aborts its transaction",
    E.NETWORK_EXCEPTION: "the client connects again",
    E.REQUEST_TIMED_OUT: "the client asks again",
}


def reaction(operation: Operation, code: E) -> Reaction:
    """Return the reaction to an error code."""
    return REACTIONS[operation][code]


def explained(code: E, sentence: str | None = None) -> str:
    """Return a sentence that explains the code and, where possible, what to do."""
    advice = _ADVICE.get(code, "the client looks for the leader and asks again" if code in _LEADER else None)
    return "; ".join(filter(None, (sentence or code.sentence, advice)))
