"""Interceptor that makes a span for each record that a producer sends, and puts its context into the headers."""

from kohort.client import ProducerInterceptor, ProducerOptions, ProducerRecord, RecordMetadata
from kohort.opentelemetry.api import Link, Span, SpanKind, Tracer, context, trace
from kohort.opentelemetry.conventions import (
    OFFSET,
    PARTITION,
    client_attributes,
    fail,
    message_attributes,
    operation,
)
from kohort.opentelemetry.propagation import creation_of, extracted, injected
from kohort.opentelemetry.switch import Switch


class _Traced(ProducerRecord):
    """Record with its span. The record that `on_acknowledgement` gets is the one that `on_send` returned."""

    span: Span


class ProducerTracing(ProducerInterceptor):
    """Makes the spans of one producer. It must be its last interceptor. Any thread may use it."""

    def __init__(self, tracer: Tracer, options: ProducerOptions, switch: Switch) -> None:
        self.switch = switch
        self._tracer = tracer
        self._attributes = client_attributes(options.client_id, options.bootstrap_servers)

    def on_send(self, record: ProducerRecord) -> ProducerRecord | None:
        """Start a span, which ends when the record is acknowledged. Its parent is the current span."""
        if not self.switch.on:
            return None
        name, attributes = operation("send", "send", {record.topic})
        attributes |= self._attributes | message_attributes(record.key, record.value)
        if record.partition is not None:
            attributes[PARTITION] = str(record.partition)
        # A record that is passed on has the context of its first producer.
        earlier = creation_of(extracted(record.headers)) if record.headers else None
        links = [] if earlier is None else [Link(earlier)]
        span = self._tracer.start_span(name, kind=SpanKind.PRODUCER, attributes=attributes, links=links)
        headers = injected(record.headers, trace.set_span_in_context(span, context.get_current()))
        traced = _Traced(*record._replace(headers=headers))
        traced.span = span
        return traced

    def on_acknowledgement(
        self, record: ProducerRecord, metadata: RecordMetadata | None, error: Exception | None
    ) -> None:
        """End the record's span."""
        if not isinstance(record, _Traced):
            return
        if metadata is not None:
            record.span.set_attribute(PARTITION, str(metadata.partition))
            if metadata.offset is not None and metadata.offset >= 0:  # unknown with acks=0
                record.span.set_attribute(OFFSET, metadata.offset)
        if error is not None:
            fail(record.span, error)
        record.span.end()
