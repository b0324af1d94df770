"""Verification that partitions are in a transaction, before they get records of it (KIP-890).

With transaction.version 2, the partition is added to the transaction by the first request that writes to it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from kohort.broker.config import BrokerConfig
from kohort.broker.transactions.other_brokers import OtherBrokers
from kohort.broker.transactions.shard import TransactionPartition
from kohort.coordinator import RequestContext
from kohort.errors import ErrorCode, error_code
from kohort.log import Producer
from kohort.log.cluster import Node
from kohort.model import Millis, TopicPartition
from kohort.wire.codec import Message
from kohort.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    config: BrokerConfig
    node_id: int


class Shards(Protocol):
    """The shards of this broker, and the brokers of the others."""

    def shard(self, transactional_id: str) -> TransactionPartition | None: ...

    def known_coordinator(self, transactional_id: str) -> Node | None: ...


class Producers(Enum):
    """What the version of a request tells about its producer: what it expects of the broker, and knows of errors."""

    OLD = "verify; it does not know TRANSACTION_ABORTABLE"
    ABORTING = "verify; it knows TRANSACTION_ABORTABLE"
    ADDING = "add the partitions: every transaction has its own epoch"


_VERSION = 5
"""Version of AddPartitionsToTxn in which brokers ask each other; the request says whether it adds partitions."""

_AGAIN_MS: Millis = 5
"""First interval between two requests to another broker that still ends the producer's last transaction."""

Verdicts = Mapping[TopicPartition, ErrorCode]
_Done = Callable[[Verdicts], None]


@dataclass(slots=True)
class Question:
    """Partitions that are to be verified for one producer."""

    transactional_id: str
    producer_id: int
    epoch: int
    producers: Producers
    partitions: Collection[TopicPartition]
    remember: Callable[[], None]
    """Remembers the producers of the partitions, for `is_obsolete`; called before each attempt to ask."""


class Verification:
    """Asks the coordinators of transactional IDs.

    Questions of one producer are asked one after the other, so that its batches keep their order.
    """

    def __init__(self, broker: Dependencies, shards: Shards, others: OtherBrokers) -> None:
        self._broker = broker
        self._shards = shards
        self._others = others
        self._waiting: dict[int, deque[Callable[[], None]]] = {}
        """Work of producers that have a question open, by producer ID."""

    def in_turn(self, producer_id: int, work: Callable[[], None]) -> None:
        """Do `work`, which ends with a question or with `finished`, after all earlier work of the producer."""
        waiting = self._waiting.get(producer_id)
        if waiting is None:
            self._waiting[producer_id] = deque()
            work()
        else:
            waiting.append(work)

    def finished(self, producer_id: int) -> None:
        """Begin the next work of the producer."""
        waiting = self._waiting[producer_id]
        if waiting:
            asyncio.get_running_loop().call_soon(waiting.popleft())
        else:
            del self._waiting[producer_id]

    def ask(self, question: Question, done: _Done) -> None:
        """Call `done` with the result of each partition, at once or later."""
        config, loop = self._broker.config, asyncio.get_running_loop()
        until = loop.time() + config.number("add.partitions.to.txn.retry.backoff.max.ms") / 1000
        attempts = 0

        def answered(verdicts: Verdicts) -> None:
            nonlocal attempts
            attempts += 1
            busy = ErrorCode.CONCURRENT_TRANSACTIONS in verdicts.values()
            if busy and question.producers is Producers.ADDING and loop.time() < until:
                self._ask_again(question, attempts, until, answered)
            else:
                done({partition: _known_to(question.producers, code) for partition, code in verdicts.items()})

        self._ask_once(question, answered)

    def _ask_again(self, question: Question, attempts: int, until: float, done: _Done) -> None:
        """Ask again when the markers of the producer's last transaction are probably written, or at `until`.

        That takes a few milliseconds. This broker's own coordinator knows when it is over. Another broker's has to be
        asked: if its response waited, all later responses of the connection would wait, too.
        """
        loop, shard = asyncio.get_running_loop(), self._shards.shard(question.transactional_id)
        if shard is None or not shard.ready:
            longest_ms = self._broker.config.number("add.partitions.to.txn.retry.backoff.ms")
            again_ms = min(_AGAIN_MS << min(attempts - 1, 16), longest_ms)
            loop.call_later(again_ms / 1000, self._ask_once, question, done)
            return
        waits = True

        def ask() -> None:
            nonlocal waits
            if waits:
                waits = False
                timer.cancel()
                withdraw()
                self._ask_once(question, done)

        timer = loop.call_at(until, ask)
        withdraw = shard.when_over(question.transactional_id, ask)

    def _ask_once(self, question: Question, done: _Done) -> None:
        question.remember()
        shard = self._shards.shard(question.transactional_id)
        if shard is None:
            done(dict.fromkeys(question.partitions, ErrorCode.NOT_COORDINATOR))
            return
        waiter = _Waiter(_request(question), _VERSION, question.partitions, done)
        node = self._shards.known_coordinator(question.transactional_id)
        if shard.leads or node is None or node.node_id == self._broker.node_id:
            shard.handle(waiter.request, waiter, RequestContext(waiter, waiter.version))
        else:
            self._others.ask(node, waiter.request, AddPartitionsToTxnResponse, waiter.other_replied)


def _request(question: Question) -> AddPartitionsToTxnRequest:
    by_topic: dict[str, list[int]] = {}
    for topic, number in question.partitions:
        by_topic.setdefault(topic, []).append(number)
    one = AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.epoch,
        verify_only=question.producers is not Producers.ADDING,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in by_topic.items()],
    )
    return AddPartitionsToTxnRequest(transactions=[one])


@dataclass(slots=True, eq=False)
class _Waiter:
    """The coordinator's token for a question."""

    request: Message
    version: int
    partitions: Collection[TopicPartition]
    done: _Done = field(repr=False)

    def reply(self, response: Message, /) -> None:
        """Pass the results on."""
        assert isinstance(response, AddPartitionsToTxnResponse)
        self.other_replied(response)

    def other_replied(self, response: AddPartitionsToTxnResponse | None) -> None:
        """Pass the results of another broker on; None if it did not answer."""
        code = ErrorCode.NETWORK_EXCEPTION if response is None else error_code(response.error_code)
        if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            code = ErrorCode.INVALID_TXN_STATE  # as in Kafka: it is this broker that lacks the permission
        verdicts = dict.fromkeys(self.partitions, code or ErrorCode.NETWORK_EXCEPTION)
        for transaction in () if response is None else response.results_by_transaction:
            for topic in transaction.topic_results:
                for result in topic.results_by_partition:
                    here = TopicPartition(topic.name, result.partition_index)
                    verdicts[here] = error_code(result.partition_error_code)
        self.done(verdicts)


def is_obsolete(producers: Producers, before: Producer | None, now: Producer | None) -> bool:
    """Return whether the answer to a question is about a transaction that is over.

    A marker shows it that the partition got since the producer was remembered. If each transaction has its own epoch,
    it may be the marker of the last transaction, which the coordinator completed before it read the question. A later
    marker makes the epoch of the request an old one, so nothing is written then either.
    """
    return producers is not Producers.ADDING and now is not before


def _known_to(producers: Producers, code: ErrorCode) -> ErrorCode:
    """Return the code that such a producer understands."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH  # as in Kafka, for all: a partition knows only this error
    if code is ErrorCode.TRANSACTION_ABORTABLE and producers is Producers.OLD:
        return ErrorCode.INVALID_TXN_STATE
    return code
