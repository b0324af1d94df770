"""Export of rebalances as traces. It needs `kohort[opentelemetry]`."""

from kohort.watch.otlp.export import TraceExport

__all__ = ["TraceExport"]
