"""Application-defined deserialization of keys and values, one record at a time."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from kohort.client.consume.consumer_record import ConsumerRecord
from kohort.errors import ConfigError, KohortError
from kohort.loading import LoadRequired, Part, bound, sentence
from kohort.model import TopicPartition
from kohort.wire.batches import Header


@runtime_checkable
class Deserializer(Protocol):
    """Deserializer that needs the record's topic or headers, as in Java and kafka-python.

    If it also has a method `for_part`, the consumer calls it with "key" or "value", and uses the
    deserializer that it returns.
    """

    def deserialize(self, topic: str, headers: Sequence[Header], data: bytes, /) -> Any:
        """Return the key or value that `data` represents."""


AnyDeserializer = Deserializer | Callable[[bytes], Any]
PutBack = Callable[[list[ConsumerRecord]], None]
"""Function that makes records the next ones to be returned."""


class RecordDeserializationError(KohortError):
    """Record whose key or value the application's deserializer rejected.

    The consumer's position stays at the record, so the next poll raises the error again. To skip
    the record, call `consumer.seek(error.partition, error.offset + 1)`. `record` has the key, value
    and headers as bytes, for example for a dead-letter topic. `part` is "key" or "value", and
    `__cause__` is the deserializer's exception. If that is retriable, such as a schema registry that
    does not answer, so is this error.
    """

    def __init__(self, record: ConsumerRecord, part: str, cause: Exception) -> None:
        self.partition = TopicPartition(record.topic, record.partition)
        self.offset = record.offset
        self.record = record
        self.part = part
        self._retriable = isinstance(cause, KohortError) and cause.retriable
        advice = "Poll again to repeat it, or seek" if self._retriable else "Seek"
        super().__init__(
            f"{self.partition} at offset {self.offset}: {part}_deserializer raised {sentence(cause)}."
            f" {advice} to offset {self.offset + 1} to skip the record."
        )

    @property
    def retriable(self) -> bool:
        return self._retriable


class RecordNeedsLoad(LoadRequired):
    """Load that the next record needs. After `load`, the consumer polls again."""

    def __init__(self, record: ConsumerRecord, part: Part, needed: LoadRequired) -> None:
        super().__init__(self._load)
        self._record = record
        self._part = part
        self._needed = needed

    def _load(self) -> None:
        """Load. Raises RecordDeserializationError."""
        try:
            self._needed.load()
        except Exception as problem:
            raise RecordDeserializationError(self._record, self._part, problem) from problem


class DeserializedRecord(ConsumerRecord):
    """Record with deserialized key or value, and with the sizes of their bytes."""

    _sizes: tuple[int, int]

    @property
    def serialized_key_size(self) -> int:
        return self._sizes[0]

    @property
    def serialized_value_size(self) -> int:
        return self._sizes[1]


class Deserialization:
    """Key and value deserializers of one consumer. Any thread may use it.

    If `null_too` is set, the deserializers are also called for null, as those of other libraries are.
    """

    def __init__(self, key: AnyDeserializer | None, value: AnyDeserializer | None) -> None:
        self.null_too = False
        self._key = _function("key", key)
        self._value = _function("value", value)
        self.configured = self._key is not None or self._value is not None

    def of(self, record: ConsumerRecord, put_back: PutBack) -> ConsumerRecord:
        """Return the record with deserialized key and value.

        Raises RecordDeserializationError or RecordNeedsLoad, after it has put the record back.
        """
        return self.of_all([record], put_back)[0]

    def of_all(self, records: list[ConsumerRecord], put_back: PutBack) -> list[ConsumerRecord]:
        """Return the records up to the first that cannot be deserialized, and put back the others.

        If none precedes it, raises RecordDeserializationError, or RecordNeedsLoad if the record can
        be deserialized after a load.
        """
        if not self.configured:
            return records
        ready: list[ConsumerRecord] = []
        try:
            ready.extend(map(self._deserialized, records))
        except BaseException as problem:
            if ready and isinstance(problem, RecordDeserializationError | RecordNeedsLoad):
                put_back(records[len(ready) :])
            else:
                put_back(records)
                raise
        return ready

    def _deserialized(self, record: ConsumerRecord) -> ConsumerRecord:
        topic, headers, key, value = record.topic, record.headers, record.key, record.value
        sizes = record.serialized_key_size, record.serialized_value_size
        if self._key is not None and (key is not None or self.null_too):
            try:
                key = self._key(topic, headers, key)
            except LoadRequired as needed:
                raise RecordNeedsLoad(record, "key", needed) from None
            except Exception as problem:
                raise RecordDeserializationError(record, "key", problem) from problem
        if self._value is not None and (value is not None or self.null_too):
            try:
                value = self._value(topic, headers, value)
            except LoadRequired as needed:
                raise RecordNeedsLoad(record, "value", needed) from None
            except Exception as problem:
                raise RecordDeserializationError(record, "value", problem) from problem
        made = DeserializedRecord(*record[:4], key, value, *record[6:])
        made._sizes = sizes
        return made


_Function = Callable[[str, Sequence[Header], Any], Any]


def _function(part: Part, given: AnyDeserializer | None) -> _Function | None:
    if given is None:
        return None
    given = bound(given, part)
    if isinstance(given, Deserializer):
        return given.deserialize
    if callable(given):
        return lambda topic, headers, data: given(data)
    raise ConfigError(
        f"{part}_deserializer is {given!r}, but must be a function of bytes or an object with a method deserialize."
    )
