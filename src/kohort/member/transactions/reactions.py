"""A transactional producer's reaction to each error code, in one table of all codes.

The choices are those of Apache Kafka's producer (TransactionManager of 4.3), except where a comment
says so.
"""

from collections.abc import Iterable, Mapping
from enum import Enum

from kohort.errors import ErrorCode as E


class Request(Enum):
    """Requests of a transactional producer, or parts of them, to which an error applies."""

    FIND_TRANSACTION_COORDINATOR = "FindCoordinator, of the transactional ID"
    FIND_GROUP_COORDINATOR = "FindCoordinator, of the group whose offsets are committed"
    INIT_PRODUCER_ID = "InitProducerId"
    ADD_PARTITIONS = "AddPartitionsToTxn, of one partition"
    ADD_OFFSETS = "AddOffsetsToTxn"
    OFFSET_COMMIT = "TxnOffsetCommit, of one partition"
    END = "EndTxn"
    PRODUCE = "Produce, of a batch that has failed for good"


class Reaction(Enum):
    """The producer's reaction to an error."""

    RETRY = "asks again after a pause"
    FIND = "looks for the coordinator, and asks again"
    AGAIN = "raises it; init_transactions may be called again"
    ABORT = "raises TransactionAbortableError; the application aborts the transaction"
    NEW_EPOCH = "as ABORT where the next transaction can have another epoch, otherwise as FATAL"
    FENCED = "raises ProducerFencedError"
    FATAL = "raises FatalTransactionError"


_FIND = frozenset({E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE, E.NETWORK_EXCEPTION, E.REQUEST_TIMED_OUT})
_FENCED = frozenset({E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED})


def _table(default: Reaction, retry: Iterable[E] = (), **others: Iterable[E]) -> Mapping[E, Reaction]:
    """Return the reaction to each code: to `retry` and retriable codes RETRY, to those that are not given `default`."""
    found: dict[E, Reaction] = {code: Reaction.RETRY if code.retriable else default for code in E}
    del found[E.NONE]
    found |= dict.fromkeys(retry, Reaction.RETRY)
    for name, codes in others.items():
        found |= dict.fromkeys(codes, Reaction[name])
    return found


REACTIONS: Mapping[Request, Mapping[E, Reaction]] = {
    Request.FIND_TRANSACTION_COORDINATOR: _table(Reaction.FATAL),
    Request.FIND_GROUP_COORDINATOR: _table(
        Reaction.FATAL, ABORT={E.GROUP_AUTHORIZATION_FAILED, E.INVALID_GROUP_ID, E.TRANSACTION_ABORTABLE}
    ),
    # Java has a transaction with an abortable error after a refused initialization. There is nothing
    # to abort, and an ACL may change: the application may call init_transactions again.
    Request.INIT_PRODUCER_ID: _table(
        Reaction.FATAL,
        FIND=_FIND,
        FENCED=_FENCED,
        AGAIN={E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, E.CLUSTER_AUTHORIZATION_FAILED, E.TRANSACTION_ABORTABLE},
    ),
    Request.ADD_PARTITIONS: _table(
        Reaction.ABORT,
        FIND=_FIND,
        FENCED=_FENCED,
        NEW_EPOCH={E.UNKNOWN_PRODUCER_ID},
        FATAL={
            E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            E.INVALID_TXN_STATE,
            E.INVALID_PRODUCER_ID_MAPPING,
            E.UNSUPPORTED_VERSION,
            E.SASL_AUTHENTICATION_FAILED,
        },
    ),
    Request.ADD_OFFSETS: _table(
        Reaction.FATAL,
        FIND=_FIND,
        FENCED=_FENCED,
        NEW_EPOCH={E.UNKNOWN_PRODUCER_ID},
        ABORT={E.GROUP_AUTHORIZATION_FAILED, E.TRANSACTION_ABORTABLE},
    ),
    # In Java, errors of a topic or of the committed text are fatal. An abort is enough after them, because
    # the coordinator has written none of the offsets.
    Request.OFFSET_COMMIT: _table(
        Reaction.FATAL,
        FIND=_FIND,
        FENCED=_FENCED,
        ABORT={
            E.GROUP_AUTHORIZATION_FAILED,
            E.TOPIC_AUTHORIZATION_FAILED,
            E.FENCED_INSTANCE_ID,
            E.UNKNOWN_MEMBER_ID,
            E.ILLEGAL_GENERATION,
            E.STALE_MEMBER_EPOCH,
            E.FENCED_MEMBER_EPOCH,
            E.REBALANCE_IN_PROGRESS,
            E.GROUP_ID_NOT_FOUND,
            E.OFFSET_METADATA_TOO_LARGE,
            E.INVALID_COMMIT_OFFSET_SIZE,
            E.TRANSACTION_ABORTABLE,
        },
    ),
    Request.END: _table(
        Reaction.FATAL,
        FIND=_FIND,
        FENCED=_FENCED,
        NEW_EPOCH={E.UNKNOWN_PRODUCER_ID},
        ABORT={E.TRANSACTION_ABORTABLE},
    ),
    # A partition does not know whether its newer epoch is that of another producer or of an abort by the
    # coordinator (KIP-588). The coordinator's response to the abort says which.
    Request.PRODUCE: {
        code: Reaction.ABORT if reaction is Reaction.RETRY else reaction
        for code, reaction in _table(
            Reaction.ABORT,
            FENCED={E.PRODUCER_FENCED},
            NEW_EPOCH={
                E.REQUEST_TIMED_OUT,
                E.OUT_OF_ORDER_SEQUENCE_NUMBER,
                E.UNKNOWN_PRODUCER_ID,
                E.INVALID_PRODUCER_EPOCH,
            },
            FATAL={
                E.CLUSTER_AUTHORIZATION_FAILED,
                E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                E.UNSUPPORTED_VERSION,
                E.INVALID_PRODUCER_ID_MAPPING,
                E.SASL_AUTHENTICATION_FAILED,
            },
        ).items()
    },
}

_FIRST = (Reaction.FENCED, Reaction.FATAL, Reaction.NEW_EPOCH, Reaction.FIND, Reaction.RETRY, Reaction.ABORT)


def reaction(request: Request, code: E) -> Reaction:
    """Return the reaction to an error code."""
    return REACTIONS[request][code]


def decisive(request: Request, codes: Iterable[E]) -> E:
    """Return the code that decides what happens to a request with several errors.

    The coordinator does not try the other partitions of a request (OPERATION_NOT_ATTEMPTED) after an error
    that may end, so that one decides.
    """
    return min(codes, key=lambda code: (_FIRST.index(reaction(request, code)), code is E.OPERATION_NOT_ATTEMPTED))
