"""InitProducerId: give a transactional ID its next epoch, and abort what its last producer left open."""

from kohort.coordinator.effects import RequestContext
from kohort.coordinator.transactions.effects import TransactionEffects
from kohort.coordinator.transactions.states import ENDING, TransactionState
from kohort.coordinator.transactions.transaction import LAST_EPOCH, Transaction
from kohort.coordinator.transactions.transactions import Transactions, fence
from kohort.errors import ErrorCode
from kohort.model import Millis, TopicPartition
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_FIRST_WITH_FENCED = 4
"""First version whose clients know PRODUCER_FENCED."""


def init_producer_id(
    transactions: Transactions,
    request: InitProducerIdRequest,
    context: RequestContext,
    now: Millis,
    out: TransactionEffects,
) -> None:
    """Answer an InitProducerId with a transactional ID."""
    result = _initialised(transactions, request, now, out)
    if isinstance(result, ErrorCode):
        fenced = result is ErrorCode.PRODUCER_FENCED and context.api_version < _FIRST_WITH_FENCED
        code = ErrorCode.INVALID_PRODUCER_EPOCH if fenced else result
        out.replies[context.token] = InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
        return
    assert result.epoch is not None
    transactions.write(result, out)
    out.replies[context.token] = InitProducerIdResponse(producer_id=result.producer_id, producer_epoch=result.epoch)


def _initialised(
    transactions: Transactions, request: InitProducerIdRequest, now: Millis, out: TransactionEffects
) -> Transaction | ErrorCode:
    transactional_id, timeout_ms = request.transactional_id, request.transaction_timeout_ms
    if not transactional_id or (request.producer_id < 0) != (request.producer_epoch < 0):
        return ErrorCode.INVALID_REQUEST
    if request.enable_2pc:  # KIP-939: transaction.two.phase.commit.enable is false
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.keep_prepared_txn:
        return ErrorCode.UNSUPPORTED_VERSION
    if not 0 < timeout_ms <= transactions.config.max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    current = transactions.by_id.get(transactional_id)
    if current is None:
        current = Transaction(transactional_id, transactions.fresh_producer_id(), None, timeout_ms, now)
    # KIP-360: a producer that continues after an error names its ID and epoch.
    epoch = None if request.producer_id < 0 else request.producer_epoch
    if epoch is not None and not _may_continue(current, request.producer_id, epoch):
        return ErrorCode.PRODUCER_FENCED
    if current.state in ENDING:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if current.state is TransactionState.ONGOING:
        # The new epoch is not told to anybody: the producer repeats the request and gets the one after it.
        fence(transactions, current, now, out)
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return _next_epoch(transactions, current, epoch, timeout_ms, now)


def _may_continue(current: Transaction, producer_id: int, epoch: int) -> bool:
    """Return whether a producer with this ID may get the next epoch; its epoch is checked later."""
    return (
        current.epoch is None  # the ID has expired, so nobody else has it
        or producer_id == current.producer_id
        # The producer repeats the request that gave it a new producer ID.
        or (producer_id == current.previous_producer_id and epoch >= LAST_EPOCH)
    )


def _next_epoch(
    transactions: Transactions, current: Transaction, epoch: int | None, timeout_ms: Millis, now: Millis
) -> Transaction | ErrorCode:
    """Return the state with the epoch that the producer gets; `epoch` is the one that it has, None if none."""
    transactional_id, last_epoch = current.transactional_id, transactions.last_epochs.get(current.transactional_id)
    producer_id, next_epoch = current.producer_id, current.epoch
    if epoch is not None and current.epoch is not None and epoch != current.epoch:
        if epoch != last_epoch:
            return ErrorCode.PRODUCER_FENCED
        # The producer repeats a request whose answer was lost. Nobody else asked since: that resets the last epoch.
    else:
        transactions.remember_epoch(transactional_id, None if epoch is None else current.epoch)
        if current.is_exhausted:
            producer_id, next_epoch = transactions.fresh_producer_id(), 0
        else:
            next_epoch = 0 if current.epoch is None else current.epoch + 1
    return current.becomes(
        TransactionState.EMPTY,
        now,
        producer_id=producer_id,
        epoch=next_epoch,
        timeout_ms=timeout_ms,
        partitions=frozenset[TopicPartition](),
        started_at=None,
    )
