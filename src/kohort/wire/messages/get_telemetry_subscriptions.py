"""GetTelemetrySubscriptions: the metrics that the broker wants from a client (KIP-714)."""

from kohort.model import NO_UUID
from kohort.wire.codec import Bool, Int8, Int16, Int32, Message, String, Uuid, array, message


@message(key=71, versions=(0, 0), flexible=0)
class GetTelemetrySubscriptionsRequest(Message):
    """Ask for the subscriptions of one client instance; the zero ID asks for a new one."""

    client_instance_id: Uuid = NO_UUID


@message(key=71, versions=(0, 0), flexible=0)
class GetTelemetrySubscriptionsResponse(Message):
    """Metrics to push, and how."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = NO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: list[Int8] = array()  # in the order of the broker's preference
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: Bool = False  # whether counters are pushed as differences from the previous push
    requested_metrics: list[String] = array()  # prefixes of names; "*" means all, an empty list none
