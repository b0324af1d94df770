"""Records out: gathered per partition, sent to the leaders, sent again until written or too late."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Self

from kohort.client import unclosed
from kohort.client.arguments import seconds
from kohort.client.batches import Delivery
from kohort.client.cluster import Cluster
from kohort.client.failures import BufferFullError
from kohort.client.loops import warn_unclosed
from kohort.client.options import ProducerOptions, read_options
from kohort.client.outgoing import check_timestamp, record_size
from kohort.client.producer_core import ProducerCore
from kohort.errors import ConfigError
from kohort.model import Millis
from kohort.wire.records import Header

_RECORDS_PER_TURN = 1000  # after so many the loop gets a turn, so that sending goes along with gathering


def producer_options(given: dict[str, Any]) -> ProducerOptions:
    """A producer's options. Raises ConfigError."""
    options = read_options(ProducerOptions, given)
    if "enable_idempotence" in given and options.enable_idempotence and not options.acks_all:
        raise ConfigError("enable_idempotence needs acks=all; set it to false for other acks.")
    return options


class Producer:
    """Use it as an async context manager, or close it, so that you hear of records that cannot be written.

    async with Producer(bootstrap_servers="127.0.0.1:9092") as producer:
        delivery = await producer.send("orders", b"...", key=b"42")  # queued
        print((await delivery).offset)  # written

    All methods belong to the event loop it was made in, any task of which may use it. Another thread, another loop or
    a process that was forked from this one needs a producer of its own (`kohort.blocking.Producer` serves all threads
    of a process). A producer that nobody closes warns (ResourceWarning) when it is garbage, and its records are still
    sent: for up to ten seconds when its loop or the interpreter ends, after which standard error says how many were
    not written. A process that ends by a signal or `os._exit` loses them.
    """

    def __init__(self, **options: Any) -> None:
        read = producer_options(options)
        self._core = core = ProducerCore(read)
        self.cluster: Cluster = core.cluster
        """What it knows of the brokers, to look at."""
        self._append = core.append
        self._turn_left = _RECORDS_PER_TURN

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        await self.close(timeout=None if kind is None else 0.0)

    def __del__(self) -> None:
        core: ProducerCore | None = getattr(self, "_core", None)
        if core is not None and not core.closed:
            warn_unclosed(self)
            unclosed.abandoned(core)

    # -- sending

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: Millis | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> Delivery:
        """Queue a record; await what it returns to know that it was written.

        Waits while the topic is not known yet and while the buffer is full, up to max_block_ms. Raises
        InvalidRecordError for what is not bytes, and KafkaError for a record that is too large or names a partition
        that the topic does not have.
        """
        self._turn_left -= 1
        if self._turn_left < 0:
            self._turn_left = _RECORDS_PER_TURN
            await asyncio.sleep(0)
        size = record_size(key, value, headers)
        if timestamp is not None:
            timestamp = check_timestamp(timestamp)
        while True:
            try:
                return self._append(topic, value, key, timestamp, headers, partition, size)
            except BufferFullError:
                await self.ready(topic)

    def send_nowait(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: Millis | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> Delivery:
        """As `send`, without a coroutine. Raises BufferFullError where `send` would wait: then `await ready(topic)`."""
        size = record_size(key, value, headers)
        if timestamp is not None:
            timestamp = check_timestamp(timestamp)
        return self._append(topic, value, key, timestamp, headers, partition, size)

    async def ready(self, topic: str) -> None:
        """Wait until the topic's partitions are known and the buffer has room. Raises KafkaError after max_block_ms."""
        await self._core.ready(topic)

    async def partitions_for(self, topic: str) -> int:
        """How many partitions the topic has."""
        return await self._core.partitions_for(topic)

    async def send_all(
        self, topic: str, records: Iterable[tuple[bytes | None, bytes | None, Millis | None]]
    ) -> list[Delivery]:
        """Queue many records of (key, value, timestamp), giving way to the loop now and then."""
        return [await self.send(topic, value, key=key, timestamp=timestamp) for key, value, timestamp in records]

    # -- until it is written

    async def flush(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Wait until everything queued so far is written or has failed.

        Raises DeliveryFailedError if records failed since the last flush and nobody looked at their deliveries (those
        that were awaited, or whose `result` was asked for, are not counted again); KafkaError (REQUEST_TIMED_OUT) if
        some are not decided after `timeout` seconds. These stay queued.
        """
        await self._core.flush(None if timeout is None else seconds("timeout", timeout))

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Flush for as long as `timeout` seconds (None: as delivery_timeout_ms allows), fail the rest, disconnect.

        Raises nothing for records that failed: those whose deliveries nobody looked at are logged as errors, with their
        number and the reason. Closing twice is fine.
        """
        await self._core.close(None if timeout is None else seconds("timeout", timeout))
