"""`AIOKafkaProducer` of aiokafka over `kohort.Producer`."""

import asyncio
import logging
import time
from collections.abc import Sequence
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
        with NAMES.naming():
            self._producer = client.Producer(**options.read_producer(configs))

    async def start(self) -> None:
        """Connect. Raises KafkaConnectionError if no broker answers."""
        with NAMES.naming():
            await self._producer.cluster.refresh()

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

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the numbers of the topic's partitions."""
        with NAMES.naming():
            return set(range(await self._producer.partitions_for(topic)))


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
