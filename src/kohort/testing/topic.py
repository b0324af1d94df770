"""A topic of a kit's brokers, as a test uses it: write records, and see what is in the log, without a client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.log import PartitionLog
from kohort.log import Topic as StoredTopic
from kohort.model import UUID, Millis, TopicPartition
from kohort.testing.sequence import SequenceNumbers
from kohort.testing.taps import TappedBroker
from kohort.testing.waiting import PATIENCE_S, Kit, blocking_hint, reached, until
from kohort.wire.batches import Header, Record, decode_records, encode_batch, read_header

if TYPE_CHECKING:
    from kohort.client import ConsumerRecord

_READ_BYTES = 1 << 20


class Topic(str):
    """The name of a topic, with methods for tests: pass it wherever a client takes a name."""

    _kit: Kit
    _next: int
    """Records without a key that were produced, for the partition of the next one."""

    def __new__(cls, name: str, kit: Kit) -> Topic:
        topic = super().__new__(cls, name)
        topic._kit = kit
        topic._next = 0
        return topic

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)  # in another process it is a name

    @property
    def topic_id(self) -> UUID:
        """The ID of the topic."""
        return self._kit._run(lambda: self._found().topic_id)

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return self._kit._run(lambda: self._found().partitions)

    def produce(
        self,
        *values: bytes | str | None,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Sequence[Header] = (),
        timestamp: Millis | None = None,
        numbers: SequenceNumbers | None = None,
    ) -> list[TopicPartition]:
        """Append one record for each value, and return the partition of each; on return clients can read them.

        Text is encoded as UTF-8; None is a tombstone. Without `partition`, a key decides as in Java's producer, and
        records without a key go to the partitions in turn. `timestamp` is in milliseconds since 1970. With `numbers`,
        each record has a marker in its headers for a `SequenceAudit`.
        """
        encoded = [(_bytes(key), _bytes(value)) for value in values]
        return self._kit._await(self._produce(encoded, partition, headers, timestamp, numbers))

    async def _produce(
        self,
        pairs: Sequence[tuple[bytes | None, bytes | None]],
        partition: int | None,
        headers: Sequence[Header],
        timestamp: Millis | None,
        numbers: SequenceNumbers | None,
    ) -> list[TopicPartition]:
        count = self._found().partitions
        if partition is not None:
            self._check(partition)
        chosen = [self._choose(key, count) if partition is None else partition for key, _ in pairs]
        for number, group in groupby(sorted(range(len(pairs)), key=chosen.__getitem__), key=chosen.__getitem__):
            node, log = self._log(number)
            now = node.wall() if timestamp is None else timestamp
            batch = [
                Record(index, now, *pairs[which], _marked(headers, numbers, str(self), number))
                for index, which in enumerate(group)
            ]
            written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            log.append(encode_batch(batch), log.leader_epoch)
            node.writer.current().then(partial(written.set_result, None), partial(_fail, written, str(self)))
            await written
        return [TopicPartition(str(self), number) for number in chosen]

    def _choose(self, key: bytes | None, count: int) -> int:
        if key is not None:
            from kohort.client.produce import murmur2  # here, because a test may use another client

            return murmur2(key) % count
        self._next += 1
        return (self._next - 1) % count

    def records(self, partition: int | None = None) -> list[ConsumerRecord]:
        """Return the records that clients can read now, of all partitions or of one, each partition in its order."""
        return self._kit._run(lambda: self._records(partition))

    def wait_records(
        self, count: int, *, partition: int | None = None, timeout_s: float = PATIENCE_S
    ) -> list[ConsumerRecord]:
        """Wait until the topic has at least that many records, and return all. Raise WaitTimeoutError."""
        return self._kit._await(self._reach(count, partition, timeout_s, blocking_hint()))

    async def wait_records_async(
        self, count: int, *, partition: int | None = None, timeout_s: float = PATIENCE_S
    ) -> list[ConsumerRecord]:
        """As `wait_records`, for a test whose clients run on its own event loop."""
        return await self._kit._awaited(self._reach(count, partition, timeout_s, ""))

    async def _reach(self, count: int, partition: int | None, timeout_s: float, hint: str) -> list[ConsumerRecord]:
        def look() -> list[ConsumerRecord] | None:
            found = self._records(partition)
            return found if len(found) >= count else None

        def told() -> str:
            found = len(self._records(partition))
            return f"Topic {self} has {found} records after {timeout_s:g} s, not {count}.{hint}"

        return await reached(until(self._kit.nodes, look, timeout_s), told)

    def end_offsets(self) -> Mapping[TopicPartition, int]:
        """Return the high watermark of each partition."""
        return self._kit._run(
            lambda: {
                TopicPartition(str(self), number): self._log(number)[1].stable_offset
                for number in range(self._found().partitions)
            }
        )

    # On the event loop of the brokers

    def _found(self) -> StoredTopic:
        topic = self._kit.nodes[0].topics.named(str(self))
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {self}.")
        return topic

    def _check(self, partition: int) -> None:
        count = self._found().partitions
        if not 0 <= partition < count:
            raise KohortError(f"Topic {self} has no partition {partition}; it has {count}, numbered from 0.")

    def _log(self, partition: int) -> tuple[TappedBroker, PartitionLog]:
        for node in self._kit.nodes:
            found = node.topics.named(str(self))
            log = None if found is None else node.topics.log(found, partition)
            if log is not None:
                return node, log
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"No broker leads {self}-{partition}.")

    def _records(self, partition: int | None) -> list[ConsumerRecord]:
        if partition is not None:
            self._check(partition)
        numbers = range(self._found().partitions) if partition is None else (partition,)
        return [record for number in numbers for record in _all_of(str(self), number, self._log(number)[1])]


def _all_of(topic: str, partition: int, log: PartitionLog) -> Iterator[ConsumerRecord]:
    from kohort.client import ConsumerRecord, TimestampType

    offset = log.start_offset
    while offset < log.stable_offset:
        for batch in log.read(offset, _READ_BYTES):
            position = 0
            while position < len(batch):
                header = read_header(batch, position)
                if not header.is_control:
                    kind = TimestampType.LOG_APPEND_TIME if header.is_log_append_time else TimestampType.CREATE_TIME
                    for record in decode_records(batch, position):
                        if record.offset >= offset:
                            yield ConsumerRecord(topic, partition, *record, kind, header.leader_epoch)
                position += header.size
                offset = max(offset, header.next_offset)


def _bytes(value: bytes | str | None) -> bytes | None:
    if not isinstance(value, bytes | str | None):
        raise KohortError(f"A key or a value is bytes, text or None, not {value!r}: serialize it first.")
    return value.encode() if isinstance(value, str) else value


def _fail(written: asyncio.Future[None], topic: str) -> None:
    written.set_exception(KohortError(f"The records of {topic} could not be written: see the log of the broker."))


def _marked(headers: Sequence[Header], numbers: SequenceNumbers | None, topic: str, partition: int) -> Sequence[Header]:
    """Return the headers with the marker of the next record of that partition."""
    return headers if numbers is None else [*headers, numbers.next(topic, partition)]
