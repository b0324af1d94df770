"""Blocking client of transaction coordinators: many transactions at once, each with its own coordinator."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from kohort.errors import ErrorCode, KafkaError, KohortError, error_code
from kohort.model import NO_TOPIC_ID, Millis, TopicPartition
from kohort.requests import (
    FetchRequestPartition,
    ProducerId,
    add_partitions_request,
    added_partitions,
    check,
    end_request,
    error_of,
    fetch_topics,
    transactional_id_request,
)
from kohort.wire.batches import read_header
from kohort.wire.codec import Message
from kohort.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from kohort.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kohort.wire.messages.end_txn import EndTxnResponse
from kohort.wire.messages.fetch import FetchRequest, FetchResponse
from kohort.wire.messages.init_producer_id import InitProducerIdResponse
from kohort.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from pyspark_kohort.net import BlockingCluster, BlockingConnection
from pyspark_kohort.sink.decisions import Outcome, Transaction

M = TypeVar("M", bound=Message)

_FIRST_PAUSE_S = 0.005
"""First pause before a request is repeated: a coordinator ends the last transaction of an ID in some milliseconds."""
_LONGEST_PAUSE_S = 0.5
_FIRST_BATCH = 1 << 10
"""Number of bytes to fetch; a broker returns a whole batch in any case."""
_ONGOING = "Ongoing"


class Coordinators:
    """Coordinators of transactional IDs. Requests are repeated for `patience_ms`."""

    def __init__(self, cluster: BlockingCluster, patience_ms: Millis) -> None:
        self._cluster = cluster
        self._patience_ms = patience_ms
        self._known: dict[str, BlockingConnection] = {}

    def begin(self, transactional_ids: Collection[str], timeout_ms: Millis) -> dict[str, ProducerId]:
        """Return a new epoch for each ID, which fences its last producer and aborts that one's open transaction.

        Raises KafkaError.
        """
        requests = {name: transactional_id_request(name, timeout_ms, None) for name in transactional_ids}
        answers = self._ask(requests, InitProducerIdResponse, lambda answer: error_code(answer.error_code))
        for name, answer in answers.items():
            check(answer.error_code, name)
        return {name: ProducerId(answer.producer_id, answer.producer_epoch) for name, answer in answers.items()}

    def add(self, transactional_id: str, producer: ProducerId, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to a transaction. Raises KafkaError."""
        request = add_partitions_request(transactional_id, producer, partitions)
        answers = self._ask({transactional_id: request}, AddPartitionsToTxnResponse, _code_of_addition)
        code = _code_of_addition(answers[transactional_id])
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"{transactional_id}: {code.sentence}")

    def end(self, transactions: Iterable[Transaction], *, commit: bool) -> dict[str, ErrorCode]:
        """End the transactions; return the coordinator's result for each ID.

        A result other than NONE says that the ID has another epoch or transaction now. See `outcome`.
        """
        requests = {
            transaction.transactional_id: end_request(transaction.transactional_id, transaction.producer, commit=commit)
            for transaction in transactions
        }
        answers = self._ask(requests, EndTxnResponse, lambda answer: error_code(answer.error_code))
        return {name: error_code(answer.error_code) for name, answer in answers.items()}

    def not_open(self, transactions: Iterable[Transaction]) -> list[Transaction]:
        """Return those of the transactions that are not open any more. Raises KafkaError."""
        by_id = {transaction.transactional_id: transaction for transaction in transactions}
        found = self._open(by_id)
        return [transaction for name, transaction in by_id.items() if found.get(name) != transaction.producer]

    def unused_id(self, name: str, first: int) -> str:
        """Return `name-NUMBER` with the first number, from `first` on, whose ID has no open transaction."""
        number = first
        while self._open([found := f"{name}-{number}"]):
            number += 1
        return found

    def _open(self, names: Collection[str]) -> dict[str, ProducerId]:
        """Return the producer of each open transaction. Raises KafkaError."""
        answers = self._ask(
            {name: DescribeTransactionsRequest(transactional_ids=[name]) for name in names},
            DescribeTransactionsResponse,
            lambda answer: error_code(answer.transaction_states[0].error_code),
        )
        found = {}
        for name, answer in answers.items():
            state = answer.transaction_states[0]
            if state.error_code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                check(state.error_code, name)
            if state.transaction_state == _ONGOING:
                found[name] = ProducerId(state.producer_id, state.producer_epoch)
        return found

    def open_ids(self, name: str) -> list[str]:
        """Return the IDs of the tasks of the sink with this name that have an open transaction."""
        pattern = re.compile(re.escape(name) + r"-\d+-\d+")
        request = ListTransactionsRequest(state_filters=[_ONGOING])

        def ask() -> list[str]:
            found = []
            for connection in self._cluster.all_brokers():
                answer = connection.call(request, ListTransactionsResponse)
                check(answer.error_code)
                found += [state.transactional_id for state in answer.transaction_states]
            return sorted(other for other in found if pattern.fullmatch(other))

        return self._cluster.ask(ask)

    def outcome(self, transaction: Transaction) -> Outcome:
        """Return how a transaction ended, from the log of one of its partitions.

        A coordinator knows only the last transaction of an ID, and forgets IDs. Waits for a transaction
        that is being ended. Raises KohortError if the log has its records no longer.
        """
        if transaction.place is None:
            raise _unknown(transaction, "no response had the offset of a record of it")
        deadline, pause = time.monotonic() + self._patience_ms / 1000, _FIRST_PAUSE_S
        while (found := self._cluster.ask(lambda: self._outcome_at(transaction))) is None:
            if time.monotonic() > deadline:
                raise KohortError(f"Transaction {transaction.transactional_id} has not ended in time; start again.")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        return found

    def _outcome_at(self, transaction: Transaction) -> Outcome | None:
        """Return the outcome, or None if it is not known yet. Raises KafkaError."""
        assert transaction.place is not None
        tp, offset = transaction.place
        wanted = {tp: FetchRequestPartition(NO_TOPIC_ID, offset, _FIRST_BATCH)}
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=_FIRST_BATCH, isolation_level=1, topics=fetch_topics(wanted)
        )
        answer = self._cluster.leader(tp).call(request, FetchResponse)
        check(answer.error_code, str(tp))
        if not answer.responses:  # a quota throttles this client: the broker has read nothing
            return None
        data = answer.responses[0].partitions[0]
        error = error_of(data.error_code, str(tp))
        if error is not None:
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                raise _unknown(transaction, f"{tp} does not have offset {offset} any more")
            raise error
        if data.last_stable_offset <= offset:
            return None
        # Without its first batch, the response would not list the transaction among the aborted ones.
        header = read_header(data.records, 0) if isinstance(data.records, bytes | bytearray | memoryview) else None
        if header is None or header.base_offset != offset or header.producer_id != transaction.producer.id:
            raise _unknown(transaction, f"{tp} has other records at offset {offset}")
        aborted = any(
            entry.producer_id == transaction.producer.id and entry.first_offset <= offset
            for entry in data.aborted_transactions or ()
        )
        return Outcome.ABORTED if aborted else Outcome.COMMITTED

    def _ask(self, requests: Mapping[str, Message], answer: type[M], code_of: Callable[[M], ErrorCode]) -> dict[str, M]:
        """Send each request to the coordinator of its ID, all at once; repeat those with a retriable error."""
        answers: dict[str, M] = {}
        deadline = time.monotonic() + self._patience_ms / 1000
        pause = _FIRST_PAUSE_S
        while True:
            problem: KafkaError | None = None
            try:
                for name, response in self._answers(
                    [name for name in requests if name not in answers], requests, answer
                ):
                    code = code_of(response)
                    if code.retriable:
                        problem = KafkaError(code, f"{name}: {code.sentence}")
                        if code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                            self._known.pop(name)
                    else:
                        answers[name] = response
            except KafkaError as error:
                self._cluster.reset()  # responses may be under way
                self._known.clear()
                if not error.retriable:
                    raise
                problem = error
            except BaseException:
                self._cluster.reset()  # Spark reuses this process for other tasks
                raise
            if problem is None:
                return answers
            if time.monotonic() + pause > deadline:
                raise problem
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _answers(
        self, names: Collection[str], requests: Mapping[str, Message], answer: type[M]
    ) -> Iterable[tuple[str, M]]:
        for name in names:
            if name not in self._known:
                self._known[name] = self._cluster.transaction_coordinator(name)
        for name in names:
            self._known[name].send(requests[name])
        # All are received before an error of one is handled: a connection has no other responses under way then.
        return [(name, self._known[name].receive(answer)) for name in names]


def _code_of_addition(answer: AddPartitionsToTxnResponse) -> ErrorCode:
    """Return the error that decides: partitions that the coordinator did not try say nothing."""
    codes = [code for code in added_partitions(answer).values() if code is not ErrorCode.NONE]
    return min(
        codes, key=lambda code: (code is ErrorCode.OPERATION_NOT_ATTEMPTED, code.retriable), default=ErrorCode.NONE
    )


def _unknown(transaction: Transaction, why: str) -> KohortError:
    return KohortError(
        f"Nobody can tell whether transaction {transaction.transactional_id} (producer {transaction.producer.id}, epoch"
        f" {transaction.producer.epoch}) was committed: its coordinator has another transaction or none, and {why}."
        " See docs/spark-guarantees.md, What stays open."
    )
