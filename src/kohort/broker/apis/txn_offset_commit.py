"""TxnOffsetCommit: a group's offsets, committed as part of a transaction (KIP-98, KIP-447)."""

from functools import partial
from typing import Protocol

from kohort.broker.config import BrokerConfig
from kohort.broker.groups import GroupCoordinator, Shard, refusal
from kohort.broker.logs import Topics
from kohort.broker.net import Call
from kohort.broker.transactions import Producers, Question, TransactionCoordinator, Verdicts, is_obsolete
from kohort.coordinator import RequestContext
from kohort.errors import ErrorCode
from kohort.log import Producer
from kohort.wire.codec import Message
from kohort.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    config: BrokerConfig
    groups: GroupCoordinator
    topics: Topics
    transactions: TransactionCoordinator


_KNOWS_ABORTABLE_FROM = 4
_ADDS_FROM = 5
"""First version whose group the broker adds to the transaction."""


def handle(broker: Dependencies, call: Call, request: TxnOffsetCommitRequest) -> None:
    """Commit offsets of known partitions, once the group is known to be part of the transaction."""
    unknown: list[TxnOffsetCommitResponseTopic] = []
    topics = []
    for topic in request.topics:
        known, missing = _divided(broker, topic)
        if missing.partitions:
            unknown.append(missing)
        if known.partitions:
            topics.append(known)
    request.topics = topics
    if not topics:
        call.reply(TxnOffsetCommitResponse(topics=unknown))
        return
    waiter = _Waiter(call, request, unknown)
    if not request.group_id:
        waiter.reply(refusal(request, call.version, ErrorCode.INVALID_GROUP_ID))
        return
    turn = partial(_verify, broker, waiter, request)
    broker.transactions.verification.in_turn(request.producer_id, turn)


def _divided(
    broker: Dependencies, topic: TxnOffsetCommitRequestTopic
) -> tuple[TxnOffsetCommitRequestTopic, TxnOffsetCommitResponseTopic]:
    """Return the partitions that exist, and the answer for the others."""
    found = broker.topics.named(topic.name)
    count = 0 if found is None else found.partitions
    known = [one for one in topic.partitions if 0 <= one.partition_index < count]
    missing = [one.partition_index for one in topic.partitions if not 0 <= one.partition_index < count]
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answers = [TxnOffsetCommitResponsePartition(partition_index=number, error_code=code) for number in missing]
    return (
        TxnOffsetCommitRequestTopic(name=topic.name, partitions=known),
        TxnOffsetCommitResponseTopic(name=topic.name, partitions=answers),
    )


def _verify(broker: Dependencies, waiter: "_Waiter", request: TxnOffsetCommitRequest) -> None:
    shard, verification = broker.groups.shard(request.group_id), broker.transactions.verification
    producers = _producers(waiter.version)
    before: Producer | None = None
    term = -1

    def remember() -> None:
        nonlocal before, term
        before, term = shard.producer(request.producer_id), shard.term

    remember()
    verifies = producers is Producers.ADDING or broker.config.flag("transaction.partition.verification.enable")
    if not shard.ready or _is_open(before, request) or not verifies:
        _commit(shard, waiter, request)
        verification.finished(request.producer_id)
        return
    partition = broker.groups.offsets_partition(request.group_id)

    def done(verdicts: Verdicts) -> None:
        code = verdicts[partition]
        if code is ErrorCode.NETWORK_EXCEPTION:
            # As in Kafka: clients repeat the request with this error, and look for no other coordinator.
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if code is ErrorCode.NONE and shard.term != term:
            # Another broker may have led it meanwhile and have written a marker. The producer sends the request again.
            code = shard.unready or ErrorCode.NOT_COORDINATOR
        elif code is ErrorCode.NONE and is_obsolete(producers, before, shard.producer(request.producer_id)):
            code = ErrorCode.INVALID_TXN_STATE
        try:
            if code is ErrorCode.NONE:
                _commit(shard, waiter, request)
            else:
                waiter.reply(refusal(request, waiter.version, code))
        finally:
            verification.finished(request.producer_id)

    question = Question(
        request.transactional_id, request.producer_id, request.producer_epoch, producers, {partition}, remember
    )
    verification.ask(question, done)


def _commit(shard: Shard, waiter: "_Waiter", request: TxnOffsetCommitRequest) -> None:
    known = shard.producer(request.producer_id)
    if known is not None and request.producer_epoch < known.epoch:
        waiter.reply(refusal(request, waiter.version, ErrorCode.INVALID_PRODUCER_EPOCH))
    else:
        shard.handle(request, waiter, RequestContext(waiter, waiter.version))


def _is_open(known: Producer | None, request: TxnOffsetCommitRequest) -> bool:
    return known is not None and known.transaction_start is not None and known.epoch == request.producer_epoch


def _producers(version: int) -> Producers:
    if version >= _ADDS_FROM:
        return Producers.ADDING
    return Producers.ABORTING if version >= _KNOWS_ABORTABLE_FROM else Producers.OLD


class _Waiter:
    """The coordinator's token: it adds the unknown partitions to the answer."""

    __slots__ = ("_call", "_unknown", "request", "version")

    def __init__(self, call: Call, request: Message, unknown: list[TxnOffsetCommitResponseTopic]) -> None:
        self._call = call
        self._unknown = unknown
        self.request = request
        self.version = call.version

    def reply(self, response: Message, /) -> None:
        """Send the combined answer."""
        assert isinstance(response, TxnOffsetCommitResponse)
        by_name = {topic.name: topic for topic in self._unknown}
        for topic in response.topics:
            if topic.name in by_name:
                by_name[topic.name].partitions += topic.partitions
            else:
                self._unknown.append(topic)
        self._call.reply(TxnOffsetCommitResponse(topics=self._unknown))
