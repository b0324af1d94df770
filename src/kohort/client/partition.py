"""One partition as a consumer sees it: where it stands, and what was fetched ahead of that."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from kohort.client.reset import Reset
from kohort.model import Millis, TopicPartition
from kohort.wire.fetch import AbortedTransaction
from kohort.wire.records import BatchHeader, Buffer, Header, Record, batches, decode_records


class ConsumerRecord(NamedTuple):
    """A record and where it came from; a value of None is a tombstone."""

    topic: str
    partition: int
    offset: int
    timestamp: Millis
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]


class _Fetched:
    """What one Fetch answer brought of the partition."""

    __slots__ = ("aborted", "aborting", "data", "iterator", "size")

    def __init__(self, data: Buffer, aborted: Sequence[AbortedTransaction]) -> None:
        self.data = data
        self.size = len(data)
        self.iterator = batches(data)
        self.aborted = deque(sorted(aborted, key=lambda one: one.first_offset))
        self.aborting: set[int] = set()
        """Producers whose transactional records from here on were aborted, up to their marker."""


class PartitionState:
    """Positions only move here. `turn` changes when fetched data must not count any more (a seek, a reset)."""

    __slots__ = (
        "_check_crc",
        "_fetched",
        "_records",
        "buffered",
        "end",
        "failures",
        "fetch_at",
        "in_fetch",
        "leader_epoch",
        "partition",
        "paused",
        "position",
        "reset",
        "retry_at",
        "start",
        "turn",
    )

    def __init__(self, partition: TopicPartition, *, check_crc: bool) -> None:
        self.partition = partition
        self.position: int | None = None
        """The offset of the next record to hand out; None until it is found."""
        self.fetch_at = 0
        self.leader_epoch: int | None = None
        """Of the last record handed out."""
        self.reset: Reset | None = None
        """Where to go when there is no position: the application's wish; None: the committed offset."""
        self.paused = False
        self.start: int | None = None
        self.end: int | None = None
        """The high watermark as of the last fetch."""
        self.in_fetch = False
        self.failures = 0
        """Fetches that failed since one succeeded."""
        self.retry_at = 0.0
        self.turn = 0
        self.buffered = 0
        """Bytes fetched and not handed out."""
        self._check_crc = check_crc
        self._fetched: deque[_Fetched] = deque()
        self._records: list[Record] = []
        """Decoded and not handed out, the next one last."""

    def move(self, position: int) -> None:
        """Go on from there."""
        self._forget()
        self.position = self.fetch_at = position
        self.reset = None

    def lose(self, reset: Reset | None) -> None:
        """The position has to be found anew."""
        self._forget()
        self.position = None
        self.reset = reset

    def _forget(self) -> None:
        self.turn += 1
        self.buffered = 0
        self.leader_epoch = None
        self.retry_at = 0.0
        self._fetched.clear()
        self._records.clear()

    def add(self, data: Buffer, aborted: Sequence[AbortedTransaction]) -> None:
        """Take what a fetch from `fetch_at` on brought. Raises BatchError, a KafkaError."""
        fetched = _Fetched(data, aborted)
        last: BatchHeader | None = None
        for _, header in batches(data):
            last = header
        if last is None:
            return
        self._fetched.append(fetched)
        self.buffered += fetched.size
        self.fetch_at = max(self.fetch_at, last.next_offset)

    @property
    def has_records(self) -> bool:
        """Whether `take` may find something."""
        return bool(self._records or self._fetched)

    def take(self, most: int) -> list[ConsumerRecord]:
        """Hand out up to `most` records and move the position behind them. Raises BatchError."""
        taken: list[ConsumerRecord] = []
        while len(taken) < most and (self._records or self._decode()):
            records = self._records
            some = records[: -(most - len(taken)) - 1 : -1]
            del records[-len(some) :]
            topic, partition = self.partition
            new = tuple.__new__
            taken += [
                new(ConsumerRecord, (topic, partition, offset, timestamp, key, value, headers))
                for offset, timestamp, key, value, headers in some
            ]
            self.position = some[-1].offset + 1
        return taken

    def _decode(self) -> bool:
        """Decode the next batch that holds something; False when nothing is left."""
        assert self.position is not None
        while self._fetched:
            fetched = self._fetched[0]
            found = next(fetched.iterator, None)
            if found is None:
                self._fetched.popleft()
                self.buffered -= fetched.size
                continue
            at, header = found
            if header.next_offset <= self.position:
                continue
            if self._skips(fetched, header):
                self.position = header.next_offset
                continue
            records = decode_records(fetched.data, at, check_crc=self._check_crc)
            if records and records[0].offset < self.position:
                records = [record for record in records if record.offset >= self.position]
            self.leader_epoch = None if header.leader_epoch < 0 else header.leader_epoch
            if records:
                records.reverse()
                self._records = records
                return True
            self.position = header.next_offset  # compaction took all that was left of the batch
        return False

    @staticmethod
    def _skips(fetched: _Fetched, header: BatchHeader) -> bool:
        """Whether a batch holds nothing for an application: a marker, or (read_committed) aborted records."""
        while fetched.aborted and fetched.aborted[0].first_offset <= header.last_offset:
            fetched.aborting.add(fetched.aborted.popleft().producer_id)
        if header.is_control:
            fetched.aborting.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in fetched.aborting
