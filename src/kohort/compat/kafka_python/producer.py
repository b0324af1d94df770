"""`KafkaProducer` of kafka-python over `kohort.blocking.Producer`."""

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self

from kohort import client
from kohort.client import blocking
from kohort.compat.kafka_python import options
from kohort.compat.kafka_python.errors import NAMES
from kohort.compat.kafka_python.futures import run
from kohort.compat.kafka_python.metrics import metrics_of
from kohort.compat.kafka_python.structs import (
    ConsumerGroupMetadata,
    RecordMetadata,
    TopicPartition,
    header_size,
    positions,
)

_log = logging.getLogger(__name__)


class FutureRecordMetadata:
    """Result of one `send`. Callbacks run in the producer's thread, or at once if the result is known.

    A failure that the application does not see is logged, unlike in kafka-python.
    """

    __slots__ = ("_delivery", "_sizes", "_timestamp")

    def __init__(self, delivery: blocking.BlockingDelivery, timestamp: int, sizes: tuple[int, int, int]) -> None:
        self._delivery = delivery
        self._timestamp = timestamp
        self._sizes = sizes

    @property
    def is_done(self) -> bool:
        """Whether the record is written or has failed."""
        return self._delivery.done()

    @property
    def value(self) -> RecordMetadata | None:
        """Metadata of the record if it is written."""
        return self._metadata(self._delivery.result()) if self.succeeded() else None

    @property
    def exception(self) -> client.KohortError | None:
        """Error that prevented the write."""
        if self.failed():
            try:
                self._delivery.result()
            except client.KohortError as error:
                return NAMES.named(error)
        return None

    def succeeded(self) -> bool:
        """Return whether the record is written."""
        return self._delivery.done() and not self._delivery.failed()

    def failed(self) -> bool:
        """Return whether the record has failed."""
        return self._delivery.failed()

    def retriable(self) -> bool:
        """Return whether the record has failed, and sending it again may succeed."""
        return self.failed() and bool(getattr(self.exception, "retriable", False))

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for up to `timeout` seconds. Return the metadata or raise the error."""
        with NAMES.naming():
            return self._metadata(self._delivery.result(timeout))

    def add_callback(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """Call `f(*args, metadata, **kwargs)` when the record is written."""
        call = partial(f, *args, **kwargs)
        self._delivery.add_done_callback(lambda _: None if self.failed() else run(call, self.value))
        return self

    def add_errback(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """Call `f(*args, error, **kwargs)` when the record has failed."""
        call = partial(f, *args, **kwargs)
        self._delivery.add_done_callback(lambda _: run(call, self.exception) if self.failed() else None)
        return self

    def add_both(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """Call `f` when the record is written or has failed."""
        return self.add_callback(f, *args, **kwargs).add_errback(f, *args, **kwargs)

    def _metadata(self, written: client.RecordMetadata) -> RecordMetadata:
        timestamp = self._timestamp if written.timestamp is None else written.timestamp
        place = TopicPartition(written.topic, written.partition)
        return RecordMetadata(*place, place, written.offset, timestamp, None, *self._sizes)


class KafkaProducer:
    """Producer with the interface of kafka-python. Any number of threads may share it.

    It connects when it is first used. Timeouts of methods are in seconds, as in kafka-python.
    """

    DEFAULT_CONFIG = options.PRODUCER.defaults

    def __init__(self, **configs: Any) -> None:
        self.config = {**self.DEFAULT_CONFIG, **configs}
        self._serializers = [configs.get("key_serializer"), configs.get("value_serializer")]
        self._counts: dict[str, int] = {}
        """Known numbers of partitions of topics."""
        with NAMES.naming():
            self._producer = blocking.Producer(**options.read_producer(configs))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: list[tuple[str, bytes]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        """Queue a record. The future has its metadata when it is written, or the error that prevented that."""
        if value is None and key is None:
            raise client.ConfigError("Need at least one: key or value")
        listed = [] if headers is None else headers
        if not isinstance(listed, list):
            raise TypeError("headers must be list-type")
        if not all(
            isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], bytes)
            for item in listed
        ):
            raise TypeError("All headers items must be (str, bytes) tuples")
        key_bytes, value_bytes = (
            _serialized(serializer, topic, listed, data)
            for serializer, data in zip(self._serializers, (key, value), strict=True)
        )
        if partition is not None:
            self._check_partition(topic, partition)
        timestamp = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        sizes = (
            -1 if key_bytes is None else len(key_bytes),
            -1 if value_bytes is None else len(value_bytes),
            header_size(listed),
        )
        with NAMES.naming():
            delivery = self._producer.send(
                topic, value_bytes, key=key_bytes, headers=listed, partition=partition, timestamp=timestamp
            )
        return FutureRecordMetadata(delivery, timestamp, sizes)

    def _check_partition(self, topic: str, partition: int) -> None:
        """Raise ConfigError for a partition that the topic does not have."""
        if not 0 <= partition < self._counts.get(topic, 0):
            self._counts[topic] = len(self.partitions_for(topic))
            if not 0 <= partition < self._counts[topic]:
                raise client.ConfigError(f"Unrecognized partition {partition} for topic {topic}")

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every record sent so far is written or has failed; the futures have the errors."""
        with NAMES.naming():
            try:
                self._producer.flush(timeout=timeout)
            except client.DeliveryFailedError as error:
                _log.error("%s", error)

    # -- transactions

    def init_transactions(self) -> None:
        """Get the next epoch of the transactional_id, which fences older producers of it. It may be repeated."""
        with NAMES.naming():
            if self._producer.transaction_state is client.TransactionState.UNINITIALIZED:
                self._producer.init_transactions()

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        with NAMES.naming():
            self._producer.begin_transaction()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[client.TopicPartition, Any],
        group_metadata: ConsumerGroupMetadata | str,
    ) -> None:
        """Commit offsets of a group with the transaction.

        `group_metadata` is the result of `KafkaConsumer.group_metadata`, or the name of a group.
        """
        group: client.ConsumerGroupMetadata | str
        if isinstance(group_metadata, str):
            group = group_metadata
        else:
            if group_metadata.group_id is None:
                raise client.ConfigError("the consumer has no group_id.")
            group = client.ConsumerGroupMetadata(group_metadata.group_id, *group_metadata[1:4])
        with NAMES.naming():
            self._producer.send_offsets_to_transaction(positions(offsets), group)

    def commit_transaction(self) -> None:
        """Write all records and commit."""
        with NAMES.naming():
            self._producer.commit_transaction()

    def abort_transaction(self) -> None:
        """Discard the records that were not sent, and abort."""
        with NAMES.naming():
            self._producer.abort_transaction()

    def partitions_for(self, topic: str) -> set[int]:
        """Return the numbers of the topic's partitions."""
        with NAMES.naming():
            return set(range(self._producer.partitions_for(topic)))

    def metrics(self, raw: bool = False) -> dict[Any, Any] | None:
        """Return the values of the metrics by group and name, or metrics by MetricName if `raw`; None if disabled."""
        if not self.config["metrics_enabled"]:
            return None
        with NAMES.naming():
            return metrics_of(self._producer.metrics(), raw)

    def close(self, timeout: float | None = None) -> None:
        """Flush for up to `timeout` seconds and disconnect."""
        with NAMES.naming():
            self._producer.close(timeout=timeout)
        for serializer in self._serializers:
            if (close := getattr(serializer, "close", None)) is not None:
                close()


def _serialized(serializer: Any, topic: str, headers: list[tuple[str, bytes]], data: Any) -> Any:
    if serializer is None:
        return data
    serialize = getattr(serializer, "serialize", None)
    return serializer(data) if serialize is None else serialize(topic, headers, data)
