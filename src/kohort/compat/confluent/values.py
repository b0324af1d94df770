"""Messages and partitions, with methods and attributes as in confluent-kafka."""

from collections.abc import Mapping, Sequence
from typing import Any

from kohort.client import ConsumerRecord, OffsetAndMetadata
from kohort.compat.confluent.errors import KafkaError
from kohort.model import TopicPartition as Partition

OFFSET_END = -1
OFFSET_BEGINNING = -2
OFFSET_STORED = -1000
OFFSET_INVALID = -1001

TIMESTAMP_NOT_AVAILABLE = 0
TIMESTAMP_CREATE_TIME = 1
TIMESTAMP_LOG_APPEND_TIME = 2

Headers = Mapping[str, str | bytes | None] | Sequence[tuple[str, str | bytes | None]]


class TopicPartition:
    """Partition of a topic with an offset. Topic and number decide equality."""

    __slots__ = ("error", "leader_epoch", "metadata", "offset", "partition", "topic")

    def __init__(
        self,
        topic: str,
        partition: int = -1,
        offset: int = OFFSET_INVALID,
        metadata: str | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.metadata = metadata
        self.leader_epoch = leader_epoch
        self.error: KafkaError | None = None

    def __repr__(self) -> str:
        return (
            f"TopicPartition{{topic={self.topic},partition={self.partition},offset={self.offset},"
            f"leader_epoch={self.leader_epoch},error={self.error}}}"
        )

    def __hash__(self) -> int:
        return hash((self.topic, self.partition))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopicPartition):
            return NotImplemented
        return (self.topic, self.partition) == (other.topic, other.partition)

    def __lt__(self, other: "TopicPartition") -> bool:
        return (self.topic, self.partition) < (other.topic, other.partition)

    def __le__(self, other: "TopicPartition") -> bool:
        return (self.topic, self.partition) <= (other.topic, other.partition)

    def __gt__(self, other: "TopicPartition") -> bool:
        return (self.topic, self.partition) > (other.topic, other.partition)

    def __ge__(self, other: "TopicPartition") -> bool:
        return (self.topic, self.partition) >= (other.topic, other.partition)


def partition_of(given: TopicPartition) -> Partition:
    """Return a partition without its offset, as Kohort has it."""
    if not isinstance(given, TopicPartition):
        raise TypeError("expected TopicPartition")
    return Partition(given.topic, given.partition)


def partitions_of(given: Sequence[TopicPartition]) -> list[Partition]:
    """Return partitions without their offsets."""
    if not isinstance(given, list | tuple):
        raise TypeError("requires list of TopicPartition")
    return [partition_of(each) for each in given]


def positions_of_partitions(given: Sequence[TopicPartition]) -> dict[Partition, OffsetAndMetadata]:
    """Return the offsets of partitions, without those that have none."""
    if not isinstance(given, list | tuple):
        raise TypeError("requires list of TopicPartition")
    return {
        partition_of(each): OffsetAndMetadata(each.offset, each.metadata or "", each.leader_epoch)
        for each in given
        if each.offset >= 0
    }


def with_position(partition: Partition, at: OffsetAndMetadata | None) -> TopicPartition:
    """Return a partition with its position, or with OFFSET_INVALID if it has none."""
    if at is None:
        return TopicPartition(*partition)
    return TopicPartition(*partition, at.offset, at.metadata or None, at.leader_epoch)


class Message:
    """Message, or an error or event if `error` returns one."""

    __slots__ = (
        "_error",
        "_headers",
        "_key",
        "_latency",
        "_leader_epoch",
        "_offset",
        "_origin",
        "_partition",
        "_timestamp",
        "_topic",
        "_value",
    )

    def __init__(
        self,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        key: Any = None,
        value: Any = None,
        headers: Any = None,
        error: KafkaError | None = None,
        timestamp: tuple[int, int] | None = None,
        latency: float | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        self._topic, self._partition, self._offset = topic, partition, offset
        self._key, self._value, self._headers = key, value, headers
        self._error = error
        self._timestamp = (TIMESTAMP_NOT_AVAILABLE, 0) if timestamp is None else timestamp
        self._latency = latency
        self._leader_epoch = leader_epoch

    def topic(self) -> str | None:
        """Return the topic."""
        return self._topic

    def partition(self) -> int | None:
        """Return the partition's number."""
        return self._partition

    def offset(self) -> int | None:
        """Return the offset."""
        return self._offset

    def key(self) -> Any:
        """Return the key."""
        return self._key

    def value(self) -> Any:
        """Return the value."""
        return self._value

    def headers(self) -> Any:
        """Return the headers as pairs, or None if there are none."""
        return self._headers

    def error(self) -> KafkaError | None:
        """Return the error or event, or None for a proper message."""
        return self._error

    def timestamp(self) -> tuple[int, int]:
        """Return the type of the timestamp and its time in milliseconds since 1970."""
        return self._timestamp

    def latency(self) -> float | None:
        """Return the seconds from `produce` to the acknowledgement; None for a consumed message."""
        return self._latency

    def leader_epoch(self) -> int | None:
        """Return the epoch of the leader that appended the record; None if unknown."""
        return self._leader_epoch

    def set_topic(self, topic: str) -> None:
        """Replace the topic."""
        self._topic = topic

    def set_key(self, key: Any) -> None:
        """Replace the key."""
        self._key = key

    def set_value(self, value: Any) -> None:
        """Replace the value."""
        self._value = value

    def set_headers(self, headers: Any) -> None:
        """Replace the headers."""
        self._headers = headers

    def set_error(self, error: KafkaError | None) -> None:
        """Replace the error."""
        self._error = error

    def __len__(self) -> int:
        return 0 if self._value is None else len(self._value)


class LazyMessage(Message):
    """Message that finds its fields in `_origin`. It becomes a plain Message once it is changed."""

    __slots__ = ()

    def _make_plain(self) -> None:
        fields = self.topic(), self.partition(), self.offset(), self.key(), self.value(), self.headers()
        timestamp, latency, epoch = self.timestamp(), self.latency(), self.leader_epoch()
        self.__class__ = Message  # type: ignore[assignment]
        Message.__init__(self, *fields, None, timestamp, latency, epoch)

    def set_topic(self, topic: str) -> None:
        self._make_plain()
        self.set_topic(topic)

    def set_key(self, key: Any) -> None:
        self._make_plain()
        self.set_key(key)

    def set_value(self, value: Any) -> None:
        self._make_plain()
        self.set_value(value)

    def set_headers(self, headers: Any) -> None:
        self._make_plain()
        self.set_headers(headers)

    def set_error(self, error: KafkaError | None) -> None:
        self._make_plain()
        self.set_error(error)

    def __len__(self) -> int:
        value = self.value()
        return 0 if value is None else len(value)


class ConsumedMessage(LazyMessage):
    """Message that refers to the record that was consumed."""

    __slots__ = ()

    def __init__(self, record: ConsumerRecord) -> None:
        self._origin = record

    @property
    def record(self) -> ConsumerRecord:
        """Record that was consumed."""
        return self._origin

    def topic(self) -> str | None:
        return self._origin.topic

    def partition(self) -> int | None:
        return self._origin.partition

    def offset(self) -> int | None:
        return self._origin.offset

    def key(self) -> Any:
        return self._origin.key

    def value(self) -> Any:
        return self._origin.value

    def headers(self) -> Any:
        return list(self._origin.headers) or None

    def error(self) -> KafkaError | None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return self._origin.timestamp_type + 1, self._origin.timestamp

    def latency(self) -> float | None:
        return None

    def leader_epoch(self) -> int | None:
        return self._origin.leader_epoch
