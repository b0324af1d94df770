"""Options for writing with `format("kohort")`: those of spark-sql-kafka and of Kafka's producer, under their names."""

from collections.abc import Mapping
from dataclasses import dataclass

from kohort.errors import ConfigError
from kohort.model import Millis
from kohort.wire.batches import Codec
from pyspark_kohort.option_parsing import GivenOptions, OptionNames
from pyspark_kohort.options import Broker


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """All options, checked for consistency."""

    broker: Broker
    topic: str | None
    acks: int
    codec: Codec
    idempotent: bool
    request_bytes: int
    memory: int
    delivery_timeout_ms: Millis
    checkpoint: str | None
    transactional_id: str | None
    """Name of the sink, with which the transactional IDs of its tasks begin; None if it writes without transactions."""
    transaction_timeout_ms: Millis


_NAMES = (
    "topic includeHeaders checkpointLocation kafka.bootstrap.servers kafka.client.id kafka.request.timeout.ms"
    " kafka.acks kafka.compression.type kafka.enable.idempotence kafka.max.request.size"
    " kafka.buffer.memory kafka.delivery.timeout.ms kafka.transactional.id kafka.transaction.timeout.ms"
)
_WITHOUT_EFFECT = (
    " queryName path kafka.batch.size kafka.linger.ms kafka.retries kafka.max.in.flight.requests.per.connection"
    " kafka.max.block.ms kafka.metadata.max.age.ms kafka.metadata.max.idle.ms kafka.partitioner.ignore.keys"
    " kafka.partitioner.adaptive.partitioning.enable kafka.partitioner.availability.timeout.ms"
    " kafka.client.dns.lookup kafka.connections.max.idle.ms kafka.receive.buffer.bytes kafka.send.buffer.bytes"
    " kafka.reconnect.backoff.ms kafka.reconnect.backoff.max.ms kafka.retry.backoff.ms kafka.retry.backoff.max.ms"
    " kafka.metric.reporters kafka.metrics.num.samples kafka.metrics.recording.level kafka.metrics.sample.window.ms"
    " kafka.socket.connection.setup.timeout.ms kafka.socket.connection.setup.timeout.max.ms kafka.enable.metrics.push"
    " kafka.compression.gzip.level kafka.compression.lz4.level kafka.compression.zstd.level"
)
"""Options of parts that this sink does not have: it fills batches from whole columns, and does not linger."""
_REFUSED = {
    "kafka.key.serializer": "keys are binary or text; cast them in the query",
    "kafka.value.serializer": "values are binary or text; cast them in the query",
    "kafka.partitioner.class": "give a partition column instead",
    "kafka.interceptor.classes": "there is no Java producer to intercept",
}
_OPTIONS = OptionNames((_NAMES + _WITHOUT_EFFECT).split(), _REFUSED)
_ACKS = {"all": -1, "-1": -1, "1": 1}
_SMALLEST_REQUEST = 16 << 10
LONGEST_TRANSACTION_MS = 900_000
"""Default of the brokers' transaction.max.timeout.ms.

The sink uses all of it, as a transaction that expires before the driver has committed it is lost.
"""


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Parse the options for writing.

    Raises ConfigError with one sentence if an option is unknown, missing, malformed or contradicts
    another.
    """
    given = GivenOptions(options, _OPTIONS)
    default = Broker(())
    acks = (given.text("kafka.acks") or "all").lower()
    if acks not in _ACKS:
        raise ConfigError(
            f"kafka.acks must be all or 1, not {acks!r}: without acknowledgements lost records cannot be detected."
        )
    idempotent = given.flag("kafka.enable.idempotence", _ACKS[acks] == -1)
    if idempotent and _ACKS[acks] != -1:
        raise ConfigError("kafka.enable.idempotence needs kafka.acks=all.")
    transactional_id = given.text("kafka.transactional.id")
    if transactional_id is not None and not transactional_id.strip():
        raise ConfigError("kafka.transactional.id is empty: leave it out for a sink without transactions.")
    if transactional_id is not None and not idempotent:
        raise ConfigError("kafka.transactional.id needs kafka.acks=all and kafka.enable.idempotence.")
    if transactional_id is None and given.text("kafka.transaction.timeout.ms"):
        raise ConfigError("kafka.transaction.timeout.ms needs kafka.transactional.id, the name of the sink.")
    codec = (given.text("kafka.compression.type") or "none").upper()
    if codec not in Codec.__members__:
        known = ", ".join(name.lower() for name in Codec.__members__)
        raise ConfigError(f"kafka.compression.type must be one of {known}, not {codec.lower()!r}.")
    return SinkOptions(
        broker=Broker(
            bootstrap=given.bootstrap(),
            security=given.security(),
            client_id=given.text("kafka.client.id") or default.client_id,
            request_timeout_ms=given.number("kafka.request.timeout.ms", default.request_timeout_ms),
        ),
        topic=given.text("topic"),
        acks=_ACKS[acks],
        codec=Codec[codec],
        idempotent=idempotent,
        request_bytes=max(given.number("kafka.max.request.size", 1 << 20), _SMALLEST_REQUEST),
        memory=given.number("kafka.buffer.memory", 32 << 20),
        delivery_timeout_ms=given.number("kafka.delivery.timeout.ms", 120_000),
        checkpoint=given.text("checkpointLocation"),
        transactional_id=transactional_id,
        transaction_timeout_ms=given.number("kafka.transaction.timeout.ms", LONGEST_TRANSACTION_MS),
    )
