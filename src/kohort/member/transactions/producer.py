"""A transactional producer as a state machine, for both versions of the protocol (KIP-98, KIP-890).

Under transaction version 1 it adds each partition and group to the transaction before the first
batch or offsets; under version 2 the brokers do so, and each transaction has an epoch of its own.

The driver calls a method for each event and carries out the returned Actions. One request is under
way at a time. A request without an answer is sent again until it has one: only then is it known
what the coordinator has recorded.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kohort.errors import ErrorCode, KafkaError, KohortError, error_code
from kohort.member.offsets import OffsetAndMetadata
from kohort.member.transactions.actions import (
    GROUP,
    TRANSACTION,
    Actions,
    ConsumerGroupMetadata,
    Coordinator,
    Send,
    Settled,
)
from kohort.member.transactions.contents import TransactionContents
from kohort.member.transactions.failures import (
    FatalTransactionError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionStateError,
)
from kohort.member.transactions.reactions import Reaction, Request, decisive, reaction
from kohort.member.transactions.states import PREDECESSORS, TransactionState
from kohort.model import Millis, TopicPartition
from kohort.requests import (
    ProducerId,
    added_partitions,
    committed_in_transaction,
    end_request,
    transactional_id_request,
)
from kohort.wire.codec import Message
from kohort.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kohort.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from kohort.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kohort.wire.messages.init_producer_id import InitProducerIdResponse
from kohort.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

_S = TransactionState

_NEWEST_IN_VERSION_1: Mapping[type[Message], int] = {EndTxnRequest: 4, TxnOffsetCommitRequest: 4}
"""Newest versions of requests under transaction version 1. Later ones are those of version 2 (KIP-890)."""

PRODUCE_IN_VERSION_1 = 11
"""Newest version of Produce under transaction version 1."""

_BUSY_MS, _BUSY_MAX_MS = 5, 20


def busy_pause_ms(failures: int) -> Millis:
    """Return the pause while the coordinator still ends the transaction before, after this many attempts.

    That takes a few milliseconds. Java pauses for 20 ms, and only before AddPartitionsToTxn; the first offsets and,
    under version 2, the first records wait for the same.
    """
    return min(_BUSY_MS << min(failures - 1, 8), _BUSY_MAX_MS)


_NEWER_EPOCH = "another producer uses the transactional ID, or the transaction took longer than transaction_timeout_ms"
_EXPIRED = "the coordinator has aborted the transaction, because it took longer than transaction_timeout_ms"


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Options of a transactional producer."""

    transactional_id: str
    timeout_ms: Millis = 60_000
    retry_backoff_ms: Millis = 100
    retry_backoff_max_ms: Millis = 1_000


class TransactionalProducer:
    """State machine of one transactional producer."""

    def __init__(self, config: TransactionConfig) -> None:
        self.config = config
        self.state = TransactionState.UNINITIALIZED
        self.producer_id: ProducerId | None = None
        self.error: KafkaError | None = None
        """Error of the states ABORTABLE_ERROR and FATAL_ERROR."""
        self._coordinator = Coordinator(TRANSACTION, config.transactional_id)
        self._known: set[Coordinator] = set()
        self._finding: Coordinator | None = None
        self._newest_version = 1
        self._bumps_epochs = False
        self._needs_epoch = False
        self._call: int | None = None
        """The call that initializes, commits or aborts."""
        self._contents = TransactionContents(1)
        self._all_written = False
        self._under_way: tuple[int, Request] | None = None
        self._last_request = 0
        self._failures = 0
        self.problem: KafkaError | None = None
        """Error after which the last request is sent again; None if it succeeded."""
        self._retry_at: Millis | None = None
        self._actions = Actions()

    @property
    def version(self) -> int:
        """Transaction version of this transaction."""
        return self._contents.version

    # -- calls of the application

    def initialize(self, call: int, now: Millis) -> Actions:
        """Get a producer ID, or the next epoch of it, which fences older producers of the transactional ID."""
        self._raise_error(fatal_only=False)
        if self.state is not _S.UNINITIALIZED:
            raise TransactionStateError("init_transactions was called before: once is enough.")
        self._call = call
        self._enter(_S.INITIALIZING)
        return self._next(now)

    def begin(self) -> None:
        """Begin a transaction. The coordinator learns of it with the first partition or group."""
        self._raise_error(fatal_only=False)
        if self.state is not _S.READY:
            raise self._refusal("begin_transaction")
        self._enter(_S.IN_TRANSACTION)

    def check_open(self) -> None:
        """Raise the error of the transaction, or TransactionStateError if there is none."""
        if self.state is not _S.IN_TRANSACTION:
            self._raise_error(fatal_only=False)
            raise self._refusal("send")

    def send_offsets(
        self,
        call: int,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        now: Millis,
    ) -> Actions:
        """Commit offsets of a group with the transaction."""
        if self.state is not _S.IN_TRANSACTION:
            self._raise_error(fatal_only=False)
            raise self._refusal("send_offsets_to_transaction")
        if not offsets:
            return self._unchanged([Settled(call)])
        self._contents.send_offsets(call, group, offsets)
        return self._next(now)

    def commit(self, call: int, now: Millis) -> Actions:
        """Commit. The request is sent after `all_written`."""
        self._raise_error(fatal_only=False)
        if self.state is not _S.IN_TRANSACTION:
            raise self._refusal("commit_transaction")
        self._call, self._all_written = call, False
        self._enter(_S.COMMITTING)
        self._actions.wake = True
        return self._next(now)

    def abort(self, call: int, now: Millis) -> Actions:
        """Abort. The request is sent after `all_written`: when no batch is under way."""
        self._raise_error(fatal_only=True)
        if self.state not in (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR):
            raise self._refusal("abort_transaction")
        self._call, self._all_written = call, False
        aborted = TransactionAbortableError(ErrorCode.OPERATION_NOT_ATTEMPTED, "the transaction was aborted")
        self._enter(_S.ABORTING)
        self._give_up_calls(aborted)
        self._actions.discard = aborted
        return self._next(now)

    # -- events of the producer

    def add_partitions(self, partitions: Iterable[TopicPartition], now: Millis) -> Actions:
        """Add partitions that have records to send. `may_send` returns whether to send them."""
        if self.state not in (_S.IN_TRANSACTION, _S.COMMITTING):
            return self._unchanged()
        self._contents.add(partitions)
        return self._next(now)

    def may_send(self, partition: TopicPartition) -> bool:
        """Return whether batches of the partition may be sent."""
        return partition in self._contents.partitions and self.state is not _S.FATAL_ERROR

    def batch_failed(self, error: KohortError, now: Millis) -> Actions:
        """Handle records that are not written, and will not be."""
        if self.state in (_S.IN_TRANSACTION, _S.COMMITTING, _S.ABORTING, _S.ABORTABLE_ERROR):
            code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
            sentence = error.sentence if isinstance(error, KafkaError) else str(error)
            if code is ErrorCode.INVALID_PRODUCER_EPOCH:
                sentence = f"{sentence}; {_NEWER_EPOCH}"
            self._react(Request.PRODUCE, code, f"records were not written: {sentence}", now)
        return self._next(now)

    def all_written(self, now: Millis) -> Actions:
        """Handle that no batch is left, so that the transaction may end."""
        self._all_written = True
        return self._next(now)

    # -- events of the network

    def features(self, transaction_version: int) -> None:
        """Set the cluster's level of the feature transaction.version, 0 if it has none.

        It applies from the next transaction on.
        """
        self._newest_version = max(1, transaction_version)

    def coordinator_found(self, coordinator: Coordinator, now: Millis, *, bumps_epochs: bool = True) -> Actions:
        """Handle a coordinator that is connected.

        `bumps_epochs` is whether that of the transactional ID has InitProducerId version 3 (KIP-360).
        """
        if coordinator != self._finding:
            return self._unchanged()
        self._finding = None
        self._known.add(coordinator)
        if coordinator == self._coordinator:
            self._bumps_epochs = bumps_epochs
        return self._next(now)

    def coordinator_unavailable(self, coordinator: Coordinator, error: KafkaError, now: Millis) -> Actions:
        """Handle a coordinator that was not found or cannot be reached."""
        if coordinator != self._finding:
            return self._unchanged()
        self._finding = None
        group = coordinator.key_type == GROUP
        kind = Request.FIND_GROUP_COORDINATOR if group else Request.FIND_TRANSACTION_COORDINATOR
        self._react(kind, error.code, error.sentence, now)
        return self._next(now)

    def responded(self, request: int, message: Message, now: Millis) -> Actions:
        """Handle a response. One to a request that is not under way any more is ignored."""
        if self._under_way is None or self._under_way[0] != request:
            return self._unchanged()
        self._under_way = None
        match message:
            case InitProducerIdResponse():
                self._initialized(message, now)
            case AddPartitionsToTxnResponse():
                self._partitions_answered(message, now)
            case AddOffsetsToTxnResponse():
                self._group_answered(message, now)
            case TxnOffsetCommitResponse():
                self._offsets_answered(message, now)
            case EndTxnResponse():
                self._ended(message, now)
            case _:
                raise AssertionError(f"no request of a transaction has the response {message!r}")
        return self._next(now)

    def request_failed(self, request: int, error: KafkaError, now: Millis) -> Actions:
        """Handle a request that has no response, because the connection broke or its version is not supported."""
        if self._under_way is None or self._under_way[0] != request:
            return self._unchanged()
        _, kind = self._under_way
        self._under_way = None
        if kind is Request.OFFSET_COMMIT and not self._contents.offsets:
            # The abort does not wait for it. It may arrive late, which another epoch makes harmless.
            self._needs_epoch = True
            return self._next(now)
        self._react(kind, error.code, error.sentence, now)
        return self._next(now)

    def fire(self, now: Millis) -> Actions:
        """Handle that the time `retry_at` has come."""
        return self._next(now)

    # -- responses

    def _initialized(self, response: InitProducerIdResponse, now: Millis) -> None:
        if response.error_code:
            code = error_code(response.error_code)
            detail = None
            if code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                limit = "the brokers' transaction.max.timeout.ms"
                detail = f"transaction_timeout_ms={self.config.timeout_ms} is more than {limit}"
            self._react(Request.INIT_PRODUCER_ID, code, detail, now)
            return
        self._succeeded()
        self.producer_id = ProducerId(response.producer_id, response.producer_epoch)
        self._contents = TransactionContents(self._newest_version)
        self._enter(_S.READY)
        self._settle_call(None)

    def _partitions_answered(self, response: AddPartitionsToTxnResponse, now: Millis) -> None:
        answers = added_partitions(response)
        codes = {
            partition: answers.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED) for partition in self._contents.adding
        }
        refused = {partition: code for partition, code in codes.items() if code is not ErrorCode.NONE}
        if refused:
            code = decisive(Request.ADD_PARTITIONS, refused.values())
            named = [str(partition) for partition, found in refused.items() if found is code]
            self._react(Request.ADD_PARTITIONS, code, f"{', '.join(named[:5])}: {code.sentence}", now)
            return
        self._succeeded()
        self._contents.partitions_added()
        self._actions.wake = True

    def _group_answered(self, response: AddOffsetsToTxnResponse, now: Millis) -> None:
        if response.error_code:
            code = error_code(response.error_code)
            group_id = self._contents.offsets[0].group.group_id
            self._react(Request.ADD_OFFSETS, code, f"{group_id}: {code.sentence}", now)
            return
        self._succeeded()
        self._contents.group_added()

    def _offsets_answered(self, response: TxnOffsetCommitResponse, now: Millis) -> None:
        if not self._contents.offsets:
            return  # the call ended meanwhile
        commit = self._contents.offsets[0]
        answers = committed_in_transaction(response)
        for partition, code in answers.items():
            if code is ErrorCode.NONE:
                commit.left.pop(partition, None)
        if not commit.left:
            self._succeeded()
            self._contents.offsets.pop(0)
            self._actions.settled.append(Settled(commit.operation))
            return
        refused = {partition: answers.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR) for partition in commit.left}
        code = decisive(Request.OFFSET_COMMIT, refused.values())
        named = [str(partition) for partition, found in refused.items() if found is code]
        detail = f"offsets of {commit.group.group_id} for {', '.join(named[:5])}: {code.sentence}"
        self._react(Request.OFFSET_COMMIT, code, detail, now)

    def _ended(self, response: EndTxnResponse, now: Millis) -> None:
        if response.error_code:
            code = error_code(response.error_code)
            # Under version 2, a coordinator that has aborted the transaction takes a commit for a late one.
            expired = code is ErrorCode.INVALID_TXN_STATE and self.state is _S.COMMITTING
            self._react(Request.END, code, _EXPIRED if expired else None, now)
            return
        self._succeeded()
        if response.producer_id >= 0:  # KIP-890: the next transaction has an epoch of its own
            self.producer_id = ProducerId(response.producer_id, response.producer_epoch)
        self._complete()

    def _complete(self) -> None:
        """Enter the state after a transaction that has ended."""
        upgraded = self.version < 2 <= self._newest_version
        # Under version 1, only InitProducerId raises the epoch. A first transaction of version 2 with the epoch of
        # one of version 1 could get records of that one, whose requests may still be under way.
        needs_epoch = (self._needs_epoch and self.version < 2) or upgraded
        self._needs_epoch = self._all_written = False
        self._contents = TransactionContents(self._newest_version)
        if needs_epoch and self._bumps_epochs:
            self._enter(_S.INITIALIZING)
        else:
            self._enter(_S.READY)
            self._settle_call(None)

    # -- errors

    def _react(self, request: Request, code: ErrorCode, sentence: str | None, now: Millis) -> None:
        what = reaction(request, code)
        detail = f"{self.config.transactional_id}: {sentence or code.sentence}"
        if request is Request.END and self.state is _S.ABORTING and what in (Reaction.ABORT, Reaction.NEW_EPOCH):
            self._abort_refused(what, code, detail)
            return
        if what is Reaction.NEW_EPOCH and self.version < 2 and not self._bumps_epochs:
            what = Reaction.FATAL
        match what:
            case Reaction.FIND | Reaction.RETRY:
                if what is Reaction.FIND:
                    self._known.discard(self._destination(request))
                self.problem = KafkaError(code, detail)
                self._retry(request, code, now)
            case Reaction.AGAIN:
                self._enter(_S.UNINITIALIZED)
                self._settle_call(KafkaError(code, detail))
            case Reaction.ABORT | Reaction.NEW_EPOCH:
                self._needs_epoch = True
                self._contents.refused(request)
                self._fail(TransactionAbortableError(code, f"{detail}; abort the transaction"))
            case Reaction.FENCED:
                self._end_for_good(ProducerFencedError(ErrorCode.PRODUCER_FENCED, _fenced(detail)))
            case Reaction.FATAL:
                self._end_for_good(FatalTransactionError(code, f"{detail}; close the producer"))

    def _abort_refused(self, what: Reaction, code: ErrorCode, detail: str) -> None:
        """Handle a coordinator that does not know the producer ID, or wants an abort in response to one."""
        if what is Reaction.ABORT or (self.version < 2 and not self._bumps_epochs):
            self._end_for_good(FatalTransactionError(code, f"{detail}; close the producer"))
        else:
            self._needs_epoch = True
            self._complete()

    def _destination(self, request: Request) -> Coordinator:
        if request is Request.OFFSET_COMMIT and self._contents.offsets:
            return Coordinator(GROUP, self._contents.offsets[0].group.group_id)
        return self._coordinator

    def _retry(self, request: Request, code: ErrorCode, now: Millis) -> None:
        self._failures += 1
        config = self.config
        pause = min(config.retry_backoff_ms * 2 ** min(self._failures - 1, 16), config.retry_backoff_max_ms)
        begins = request is not Request.END and request is not Request.INIT_PRODUCER_ID
        if code is ErrorCode.CONCURRENT_TRANSACTIONS and begins:
            pause = min(pause, busy_pause_ms(self._failures))
        self._retry_at = now + pause

    def _succeeded(self) -> None:
        self._failures, self._retry_at, self.problem = 0, None, None

    def _fail(self, error: TransactionAbortableError) -> None:
        """Make the transaction one that can only abort."""
        if self.state in (_S.ABORTING, _S.ABORTABLE_ERROR):
            self._give_up_calls(error)
            return
        self.error = error
        committing = self.state is _S.COMMITTING
        self._enter(_S.ABORTABLE_ERROR)
        self._give_up_calls(error)
        self._actions.discard = error
        if committing:
            self._settle_call(error)

    def _end_for_good(self, error: FatalTransactionError) -> None:
        if self.state is _S.FATAL_ERROR:
            return
        self.error = error
        self._enter(_S.FATAL_ERROR)
        self._under_way = self._finding = self._retry_at = None
        self._give_up_calls(error)
        self._actions.discard, self._actions.discard_retries = error, True
        self._settle_call(error)

    def _give_up_calls(self, error: KafkaError) -> None:
        self._actions.settled += self._contents.give_up(error)

    def _settle_call(self, error: KafkaError | None) -> None:
        if self._call is not None:
            self._actions.settled.append(Settled(self._call, error))
        self._call = None

    def _raise_error(self, *, fatal_only: bool) -> None:
        if self.error is not None and (self.state is _S.FATAL_ERROR or not fatal_only):
            raise type(self.error)(self.error.code, self.error.sentence) from self.error

    def _refusal(self, method: str) -> TransactionStateError:
        return TransactionStateError(
            f"{method} does not apply now: the producer {self.config.transactional_id} {self.state.value}."
        )

    def _enter(self, state: TransactionState) -> None:
        assert self.state in PREDECESSORS[state], f"{self.state} -> {state}"
        self.state = state
        if state not in (_S.ABORTABLE_ERROR, _S.FATAL_ERROR):
            self.error = None

    # -- requests

    def _next(self, now: Millis) -> Actions:
        """Return what is to be done, with the next request if none is under way."""
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
        if self._under_way is None and self._finding is None and self._retry_at is None:
            request = self._request()
            if request is not None:
                self._send(*request)
        actions, self._actions = self._actions, Actions()
        actions.retry_at = self._retry_at
        return actions

    def _unchanged(self, settled: Iterable[Settled] = ()) -> Actions:
        return Actions(list(settled), retry_at=self._retry_at)

    def _send(self, kind: Request, message: Message) -> None:
        coordinator = self._destination(kind)
        if coordinator not in self._known:
            self._finding = self._actions.find = coordinator
            return
        if kind is Request.ADD_OFFSETS:
            self._contents.offsets[0].asked = True
        self._last_request += 1
        self._under_way = (self._last_request, kind)
        newest = None if self.version >= 2 else _NEWEST_IN_VERSION_1.get(type(message))
        self._actions.send = Send(self._last_request, message, coordinator, newest)

    def _request(self) -> tuple[Request, Message] | None:
        """Return the next request: additions to the transaction first, its end last."""
        name, state = self.config.transactional_id, self.state
        if state is _S.INITIALIZING:
            request = transactional_id_request(name, self.config.timeout_ms, self.producer_id)
            return Request.INIT_PRODUCER_ID, request
        if state in (_S.FATAL_ERROR, _S.UNINITIALIZED, _S.READY):
            return None
        assert self.producer_id is not None
        addition = self._contents.next_request(name, self.producer_id)
        if addition is not None:
            return addition
        if state not in (_S.COMMITTING, _S.ABORTING) or not self._all_written:
            return None
        if not self._contents.started:
            # Nothing was added, so the coordinator has no transaction to end.
            self._complete()
            return self._request()
        return Request.END, end_request(name, self.producer_id, commit=state is _S.COMMITTING)


def _fenced(detail: str) -> str:
    return f"{detail}; {_NEWER_EPOCH}: close this producer"
