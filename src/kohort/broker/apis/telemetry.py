"""GetTelemetrySubscriptions and PushTelemetry: clients ask which metrics to push, and push them (KIP-714)."""

from typing import Protocol

from kohort.broker.net import Call
from kohort.broker.telemetry import ACCEPTED_CODECS, TelemetryReceiver
from kohort.errors import ErrorCode
from kohort.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kohort.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    client_telemetry: TelemetryReceiver


def ask(broker: Dependencies, call: Call, request: GetTelemetrySubscriptionsRequest) -> None:
    """Tell a client instance which metrics to push.

    Counters are asked for as sums since the client's start, so that a push that is lost loses nothing.
    """
    receiver = broker.client_telemetry
    instance_id, found = receiver.ask(call.connection, request.client_instance_id)
    if isinstance(found, ErrorCode):
        call.reply(GetTelemetrySubscriptionsResponse(error_code=found))
        return
    call.reply(
        GetTelemetrySubscriptionsResponse(
            client_instance_id=instance_id,
            subscription_id=found.subscription_id,
            accepted_compression_types=[int(codec) for codec in ACCEPTED_CODECS],
            push_interval_ms=found.interval_ms,
            telemetry_max_bytes=receiver.max_bytes,
            delta_temporality=False,
            requested_metrics=list(found.metrics),
        )
    )


def push(broker: Dependencies, call: Call, request: PushTelemetryRequest) -> None:
    """Take the metrics of a client instance."""
    call.reply(PushTelemetryResponse(error_code=broker.client_telemetry.push(call.connection, request)))
