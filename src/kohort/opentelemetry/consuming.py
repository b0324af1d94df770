"""Interceptor that makes spans of polls, of processing and of commits.

An application that receives one record at a time processes it until it asks for the next one, so the
record's span is current meanwhile. One that receives several has a span of the poll, and calls
`processing` itself.
"""

import time
from collections.abc import Mapping

from kohort.client import (
    ConsumerInterceptor,
    ConsumerOptions,
    ConsumerRecord,
    OffsetAndMetadata,
    TopicPartition,
)
from kohort.opentelemetry.api import Context, Span, SpanKind, Tracer, context
from kohort.opentelemetry.conventions import (
    MESSAGE_COUNT,
    OFFSET,
    PARTITION,
    client_attributes,
    fail,
    operation,
)
from kohort.opentelemetry.processing import links_to, start_processing
from kohort.opentelemetry.switch import Switch


class ConsumerTracing(ConsumerInterceptor):
    """Makes the spans of one consumer."""

    def __init__(self, tracer: Tracer, options: ConsumerOptions, switch: Switch) -> None:
        self.switch = switch
        self._tracer = tracer
        self._attributes = client_attributes(options.client_id, options.bootstrap_servers, options.group_id)
        self._asked_at = time.time_ns()
        self._one = False
        self._span: Span | None = None
        """Span of the record that the application processes."""
        self._inside: Context | None = None
        self._outside: Context | None = None

    def on_poll(self, most: int) -> None:
        """End the processing of the last record."""
        self._finish()
        self._asked_at, self._one = time.time_ns(), most == 1

    def on_consume(self, records: list[ConsumerRecord]) -> None:
        """Start the processing of one record, or report the poll of several."""
        if not self.switch.on:
            return
        self._finish()
        if self._one and len(records) == 1:
            self._outside = context.get_current()
            self._span, self._inside = start_processing(self._tracer, records, self._attributes)
            context.attach(self._inside)
        else:
            self._polled(records)

    def on_commit_done(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None, seconds: float
    ) -> None:
        """Make the span of a commit."""
        if not self.switch.on or not offsets:
            return
        name, attributes = operation("commit", "settle", {partition.topic for partition in offsets})
        if len(offsets) == 1:
            ((partition, position),) = offsets.items()
            attributes |= {PARTITION: str(partition.partition), OFFSET: position.offset}
        now = time.time_ns()
        span = self._tracer.start_span(
            name, kind=SpanKind.CLIENT, attributes=attributes | self._attributes, start_time=now - int(seconds * 1e9)
        )
        if error is not None:
            fail(span, error)
        span.end(now)

    def close(self) -> None:
        """End the processing of the last record."""
        self._finish()

    def _polled(self, records: list[ConsumerRecord]) -> None:
        name, attributes = operation("poll", "receive", {record.topic for record in records})
        partitions = {(record.topic, record.partition) for record in records}
        if len(partitions) == 1:
            attributes[PARTITION] = str(records[0].partition)
        attributes[MESSAGE_COUNT] = len(records)
        self._tracer.start_span(
            name,
            kind=SpanKind.CLIENT,
            attributes=attributes | self._attributes,
            links=links_to(records),
            start_time=self._asked_at,
        ).end()

    def _finish(self) -> None:
        span, self._span = self._span, None
        if span is None:
            return
        span.end()
        # In another task or thread than the one that received the record, it is not current.
        if context.get_current() is self._inside and self._outside is not None:
            context.attach(self._outside)
        self._inside = self._outside = None
