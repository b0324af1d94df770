"""OpenTelemetry's API, as far as this package uses it."""

try:
    from opentelemetry import context, propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.propagators.textmap import Getter, Setter
    from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, Tracer, TracerProvider
except ModuleNotFoundError as problem:
    raise ModuleNotFoundError(
        "kohort.opentelemetry needs OpenTelemetry: pip install 'kohort[opentelemetry]'.", name=problem.name
    ) from None

__all__ = [
    "Context",
    "Getter",
    "Link",
    "Setter",
    "Span",
    "SpanContext",
    "SpanKind",
    "Status",
    "StatusCode",
    "Tracer",
    "TracerProvider",
    "context",
    "propagate",
    "trace",
]
