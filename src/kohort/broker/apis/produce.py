"""Produce: check each batch, by its header where that suffices, append it as received, answer when it is on disk."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Protocol, assert_never

from kohort.broker.apis.current_leader import Dependencies as LeaderParts
from kohort.broker.apis.current_leader import current_leader, endpoints
from kohort.broker.apis.transactional_produce import Dependencies as TransactionParts
from kohort.broker.apis.transactional_produce import Refused, has_epoch_per_transaction, verify
from kohort.broker.logs import INTERNAL_TOPICS, GroupCommit, TopicRules, Topics, Writer
from kohort.broker.net import Call, ClientConnection
from kohort.broker.quotas import ClientQuotas
from kohort.errors import ErrorCode
from kohort.log import Accepted, Duplicate, Fenced, NotTransactional, OutOfOrder, PartitionLog, PartitionStopped, Topic
from kohort.model import NO_TOPIC_ID, Millis
from kohort.wire.batches import (
    BatchError,
    BatchHeader,
    check_batches,
    decode_records,
    is_transactional,
    recompress,
    stamp,
)
from kohort.wire.codec import Buffer
from kohort.wire.messages.current_leader import LeaderIdAndEpoch, NodeEndpoint
from kohort.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)


class Dependencies(LeaderParts, TransactionParts, Protocol):
    """The parts of the broker that this module uses."""

    client_quotas: ClientQuotas
    rules: TopicRules
    topics: Topics
    writer: Writer

    def no_log(self, topic: Topic | None, partition: int) -> ErrorCode: ...

    def wall(self) -> Millis: ...

    def throttle_if_full(self, connection: ClientConnection) -> None: ...


_TOPIC_IDS_FROM = 13
_ALL = -1
"""acks of a producer that waits for the in-sync replicas."""
_NO_TIME = -1
"""Timestamp of a record to which the producer gave none."""


def handle(broker: Dependencies, call: Call, request: ProduceRequest) -> None:
    """Append records. acks=0 gets no answer; 1 and -1 both wait for the disk."""
    if request.acks not in (-1, 0, 1):
        refused = [_refuse_topic(topic, ErrorCode.INVALID_REQUIRED_ACKS) for topic in request.topic_data]
        _reply(broker, call, request, refused)
        return
    if any(is_transactional(data.records) for topic in request.topic_data for data in topic.partition_data):
        if request.transactional_id is None:
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            _reply(broker, call, request, [_refuse_topic(topic, code) for topic in request.topic_data])
        else:
            verify(broker, request, call.version, partial(_append_all, broker, call, request))
        return
    _append_all(broker, call, request, {})


def _append_all(broker: Dependencies, call: Call, request: ProduceRequest, refused: Refused) -> None:
    """Append what is not refused because of its transaction."""
    answers = [_append_topic(broker, topic, call.version, request.acks, refused) for topic in request.topic_data]
    nodes = endpoints(broker, _leaders(answers), call.connection.listener)
    broker.throttle_if_full(call.connection)
    if any(p.error_code == ErrorCode.NONE for answer in answers for p in answer.partition_responses):
        _answer_when_durable(broker, broker.writer.current(), call, request, answers, nodes)
    else:
        _reply(broker, call, request, answers, nodes)


def _has_replicas(broker: Dependencies, topic: Topic, partition: int) -> bool:
    """Return whether min.insync.replicas are in sync; at most as many are required as the partition has."""
    required = broker.rules.min_in_sync(topic)
    if required == 1:
        return True
    replicas = broker.leadership.replicas(topic, partition)
    return len(replicas.in_sync) >= min(required, len(replicas.nodes))


def _leaders(answers: list[TopicProduceResponse]) -> Iterator[LeaderIdAndEpoch]:
    for answer in answers:
        for partition in answer.partition_responses:
            if partition.current_leader is not None:
                yield partition.current_leader


def _append_topic(
    broker: Dependencies, data: TopicProduceData, version: int, acks: int, refused: Refused
) -> TopicProduceResponse:
    if version >= _TOPIC_IDS_FROM:
        topic, missing = broker.topics.with_id(data.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic, missing = broker.topics.named(data.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        return _refuse_topic(data, missing)
    if topic.name in INTERNAL_TOPICS:
        # A record in __consumer_offsets would change a group without its coordinator; in the journal it would be false.
        detail = f"Only brokers write to the internal topic {topic.name}."
        return _refuse_topic(data, ErrorCode.INVALID_TOPIC_EXCEPTION, detail)
    return TopicProduceResponse(
        name=data.name,
        topic_id=data.topic_id,
        partition_responses=[
            _refused(partition.index, *refused[id(partition)])
            if id(partition) in refused
            else _append(broker, topic, partition, version, acks)
            for partition in data.partition_data
        ],
    )


def _append(
    broker: Dependencies, topic: Topic, data: PartitionProduceData, version: int, acks: int
) -> PartitionProduceResponse:
    log = broker.topics.log(topic, data.index)
    if log is None:
        return _refused_elsewhere(broker, topic, data.index)
    if acks == _ALL and not _has_replicas(broker, topic, data.index):
        return _refused(data.index, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS.sentence)
    try:
        (header,) = check_batches(data.records, broker.rules.max_batch_bytes(topic))
        keyless = _keyless(data.records) if broker.rules.compacts(topic) else []
        is_timely = broker.rules.stamps(topic) or _is_timely(header, data.records, *broker.rules.times(topic))
        codec = broker.rules.codec(topic)
        if codec is not None and codec != header.codec:
            data.records = recompress(data.records or b"", codec)
            (header,) = check_batches(data.records, broker.rules.max_batch_bytes(topic))
    except BatchError as error:
        return _refused(data.index, error.code, error.sentence)
    if keyless:
        return _refused_for(data.index, keyless, "a compacted topic takes no record without a key")
    if header.base_offset != 0:
        return _refused(data.index, ErrorCode.INVALID_RECORD, "a producer's batch must begin at offset 0")
    if not is_timely:
        return _refused(data.index, ErrorCode.INVALID_TIMESTAMP, "a record's time is too far from now")
    append_time = -1
    match log.producers.check(header, epoch_per_transaction=has_epoch_per_transaction(version)):
        case Accepted():
            assert data.records is not None
            records = _writable(data.records)
            if broker.rules.stamps(topic):
                append_time = broker.wall()
                stamp(records, append_time)
            try:
                base_offset = log.append(records, log.leader_epoch)
            except PartitionStopped as error:
                return _refused(data.index, ErrorCode.KAFKA_STORAGE_ERROR, error.strerror)
        case Duplicate(base_offset=base_offset):
            pass  # KIP-98: the answer was lost, so it is repeated once the batch is on disk
        case OutOfOrder(detail=detail):
            return _refused_at(log, data.index, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, detail)
        case Fenced(detail=detail):
            return _refused_at(log, data.index, ErrorCode.INVALID_PRODUCER_EPOCH, detail)
        case NotTransactional(detail=detail):
            return _refused_at(log, data.index, ErrorCode.INVALID_TXN_STATE, detail)
        case verdict:
            assert_never(verdict)
    return PartitionProduceResponse(
        index=data.index,
        base_offset=base_offset,
        log_append_time_ms=append_time,
        log_start_offset=log.start_offset,
    )


def _keyless(records: Buffer | None) -> list[int]:
    """Return the batch's records without a key: compaction could never remove them or anything below them.

    Batches are decoded only for this check, for timestamps, and where a topic has a codec of its own.
    """
    assert records is not None
    return [at for at, record in enumerate(decode_records(records, check_crc=False)) if record.key is None]


def _is_timely(header: BatchHeader, records: Buffer | None, first: Millis, last: Millis) -> bool:
    """Return whether every record's timestamp is within the limits.

    A timestamp far ahead is a mistake, and would keep its segment for good. A header has only the latest timestamp, so
    the batch is decoded for the earliest one if any timestamp can be too early.
    """
    if header.max_timestamp > last:
        return False
    if first <= 0:
        return True
    assert records is not None
    times = (record.timestamp for record in decode_records(records, check_crc=False))
    return all(time >= first or time == _NO_TIME for time in times)


def _writable(records: Buffer) -> bytearray | memoryview:
    """Return a writable buffer, because the log sets offset and epoch in place; only small requests are copied."""
    view = memoryview(records)
    return bytearray(view) if view.readonly else view


def _answer_when_durable(
    broker: Dependencies,
    commit: GroupCommit,
    call: Call,
    request: ProduceRequest,
    answers: list[TopicProduceResponse],
    nodes: list[NodeEndpoint],
) -> None:
    commit.then(
        lambda: _reply(broker, call, request, answers, nodes),
        lambda: _reply(broker, call, request, _unwritten(answers), nodes),
    )


def _reply(
    broker: Dependencies,
    call: Call,
    request: ProduceRequest,
    answers: list[TopicProduceResponse],
    nodes: Iterable[NodeEndpoint] = (),
) -> None:
    quota, throttle_ms = broker.client_quotas.produce, 0
    if quota.enforced:
        throttle_ms = quota.throttle(call.connection, call.size)
    if request.acks != 0:
        call.reply(ProduceResponse(responses=answers, throttle_time_ms=throttle_ms, node_endpoints=list(nodes)))
    elif any(p.error_code != ErrorCode.NONE for answer in answers for p in answer.partition_responses):
        # As in Kafka: with acks=0, closing the connection is the only way to signal the error.
        call.connection.refuse("a batch with acks=0 was refused")
    else:
        call.complete_without_answer()


def _refused_elsewhere(broker: Dependencies, topic: Topic, index: int) -> PartitionProduceResponse:
    refused = _refused(index, broker.no_log(topic, index))
    refused.current_leader = current_leader(broker, topic, index)
    return refused


def _unwritten(answers: list[TopicProduceResponse]) -> list[TopicProduceResponse]:
    for answer in answers:
        answer.partition_responses = [
            _refused(p.index, ErrorCode.KAFKA_STORAGE_ERROR) if p.error_code == ErrorCode.NONE else p
            for p in answer.partition_responses
        ]
    return answers


def _refuse_topic(data: TopicProduceData, code: ErrorCode, detail: str | None = None) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=data.name,
        topic_id=data.topic_id or NO_TOPIC_ID,
        partition_responses=[_refused(partition.index, code, detail) for partition in data.partition_data],
    )


def _refused(index: int, code: ErrorCode, detail: str | None = None) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=code, base_offset=-1, error_message=detail or code.sentence)


def _refused_at(log: PartitionLog, index: int, code: ErrorCode, detail: str) -> PartitionProduceResponse:
    """Reject a batch with the start of the log, as Kafka does for some errors of producers."""
    refused = _refused(index, code, detail)
    refused.log_start_offset = log.start_offset
    return refused


def _refused_for(index: int, records: list[int], why: str) -> PartitionProduceResponse:
    """Reject the whole batch but name the records at fault, so that the others may be sent again (KIP-467)."""
    refused = _refused(index, ErrorCode.INVALID_RECORD, why)
    refused.record_errors = [
        BatchIndexAndErrorMessage(batch_index=record, batch_index_error_message=why) for record in records
    ]
    return refused
