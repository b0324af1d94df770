"""EndTxn: commit or abort a transaction, with and without an epoch for each (KIP-98, KIP-890)."""

from kohort.coordinator.effects import RequestContext
from kohort.coordinator.transactions.effects import TransactionEffects
from kohort.coordinator.transactions.states import ENDED, ENDING, TransactionState
from kohort.coordinator.transactions.transaction import EPOCH_PER_TRANSACTION, LAST_EPOCH, Transaction
from kohort.coordinator.transactions.transactions import Transactions, decide
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

_FIRST_WITH_FENCED = 2
"""First version whose clients know PRODUCER_FENCED."""
_FIRST_WITH_EPOCHS = 5
"""First version of producers with transaction.version 2."""


def end(
    transactions: Transactions, request: EndTxnRequest, context: RequestContext, now: Millis, out: TransactionEffects
) -> None:
    """Answer an EndTxn: as soon as the decision is durable, not when all markers are written."""
    version = EPOCH_PER_TRANSACTION if context.api_version >= _FIRST_WITH_EPOCHS else 0
    current = transactions.by_id.get(request.transactional_id)
    code = _answer(current, request, version)
    if code is None:
        assert current is not None
        current = decide(transactions, current, committed=request.committed, version=version, now=now, out=out)
    elif code is not ErrorCode.NONE:
        fenced = code is ErrorCode.PRODUCER_FENCED and context.api_version < _FIRST_WITH_FENCED
        code = ErrorCode.INVALID_PRODUCER_EPOCH if fenced else code
        out.replies[context.token] = EndTxnResponse(error_code=code)
        return
    response = EndTxnResponse()
    if version >= EPOCH_PER_TRANSACTION:
        assert current is not None and current.epoch is not None
        response = EndTxnResponse(producer_id=current.producer_id, producer_epoch=current.epoch)
    out.replies[context.token] = response


def _answer(current: Transaction | None, request: EndTxnRequest, version: int) -> ErrorCode | None:
    """Return the answer, NONE for a repeated request; or None if the transaction is to be ended now."""
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if current is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return (_with_epochs if version >= EPOCH_PER_TRANSACTION else _without_epochs)(current, request)


def _without_epochs(current: Transaction, request: EndTxnRequest) -> ErrorCode | None:
    """Answer a producer that keeps its epoch: a repeated request has the same epoch as the first one."""
    if current.producer_id != request.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.epoch != request.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if current.state is TransactionState.ONGOING:
        return None
    return _answer_to_repeated(current, request)


def _with_epochs(current: Transaction, request: EndTxnRequest) -> ErrorCode | None:
    """Answer a producer that gets a new epoch with each transaction.

    Its epoch tells a repeated request from that of the next transaction. An abort without any
    partition is valid: a producer does not know whether its failed writes have reached the broker.
    """
    assert current.epoch is not None
    epoch = request.producer_epoch
    rotated = current.previous_producer_id == request.producer_id and epoch == LAST_EPOCH and current.epoch == 0
    if current.producer_id != request.producer_id and not rotated:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    repeated = rotated or current.epoch == epoch + 1
    if current.state in ENDING:
        if current.epoch == epoch:
            # The end of the next transaction, which has to wait until this one has its markers.
            return ErrorCode.CONCURRENT_TRANSACTIONS
        valid = current.epoch == epoch + 1
    elif current.state in ENDED:
        valid = repeated or current.epoch == epoch
    else:
        valid = current.epoch == epoch
    if not valid:
        return ErrorCode.PRODUCER_FENCED
    if current.state is TransactionState.ONGOING:
        return None
    if current.state in ENDING or repeated:
        return _answer_to_repeated(current, request)
    return ErrorCode.INVALID_TXN_STATE if request.committed else None


def _answer_to_repeated(current: Transaction, request: EndTxnRequest) -> ErrorCode:
    """Answer an EndTxn that finds no open transaction: it must ask for the end that the last one had."""
    ended = (
        (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
        if request.committed
        else (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)
    )
    if current.state not in ended:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.CONCURRENT_TRANSACTIONS if current.state in ENDING else ErrorCode.NONE
