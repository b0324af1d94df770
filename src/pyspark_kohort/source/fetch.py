"""Executor's side of the source: fetch ranges from the leaders of partitions and yield Arrow batches.

The request for the next records is sent before a response is decoded.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from crc32c import crc32c

from kohort.columns import AT, BASE_OFFSET, CRC, END, LAST_OFFSET, Batches, Decoder, index_batches
from kohort.errors import ErrorCode, KafkaError, KohortError, error_code
from kohort.model import NO_TOPIC_ID, UUID, TopicPartition
from kohort.requests import FetchRequestPartition, error_of, fetch_topics
from kohort.wire.batches import BatchError
from kohort.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from pyspark_kohort.net import BlockingCluster, BlockingConnection, cluster_of_worker
from pyspark_kohort.offsets import EARLIEST, topic_id_of_text
from pyspark_kohort.options import Broker
from pyspark_kohort.source.plan import Range

_log = logging.getLogger(__name__)

_CRC_FROM = 21
"""First byte that a batch's checksum covers: all but base offset, length, leader epoch and magic."""
_MAX_WAIT_MS = 500
_FIRST_FETCH = 1 << 20
"""Size of the first fetch of a topic, in bytes, while the size of its records is unknown.

A range of few small records should not fetch megabytes beyond it.
"""


_OTHER_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID})


def _uuid(topic_id: str | None) -> UUID:
    return topic_id_of_text(topic_id) or NO_TOPIC_ID


def read_ranges(
    ranges: Sequence[Range], schema: pa.Schema, broker: Broker, *, fail_on_data_loss: bool, skip_corrupt: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield all records of the ranges as batches of that schema.

    Raises KohortError if records of the ranges no longer exist, unless `fail_on_data_loss` is off.
    Raises BatchError if a record batch is damaged; with `skip_corrupt`, batches with a wrong
    checksum are skipped, and their number is logged.
    """
    decoder = Decoder(schema, read_committed=broker.read_committed)
    damaged: list[str] = []
    for piece in _Reading(cluster_of_worker(broker), ranges, fail_on_data_loss).pieces():
        batches = _valid_batches(piece, damaged) if skip_corrupt else piece.batches
        yield from decoder.feed(
            piece.buffer, batches, piece.tp, first=piece.first, until=piece.until, aborted=piece.aborted
        )
    yield from decoder.finish()
    if damaged:
        _log.warning("skipped %d record batches whose checksum is wrong: %s", len(damaged), ", ".join(damaged[:20]))


@dataclass(slots=True)
class _Part:
    """Range and its fetch progress."""

    tp: TopicPartition
    next: int
    until: int
    topic_id: str | None

    @property
    def left(self) -> int:
        return self.until - self.next


@dataclass(frozen=True, slots=True)
class _Piece:
    """Whole record batches of one partition from one response."""

    tp: TopicPartition
    buffer: memoryview
    batches: Batches
    first: int
    until: int
    aborted: Sequence[tuple[int, int]]


def _valid_batches(piece: _Piece, damaged: list[str]) -> Batches:
    """Return the batches with a correct checksum; append the names of the others to `damaged`."""
    valid = []
    for batch in piece.batches:
        crc = crc32c(piece.buffer[batch[AT] + _CRC_FROM : batch[END]])
        if crc == batch[CRC]:
            valid.append(batch)
        else:
            damaged.append(f"{piece.tp} offsets {batch[BASE_OFFSET]} to {batch[LAST_OFFSET]}")
    return valid


class _Reading:
    """Fetcher for the ranges of one task."""

    def __init__(self, cluster: BlockingCluster, ranges: Sequence[Range], fail_on_data_loss: bool) -> None:
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

    def _led_by(self, leader: BlockingConnection, part: _Part) -> bool:
        try:
            return self._cluster.leader(part.tp) is leader
        except KafkaError:
            return False  # a later fetch of this part reports the error

    def _pieces_from(self, leader: BlockingConnection, parts: list[_Part]) -> Iterator[_Piece]:
        """Fetch parts from their common leader, one request ahead, until all are done."""
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
                # The parts are already past these pieces, so yield the pieces before the error is raised.
                yield from pieces
                if error is not None:
                    raise error
            clean = True
        finally:
            if not clean:  # after an error, or if Spark needs no more rows, a response may be pending
                self._cluster.drop(leader)

    def _ask(self, leader: BlockingConnection, parts: Sequence[_Part]) -> KafkaError | None:
        try:
            leader.send(self._request(parts))
        except KafkaError as error:
            return error
        return None

    def _request(self, parts: Sequence[_Part]) -> FetchRequest:
        wanted = {part.tp: FetchRequestPartition(_uuid(part.topic_id), part.next, self._worth(part)) for part in parts}
        return FetchRequest(
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=self._broker.fetch_bytes,
            isolation_level=int(self._broker.read_committed),
            topics=fetch_topics(wanted),
        )

    def _worth(self, part: _Part) -> int:
        """Return the number of bytes to request for a part.

        This is the number of remaining records times their average size in that topic, and a
        margin.
        """
        size = self._record_bytes.get(part.tp.topic)
        estimate = _FIRST_FETCH if size is None else int(part.left * size * 1.1) + 16_384
        return min(estimate, self._broker.partition_fetch_bytes)

    def _accept(self, answer: FetchResponse, asked: Sequence[_Part]) -> tuple[list[_Piece], KafkaError | None]:
        """Advance the parts past the received records; return the pieces and the first partition error, if any."""
        if error := error_of(answer.error_code):
            return [], error
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
                    self._give_up(part, "the topic was deleted and created again")
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
        if last[LAST_OFFSET] < part.next:
            return None
        records = last[LAST_OFFSET] - batches[0][BASE_OFFSET] + 1
        self._record_bytes[part.tp.topic] = last[END] / records
        aborted = [(entry.producer_id, entry.first_offset) for entry in data.aborted_transactions or ()]
        piece = _Piece(part.tp, buffer, batches, part.next, part.until, aborted)
        part.next = last[LAST_OFFSET] + 1
        self._progress_at = time.monotonic()
        return piece

    def _skip_lost(self, part: _Part) -> None:
        """Handle an offset that is not in the log: retention deleted it, or the log was truncated."""
        start = self._cluster.resolve(EARLIEST, [part.tp])[part.tp]
        if start > part.next:
            self._give_up(part, f"the partition begins at {start} now (retention)", min(start, part.until))
        else:
            self._give_up(part, "the partition was truncated, or its topic was created again")

    def _is_another_topic(self, part: _Part) -> bool:
        """Return whether the topic was recreated. A broker may also not know the id of a new topic yet."""
        found = self._cluster.current_topic_id(part.tp.topic)
        return found is not None and found != part.topic_id

    def _give_up(self, part: _Part, why: str, until: int | None = None) -> None:
        """Skip lost records, up to `until` or to the end of the part. Raises KohortError if failOnDataLoss is on."""
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
