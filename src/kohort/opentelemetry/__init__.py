"""OpenTelemetry in Kohort's client: spans of send, poll, process and commit, and their context in record headers.

It follows OpenTelemetry's conventions for messaging and for Kafka (docs/traces.md). It needs
`kohort[opentelemetry]`, and `kohort` does not import it.
"""

from kohort.opentelemetry.instrumentor import KohortInstrumentor
from kohort.opentelemetry.processing import processing

__all__ = ["KohortInstrumentor", "processing"]
