"""On an executor: fetch ranges from their partitions' leaders and yield them as Arrow batches.

While a response is decoded, the request for what follows it is already with the broker.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from crc32c import crc32c

from kohort.columns import kernels
from kohort.columns.decoder import Batches, Decoder, index_batches
from kohort.errors import ErrorCode, KafkaError, KohortError, error_code
from kohort.model import NO_TOPIC_ID, UUID, TopicPartition
from kohort.wire.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kohort.wire.records import BatchError
from pyspark_kohort.cluster import Cluster
from pyspark_kohort.connection import Connection
from pyspark_kohort.offsets import EARLIEST, topic_id_of_text
from pyspark_kohort.options import Broker
from pyspark_kohort.plan import Range

_log = logging.getLogger(__name__)

_CRC_FROM = 21
"""A batch's checksum is of what follows it: everything but base offset, length, leader epoch and magic."""
_MAX_WAIT_MS = 500
_FIRST_FETCH = 1 << 20
"""Until a topic's records' size is known; a range of few small records should not fetch megabytes behind it."""


_OTHER_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID})


class _Clusters(threading.local):
    """Python workers live from task to task: their connections do too. No two threads share one."""

    def __init__(self) -> None:
        self.known: dict[Broker, Cluster] = {}


_clusters = _Clusters()


def cluster_of_worker(broker: Broker) -> Cluster:
    """The cluster as this thread knows it from its last task."""
    return _clusters.known.setdefault(broker, Cluster(broker))


def disconnect() -> None:
    """Close what this thread's tasks opened, for a process that goes on with other things."""
    while _clusters.known:
        _clusters.known.popitem()[1].close()


def _uuid(topic_id: str | None) -> UUID:
    return topic_id_of_text(topic_id) or NO_TOPIC_ID


def read_ranges(
    ranges: Sequence[Range], schema: pa.Schema, broker: Broker, *, fail_on_data_loss: bool, skip_corrupt: bool = False
) -> Iterator[pa.RecordBatch]:
    """All records of the ranges as batches of that schema.

    Raises KohortError where records are gone that the ranges promise, unless `fail_on_data_loss` is off, and BatchError
    where a record batch is damaged; with `skip_corrupt` one whose checksum is wrong is left out, and the log counts it.
    """
    decoder = Decoder(schema, read_committed=broker.read_committed)
    damaged: list[str] = []
    for piece in _Reading(cluster_of_worker(broker), ranges, fail_on_data_loss).pieces():
        batches = _sound(piece, damaged) if skip_corrupt else piece.batches
        yield from decoder.feed(
            piece.buffer, batches, piece.tp, first=piece.first, until=piece.until, aborted=piece.aborted
        )
    yield from decoder.finish()
    if damaged:
        _log.warning("skipped %d record batches whose checksum is wrong: %s", len(damaged), ", ".join(damaged[:20]))


@dataclass(slots=True)
class _Part:
    """A range, and how far it has been fetched."""

    tp: TopicPartition
    next: int
    until: int
    topic_id: str | None

    @property
    def left(self) -> int:
        return self.until - self.next


@dataclass(frozen=True, slots=True)
class _Piece:
    """Whole batches of one partition out of one response."""

    tp: TopicPartition
    buffer: memoryview
    batches: Batches
    first: int
    until: int
    aborted: Sequence[tuple[int, int]]


def _sound(piece: _Piece, damaged: list[str]) -> Batches:
    """The piece's batches that are as they were written; `damaged` gets the names of the others."""
    sound = []
    for batch in piece.batches:
        crc = crc32c(piece.buffer[batch[kernels.AT] + _CRC_FROM : batch[kernels.END]])
        if crc == batch[kernels.CRC]:
            sound.append(batch)
        else:
            damaged.append(f"{piece.tp} offsets {batch[kernels.BASE_OFFSET]} to {batch[kernels.LAST_OFFSET]}")
    return sound


class _Reading:
    """The ranges of one task."""

    def __init__(self, cluster: Cluster, ranges: Sequence[Range], fail_on_data_loss: bool) -> None:
        self._cluster = cluster
        self._broker = cluster.broker
        self._parts = [_Part(part.tp, part.start, part.until, part.topic_id) for part in ranges]
        self._fail_on_data_loss = fail_on_data_loss
        self._record_bytes: dict[str, float] = {}
        self._progress_at = time.monotonic()

    def pieces(self) -> Iterator[_Piece]:
        pause = self._broker.retry_interval_ms / 1000
        while parts := [part for part in self._parts if part.left > 0]:
            progress_at = self._progress_at
            try:
                leader = self._cluster.leader(parts[0].tp)
                yield from self._pieces_from(leader, [part for part in parts if self._led_by(leader, part)])
            except BatchError:
                raise
            except KafkaError as error:
                self._check_patience(error)
                self._cluster.reset()
                if self._progress_at > progress_at:
                    pause = self._broker.retry_interval_ms / 1000
                time.sleep(pause)
                pause = min(1.0, 2 * pause)

    def _led_by(self, leader: Connection, part: _Part) -> bool:
        try:
            return self._cluster.leader(part.tp) is leader
        except KafkaError:
            return False  # its own turn will tell

    def _pieces_from(self, leader: Connection, parts: list[_Part]) -> Iterator[_Piece]:
        """Fetch parts from their common leader, one request ahead; ends when all are done."""
        clean = False
        try:
            if error := self._ask(leader, parts):
                raise error
            while parts:
                answer = leader.receive(FetchResponse)
                pieces, error = self._accept(answer, parts)
                parts = [part for part in parts if part.left > 0]
                if parts and error is None:
                    error = self._ask(leader, parts)
                # The parts have moved on behind these pieces: an error must not swallow them.
                yield from pieces
                if error is not None:
                    raise error
            clean = True
        finally:
            if not clean:  # an error, or Spark wants no more: an answer may be under way
                self._cluster.drop(leader)

    def _ask(self, leader: Connection, parts: Sequence[_Part]) -> KafkaError | None:
        try:
            leader.send(self._request(parts))
        except KafkaError as error:
            return error
        return None

    def _request(self, parts: Sequence[_Part]) -> FetchRequest:
        topics: dict[str, list[FetchPartition]] = {}
        ids = {part.tp.topic: part.topic_id for part in parts}
        for part in parts:
            entry = FetchPartition(
                partition=part.tp.partition, fetch_offset=part.next, partition_max_bytes=self._worth(part)
            )
            topics.setdefault(part.tp.topic, []).append(entry)
        return FetchRequest(
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=self._broker.fetch_bytes,
            isolation_level=int(self._broker.read_committed),
            topics=[
                FetchTopic(topic=topic, topic_id=_uuid(ids[topic]), partitions=entries)
                for topic, entries in topics.items()
            ],
        )

    def _worth(self, part: _Part) -> int:
        """Bytes to ask for: what is left by what records of that topic took so far, and a little more."""
        size = self._record_bytes.get(part.tp.topic)
        estimate = _FIRST_FETCH if size is None else int(part.left * size * 1.1) + 16_384
        return min(estimate, self._broker.partition_fetch_bytes)

    def _accept(self, answer: FetchResponse, asked: Sequence[_Part]) -> tuple[list[_Piece], KafkaError | None]:
        """Move the parts on behind what came; with it the first error that a partition had."""
        if answer.error_code:
            return [], KafkaError(error_code(answer.error_code))
        parts = {part.tp: part for part in asked}
        names = {_uuid(part.topic_id): part.tp.topic for part in asked}
        pieces: list[_Piece] = []
        failed: KafkaError | None = None
        for topic in answer.responses:
            for data in topic.partitions:
                part = parts[TopicPartition(topic.topic or names[topic.topic_id], data.partition_index)]
                code = error_code(data.error_code)
                if code is ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._skip_lost(part)
                elif code in _OTHER_TOPIC and self._is_another_topic(part):
                    self._give_up(part, "the topic was deleted and made anew")
                elif code is not ErrorCode.NONE:
                    failed = failed or KafkaError(code, f"{part.tp}: {code.sentence}")
                elif data.records and (piece := self._accept_partition(data, part)):
                    pieces.append(piece)
        if not pieces and failed is None:
            self._check_patience(None)
        return pieces, failed

    def _accept_partition(self, data: PartitionData, part: _Part) -> _Piece | None:
        assert isinstance(data.records, bytes | bytearray | memoryview)
        buffer = memoryview(data.records)
        batches = index_batches(buffer, part.tp)
        if not batches:
            return None
        last = batches[-1]
        if last[kernels.LAST_OFFSET] < part.next:
            return None
        records = last[kernels.LAST_OFFSET] - batches[0][kernels.BASE_OFFSET] + 1
        self._record_bytes[part.tp.topic] = last[kernels.END] / records
        aborted = [(entry.producer_id, entry.first_offset) for entry in data.aborted_transactions or ()]
        piece = _Piece(part.tp, buffer, batches, part.next, part.until, aborted)
        part.next = last[kernels.LAST_OFFSET] + 1
        self._progress_at = time.monotonic()
        return piece

    def _skip_lost(self, part: _Part) -> None:
        """The offset is not in the log: retention took it, or the log was cut off."""
        start = self._cluster.resolve(EARLIEST, [part.tp])[part.tp]
        if start > part.next:
            self._give_up(part, f"the partition begins at {start} now (retention)", min(start, part.until))
        else:
            self._give_up(part, "the partition was cut off, or its topic was made anew")

    def _is_another_topic(self, part: _Part) -> bool:
        """A broker may also not know yet the id of a topic that is new."""
        found = self._cluster.current_topic_id(part.tp.topic)
        return found is not None and found != part.topic_id

    def _give_up(self, part: _Part, why: str, until: int | None = None) -> None:
        """Leave out what is lost, up to `until` or all of it. Raises KohortError where it must not be lost."""
        until = part.until if until is None else until
        lost = f"{part.tp}: offsets {part.next} to {until} are no longer there: {why}"
        if self._fail_on_data_loss:
            raise KohortError(f"{lost}. failOnDataLoss=false skips what is lost.")
        _log.warning("%s; they are skipped, as failOnDataLoss=false says", lost)
        part.next = until

    def _check_patience(self, error: KafkaError | None) -> None:
        waited = time.monotonic() - self._progress_at
        if error is not None and not error.retriable:
            raise error
        if waited * 1000 > self._broker.poll_timeout_ms:
            parts = ", ".join(f"{part.tp} from {part.next}" for part in self._parts if part.left > 0)
            why = f" ({error})" if error else ""
            raise KohortError(f"No records for {waited:.0f} s: {parts}{why}; see kafkaConsumer.pollTimeoutMs.")
