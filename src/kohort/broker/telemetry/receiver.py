"""Receives the metrics that clients push, and appends them to the telemetry topic.

Readers of the topic, such as `kohort watch`, need no other access. A push is answered when it has been read, not when
it is durable: the next one follows soon.
"""

import asyncio
import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kohort.broker.config import BrokerConfig, Subscriptions
from kohort.broker.logs import Leadership, Topics, Writer, partition_to_append
from kohort.broker.net import ClientConnection
from kohort.broker.telemetry.instances import ClientInstances, Selection
from kohort.errors import ErrorCode, KafkaError
from kohort.model import NO_UUID, UUID, Millis
from kohort.telemetry import (
    TELEMETRY_TOPIC,
    ClientTelemetry,
    MalformedMetrics,
    TooManyMetrics,
    claimed,
    read_metrics,
)
from kohort.wire.batches import BatchError, Codec, InflatesTooLarge, Record, decompress, encode_batch
from kohort.wire.messages.push_telemetry import PushTelemetryRequest


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    config: BrokerConfig
    fresh_id: Callable[[], UUID]
    leadership: Leadership
    node_id: int
    subscriptions: Subscriptions
    topics: Topics
    writer: Writer

    def now(self) -> Millis: ...

    def wall(self) -> Millis: ...


log = logging.getLogger("kohort.broker")

_WRITE_AFTER_S = 0.5
"""Delay within which pushes share a batch."""
_MOST_UNWRITTEN = 1_000
_MOST_UNWRITTEN_BYTES = 8 << 20


class TelemetryReceiver:
    """The receiver of one broker."""

    def __init__(self, broker: Dependencies) -> None:
        self._broker = broker
        self._instances = ClientInstances(broker.subscriptions)
        self._unwritten: list[tuple[bytes, bytes]] = []
        """Keys and values of records that the next batch contains."""
        self._unwritten_bytes = 0
        self._left_out = 0
        """Number of pushes since the last batch that exceeded the limits of a batch."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def max_bytes(self) -> int:
        """Maximum size of a push."""
        return self._broker.config.number("telemetry.max.bytes")

    def ask(self, connection: ClientConnection, instance_id: UUID) -> tuple[UUID, Selection | ErrorCode]:
        """Return the ID of the client instance, a new one for the zero ID, and what it pushes or an error."""
        named = self._broker.fresh_id() if instance_id == NO_UUID else instance_id
        return named, self._instances.ask(named, _facts(connection, named), connection, self._broker.now())

    def push(self, connection: ClientConnection, request: PushTelemetryRequest) -> ErrorCode:
        """Take the metrics of one push, or return why not."""
        instance_id = request.client_instance_id
        outcome = self._instances.push(
            instance_id,
            _facts(connection, instance_id),
            connection,
            self._broker.now(),
            subscription_id=request.subscription_id,
            codec=request.compression_type,
            terminating=request.terminating,
            too_large=len(request.metrics) > self.max_bytes,
        )
        if isinstance(outcome, ErrorCode):
            return outcome
        if not request.metrics:
            return ErrorCode.NONE
        try:
            data = decompress(Codec(request.compression_type), bytes(request.metrics), self.max_bytes)
            metrics = claimed(read_metrics(data))
        except (BatchError, MalformedMetrics, TooManyMetrics) as error:
            too_large = isinstance(error, InflatesTooLarge | TooManyMetrics)
            code = ErrorCode.TELEMETRY_TOO_LARGE if too_large else ErrorCode.INVALID_RECORD
            self._instances.refused(instance_id, code)
            log.info("metrics of a client are refused peer=%s code=%s reason=%s", connection.peer, code.name, error)
            return code
        software, version = connection.software
        self._take(
            ClientTelemetry(
                client_instance_id=kafka_text(instance_id),
                client_id=connection.client_id,
                client_host=connection.host,
                software=software,
                version=version,
                at=self._broker.wall(),
                interval_ms=outcome.interval_ms,
                terminating=request.terminating,
                **metrics,
            )
        )
        return ErrorCode.NONE

    def lost(self, connection: ClientConnection) -> None:
        """Forget the client instance of a closed connection."""
        self._instances.lost(connection)

    def close(self) -> None:
        """Write what was received."""
        if self._timer is not None:
            self._timer.cancel()
        self._write()

    def _take(self, telemetry: ClientTelemetry) -> None:
        value = telemetry.to_json()
        if len(self._unwritten) >= _MOST_UNWRITTEN or self._unwritten_bytes + len(value) > _MOST_UNWRITTEN_BYTES:
            self._left_out += 1
            return
        self._unwritten.append((telemetry.client_instance_id.encode(), value))
        self._unwritten_bytes += len(value)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_WRITE_AFTER_S, self._write)

    def _write(self) -> None:
        """Append what was received. If that is impossible, it is lost: the clients push again soon."""
        self._timer = None
        unwritten, self._unwritten, self._unwritten_bytes = self._unwritten, [], 0
        left_out, self._left_out = self._left_out, 0
        if not unwritten:
            return
        reason = f"more than {_MOST_UNWRITTEN} pushes or {_MOST_UNWRITTEN_BYTES} bytes within {_WRITE_AFTER_S} s"
        try:
            partition = partition_to_append(self._broker, TELEMETRY_TOPIC)
            if partition is None:
                left_out, reason = left_out + len(unwritten), "no partition to write"
            else:
                partition.append(_encoded(unwritten, self._broker.wall()), partition.leader_epoch)
                self._broker.writer.current()
        except (OSError, KafkaError) as error:
            left_out, reason = left_out + len(unwritten), str(error)
        if left_out:
            log.warning("%d pushes of clients' metrics are lost: %s", left_out, reason)


def _facts(connection: ClientConnection, instance_id: UUID) -> Mapping[str, str]:
    """Return the facts that subscriptions match."""
    address, _, port = connection.peer.rpartition(":")
    software, version = connection.software
    return {
        "client_instance_id": kafka_text(instance_id),
        "client_id": connection.client_id,
        "client_software_name": software,
        "client_software_version": version,
        "client_source_address": address,
        "client_source_port": port,
    }


def kafka_text(instance_id: UUID) -> str:
    """Return the ID as Kafka prints it, in base64."""
    return urlsafe_b64encode(instance_id.bytes).decode().rstrip("=")


def _encoded(unwritten: Sequence[tuple[bytes, bytes]], now: Millis) -> bytearray:
    """Encode one batch. It is compressed: the names of metrics repeat."""
    records = [Record(number, now, key, value, ()) for number, (key, value) in enumerate(unwritten)]
    return encode_batch(records, Codec.ZSTD)
