"""Metrics that clients push to a broker (KIP-714): read from OTLP, and as records of a topic. Pure."""

from kohort.telemetry.client_telemetry import TELEMETRY_TOPIC, ClientTelemetry, MalformedTelemetry, claimed
from kohort.telemetry.otlp import Kind, MalformedMetrics, Metrics, Point, TooManyMetrics, read_metrics

__all__ = [
    "TELEMETRY_TOPIC",
    "ClientTelemetry",
    "Kind",
    "MalformedMetrics",
    "MalformedTelemetry",
    "Metrics",
    "Point",
    "TooManyMetrics",
    "claimed",
    "read_metrics",
]
