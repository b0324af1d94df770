"""The receiver of metrics that clients push (KIP-714)."""

from kohort.broker.telemetry.instances import ACCEPTED_CODECS, ClientInstances, Selection, select
from kohort.broker.telemetry.receiver import TelemetryReceiver

__all__ = ["ACCEPTED_CODECS", "ClientInstances", "Selection", "TelemetryReceiver", "select"]
