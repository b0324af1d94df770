"""Fetch: record batches as they lie in the log, now or when enough of them have come (long poll).

No fetch sessions yet: KIP-227 lets a broker answer with session id 0, and clients then name all partitions each time.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from kohort.broker.call import Call
from kohort.broker.parked_fetches import ParkedFetch
from kohort.errors import ErrorCode
from kohort.log import CorruptBatch
from kohort.log.api import OffsetOutOfRange, PartitionLog, Topic
from kohort.wire.codec import Buffer
from kohort.wire.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from kohort.broker.server import Broker

_TOPIC_IDS_FROM = 13


@dataclass(slots=True)
class _Gathered:
    """One reading of all partitions that a fetch asks for."""

    room: int
    responses: list[FetchableTopicResponse] = field(default_factory=list)
    logs: list[PartitionLog] = field(default_factory=list)
    served: list[tuple[str, int]] = field(default_factory=list)
    """Topic and partition of everything that was read without an error, records or not."""
    size: int = 0
    failed: bool = False
    committed_only: bool = False
    """Whoever reads so wants to hear of aborted transactions; there are none."""


def handle(broker: "Broker", call: Call, request: FetchRequest) -> None:
    """Answer at once with what there is, an error included, or park it until min_bytes are there or time is up."""
    # KIP-227: epoch -1 asks for no session, epoch 0 for a new one; any other goes on with one that is not here.
    if request.session_epoch > 0:
        call.reply(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        return
    gathered = _gather(broker, request, call.version)
    if broker.journal.watching:
        _tell_journal(broker, call, gathered)
    if gathered.failed or gathered.size >= request.min_bytes or request.max_wait_ms <= 0 or not gathered.logs:
        _reply(broker, call, gathered)
        return

    def look_again(last: bool) -> bool:
        again = _gather(broker, request, call.version)
        if not (last or again.failed or again.size >= request.min_bytes):
            return False
        _reply(broker, call, again)
        return True

    parked = ParkedFetch(broker.parked_fetches, gathered.logs, look_again)
    parked.expire_after(request.max_wait_ms / 1000)
    call.on_abandon = parked.cancel


def _tell_journal(broker: "Broker", call: Call, gathered: _Gathered) -> None:
    """A fetch counts as a read when it arrives.

    One that was parked before a rebalance is answered after it to a client that drops the answer, and an owner that
    waits for records that nobody has written is not paused.
    """
    for topic, partition in gathered.served:
        broker.journal.fetched(call.connection.client_id, call.connection.host, topic, partition, broker.now())


def _reply(broker: "Broker", call: Call, gathered: _Gathered) -> None:
    call.reply(FetchResponse(responses=gathered.responses))


def _gather(broker: "Broker", request: FetchRequest, version: int) -> _Gathered:
    # Before v3 a fetch had no limit of its own.
    wanted = request.max_bytes if version >= 3 else broker.fetch_max_bytes
    gathered = _Gathered(room=min(wanted, broker.fetch_max_bytes), committed_only=request.isolation_level == 1)
    for wanted_topic in request.topics:
        topic, missing = _topic(broker, wanted_topic, version)
        gathered.responses.append(
            FetchableTopicResponse(
                topic=wanted_topic.topic,
                topic_id=wanted_topic.topic_id,
                partitions=[_partition(broker, topic, missing, p, gathered) for p in wanted_topic.partitions],
            )
        )
    return gathered


def _topic(broker: "Broker", wanted: FetchTopic, version: int) -> tuple[Topic | None, ErrorCode]:
    if version >= _TOPIC_IDS_FROM:
        return broker.topics.with_id(wanted.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    return broker.topics.named(wanted.topic), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _partition(
    broker: "Broker", topic: Topic | None, missing: ErrorCode, wanted: FetchPartition, gathered: _Gathered
) -> PartitionData:
    log = None if topic is None else broker.topics.log(topic, wanted.partition)
    if topic is None or log is None:
        return _failed(wanted, missing if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, gathered, [])
    if 0 <= wanted.current_leader_epoch < log.leader_epoch:
        return _failed(wanted, ErrorCode.FENCED_LEADER_EPOCH, gathered, None)
    if wanted.current_leader_epoch > log.leader_epoch:
        return _failed(wanted, ErrorCode.UNKNOWN_LEADER_EPOCH, gathered, None)
    try:
        records = _read(log, wanted, gathered)
    except OffsetOutOfRange:
        return _failed(wanted, ErrorCode.OFFSET_OUT_OF_RANGE, gathered, None)
    except CorruptBatch:
        return _failed(wanted, ErrorCode.CORRUPT_MESSAGE, gathered, None)
    except OSError:
        return _failed(wanted, ErrorCode.KAFKA_STORAGE_ERROR, gathered, None)
    gathered.logs.append(log)
    gathered.served.append((topic.name, wanted.partition))
    return PartitionData(
        partition_index=wanted.partition,
        high_watermark=log.stable_offset,
        last_stable_offset=log.stable_offset,
        log_start_offset=log.start_offset,
        aborted_transactions=[] if gathered.committed_only else None,
        records=records,
    )


def _read(log: PartitionLog, wanted: FetchPartition, gathered: _Gathered) -> list[Buffer]:
    # KIP-74: the first batch of the answer is given whole even if it is over the limit, or nobody could ever read it.
    room = min(wanted.partition_max_bytes, gathered.room - gathered.size)
    if room <= 0 and gathered.size > 0:
        if not log.start_offset <= wanted.fetch_offset <= log.stable_offset:
            raise OffsetOutOfRange
        return []
    # The codec asks of a part how long it is and passes it on; the connection knows how to send it.
    buffers = cast("list[Buffer]", log.send(wanted.fetch_offset, max(room, 1)))
    size = sum(map(len, buffers))
    if size > max(room, 1) and gathered.size > 0:
        return []
    gathered.size += size
    return buffers


def _failed(
    wanted: FetchPartition, code: ErrorCode, gathered: _Gathered, aborted: list[AbortedTransaction] | None
) -> PartitionData:
    """As Kafka: no aborted transactions where there is no such partition, null where it could not be read."""
    gathered.failed = True
    return PartitionData(
        partition_index=wanted.partition,
        error_code=code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=aborted,
        records=[],
    )
