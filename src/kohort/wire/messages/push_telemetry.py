"""PushTelemetry: the metrics of one client instance, as OTLP MetricsData (KIP-714)."""

from kohort.model import NO_UUID
from kohort.wire.codec import Bool, Bytes, Int8, Int16, Int32, Message, Uuid, message


@message(key=72, versions=(0, 0), flexible=0)
class PushTelemetryRequest(Message):
    """Push the metrics that the subscription asked for."""

    client_instance_id: Uuid = NO_UUID
    subscription_id: Int32 = 0
    terminating: Bool = False  # whether this is the last push of the client
    compression_type: Int8 = 0
    metrics: Bytes = b""


@message(key=72, versions=(0, 0), flexible=0)
class PushTelemetryResponse(Message):
    """Whether the metrics were accepted."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
