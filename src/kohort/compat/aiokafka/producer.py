"""`AIOKafkaProducer` of aiokafka over `kohort.Producer`."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from kohort import client
from kohort.compat.aiokafka import options
from kohort.compat.aiokafka.errors import NAMES, ProducerClosed
from kohort.compat.aiokafka.structs import RecordMetadata, TopicPartition

_log = logging.getLogger(__name__)
_CREATE_TIME, _LOG_APPEND_TIME = 0, 1


class AIOKafkaProducer:
    """Producer with the interface of aiokafka."""

    def __init__(self, **configs: Any) -> None:
        self._key_serializer = configs.get("key_serializer")
        self._value_serializer = configs.get("value_serializer")
        self._closed = False
        self._transactional = configs.get("transactional_id") is not None
        with NAMES.naming():
            self._producer = client.Producer(**options.read_producer(configs))

    async def start(self) -> None:
        """Connect. Raises KafkaConnectionError if no broker answers.

        With a transactional_id, it fences older producers of the same ID.
        """
        with NAMES.naming():
            await self._producer.cluster.refresh()
            if self._transactional:
                await self._producer.init_transactions()

    async def stop(self) -> None:
        """Flush and disconnect."""
        self._closed = True
        with NAMES.naming():
            await self._producer.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> "asyncio.Future[RecordMetadata]":
        """Queue a record. The future has its metadata when it is written, or the error that prevented that."""
        if self._closed:
            raise ProducerClosed("the producer was stopped")
        if value is None and key is None:
            raise client.ConfigError("Need at least one: key or value")
        key_bytes = key if self._key_serializer is None else self._key_serializer(key)
        value_bytes = value if self._value_serializer is None else self._value_serializer(value)
        timestamp = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        with NAMES.naming():
            delivery = await self._producer.send(
                topic, value_bytes, key=key_bytes, partition=partition, timestamp=timestamp, headers=headers or ()
            )
        written: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()

        def end(delivery: client.Delivery) -> None:
            if written.done():
                return  # the application cancelled it
            try:
                written.set_result(_metadata(delivery.result(), timestamp))
            except client.KohortError as error:
                written.set_exception(NAMES.named(error))

        delivery.add_done_callback(end)
        return written

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> RecordMetadata:
        """Send a record and wait until it is written."""
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    async def flush(self) -> None:
        """Wait until every record sent so far is written or has failed; the futures have the errors."""
        with NAMES.naming():
            try:
                await self._producer.flush()
            except client.DeliveryFailedError as error:
                _log.error("%s", error)

    # -- transactions

    async def begin_transaction(self) -> None:
        """Begin a transaction."""
        with NAMES.naming():
            self._producer.begin_transaction()

    async def commit_transaction(self) -> None:
        """Write all records and commit."""
        with NAMES.naming():
            await self._producer.commit_transaction()

    async def abort_transaction(self) -> None:
        """Discard the records that were not sent, and abort."""
        with NAMES.naming():
            await self._producer.abort_transaction()

    def transaction(self) -> "TransactionContext":
        """Return a transaction for `async with`: it commits at the end of the block, and aborts after an exception."""
        return TransactionContext(self, lambda: self._producer.transaction_state)

    async def send_offsets_to_transaction(
        self, offsets: Mapping[client.TopicPartition, Any], group_id: str | client.ConsumerGroupMetadata
    ) -> None:
        """Commit offsets of a group, as numbers or (offset, metadata), with the transaction.

        With only the name of the group, the coordinator does not check whether the partitions still
        belong to the consumer. Unlike aiokafka, this takes the group metadata of Kohort's consumer, too.
        """
        if not group_id or not isinstance(group_id, str | client.ConsumerGroupMetadata):
            raise ValueError(group_id)
        with NAMES.naming():
            await self._producer.send_offsets_to_transaction(
                {
                    at: client.OffsetAndMetadata(*to[:2]) if isinstance(to, tuple) else int(to)
                    for at, to in offsets.items()
                },
                group_id,
            )

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the numbers of the topic's partitions."""
        with NAMES.naming():
            return set(range(await self._producer.partitions_for(topic)))


class TransactionContext:
    """Transaction that ends with its block."""

    def __init__(self, producer: AIOKafkaProducer, state: Callable[[], client.TransactionState]) -> None:
        self._producer = producer
        self._state = state

    async def __aenter__(self) -> Self:
        await self._producer.begin_transaction()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            await self._producer.commit_transaction()
        elif self._state() is not client.TransactionState.FATAL_ERROR:
            await self._producer.abort_transaction()


def _metadata(written: client.RecordMetadata, timestamp: int) -> RecordMetadata:
    place = TopicPartition(written.topic, written.partition)
    by_broker = written.timestamp is not None
    return RecordMetadata(
        *place,
        place,
        written.offset,
        written.timestamp if by_broker else timestamp,
        _LOG_APPEND_TIME if by_broker else _CREATE_TIME,
        None,
    )
