"""Spans of the processing of records."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kohort.client import ConsumerRecord
from kohort.opentelemetry.api import (
    Context,
    Link,
    Span,
    SpanKind,
    Tracer,
    TracerProvider,
    context,
    trace,
)
from kohort.opentelemetry.conventions import (
    GROUP,
    MESSAGE_COUNT,
    OFFSET,
    PARTITION,
    SYSTEM,
    TOPIC,
    Attributes,
    fail,
    message_attributes,
    operation,
    tracer_of,
)
from kohort.opentelemetry.propagation import creation_of, extracted

MOST_LINKS = 128
"""Number of links that a span keeps by default (OTEL_SPAN_LINK_COUNT_LIMIT)."""


@contextmanager
def processing(
    records: ConsumerRecord | Sequence[ConsumerRecord],
    *,
    group_id: str | None = None,
    tracer_provider: TracerProvider | None = None,
) -> Iterator[Span]:
    """Make a span of the processing of a record, or of several, and make it the current one.

    The span of one record belongs to the trace of its producer, unless another span is current. That
    of several records has links to their producers.
    """
    batch = [records] if isinstance(records, ConsumerRecord) else list(records)
    attributes: Attributes = {SYSTEM: "kafka"}
    if group_id:
        attributes[GROUP] = group_id
    if not isinstance(records, ConsumerRecord):
        attributes[MESSAGE_COUNT] = len(batch)
    span, inside = start_processing(tracer_of(tracer_provider), batch, attributes)
    token = context.attach(inside)
    try:
        yield span
    except Exception as problem:
        span.record_exception(problem)
        fail(span, problem)
        raise
    finally:
        context.detach(token)
        span.end()


def start_processing(tracer: Tracer, records: Sequence[ConsumerRecord], attributes: Attributes) -> tuple[Span, Context]:
    """Start the span of the processing of these records, and return it with the context in which it is current."""
    name, about = operation("process", "process", {record.topic for record in records})
    if len({(record.topic, record.partition) for record in records}) == 1:
        about[PARTITION] = str(records[0].partition)
    around = context.get_current()
    if len(records) == 1:
        (record,) = records
        about |= message_attributes(record.key, record.value) | {OFFSET: record.offset}
        if not trace.get_current_span(around).get_span_context().is_valid:
            around = _with_values(extracted(record.headers), around)
    span = tracer.start_span(
        name, around, kind=SpanKind.CONSUMER, attributes=about | attributes, links=links_to(records)
    )
    return span, trace.set_span_in_context(span, around)


def links_to(records: Sequence[ConsumerRecord]) -> list[Link]:
    """Return links to the spans in which the records were sent, each with the position of its record."""
    links = []
    for record in records:
        if record.headers and (sent_in := creation_of(extracted(record.headers))) is not None:
            about: Attributes = {TOPIC: record.topic, PARTITION: str(record.partition), OFFSET: record.offset}
            links.append(Link(sent_in, about))
            if len(links) == MOST_LINKS:
                break
    return links


def _with_values(extracted_context: Context, around: Context) -> Context:
    """Return the context of the record, with what only the current context has."""
    for key, value in around.items():
        if key not in extracted_context:
            extracted_context = context.set_value(key, value, extracted_context)
    return extracted_context
