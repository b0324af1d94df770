"""Thread that sends rebalances as spans, by OTLP over HTTP. A slow or dead receiver delays nothing else."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags
from requests import PreparedRequest, RequestException, Response, Session

from kohort.model import Millis
from kohort.recorder import RebalanceRecord
from kohort.watch.traces import Earlier, SpanId, SpanValue, rebalance_spans

_BATCH = 50
"""Number of rebalances in one request."""
_MOST_QUEUED = 1_000
_MOST_ATTEMPTS = 30
"""Number of attempts after which a batch is lost, so that one that is always refused does not stop the others."""
_CLOSE_S = 5.0
_LATEST: Millis = (1 << 63) // 1_000_000
"""Last time that is exported, in the year 2262: that of receivers with signed nanoseconds."""
_LOGGERS = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.common.http",
    "urllib3.connectionpool",
)

Queued = tuple[RebalanceRecord, Earlier]
"""A record, and the rebalances to which it links."""


class Sender:
    """Thread that sends queued records. If the receiver fails for long, the oldest records are lost and counted."""

    def __init__(self, cluster_id: str, endpoint: str, report: Callable[[str], None], *, again_s: float = 10.0) -> None:
        """Create the sender. After a failure, it waits for `again_s` seconds."""
        self._again_s = again_s
        self._cluster_id = cluster_id
        self._report = report
        self._session = _NotingSession()
        self._exporter = OTLPSpanExporter(endpoint=endpoint, session=self._session)
        url = urlsplit(endpoint)  # its path and user may be secrets
        self._where = f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
        own = Resource({SERVICE_NAME: "kohort-watch"})
        self._resource = Resource.create().merge(own).merge(OTELResourceDetector().detect())
        self._scope = InstrumentationScope("kohort.watch")
        self._queue: deque[Queued] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._failing: str | None = None
        self._lost = 0
        self._thread = threading.Thread(target=self._run, name="kohort-trace-export", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, queued: Queued) -> None:
        """Queue a record. It never waits."""
        with self._changed:
            if len(self._queue) >= _MOST_QUEUED:
                self._queue.popleft()
                self._lost += 1
            self._queue.append(queued)
            self._changed.notify()

    def close(self) -> None:
        """Send what is queued, in one attempt and for at most five seconds."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(_CLOSE_S)
        self._exporter.shutdown()  # type: ignore[no-untyped-call]
        lost = self._lost + len(self._queue)
        if lost:
            self._report(f"{lost} rebalances were not exported to {self._where}.")

    def _run(self) -> None:
        attempts = 0
        silence = _OfThread(threading.get_ident())
        loggers = [logging.getLogger(name) for name in _LOGGERS]
        for logger in loggers:
            logger.addFilter(silence)
        try:
            while batch := self._next(attempts):
                attempts += 1
                problem = self._send(batch)
                if problem is not None and attempts < _MOST_ATTEMPTS:
                    self._failed(problem)
                    with self._changed:
                        if self._closed:
                            return
                    continue
                with self._changed:
                    for queued in batch:
                        if self._queue and self._queue[0] is queued:  # else it was lost meanwhile
                            self._queue.popleft()
                            self._lost += problem is not None
                attempts = 0
                if problem is None:
                    self._succeeded()
        finally:
            for logger in loggers:
                logger.removeFilter(silence)

    def _next(self, attempts: int) -> list[Queued]:
        """Wait for records and return some; none if the thread should end. They stay queued until they are sent."""
        with self._changed:
            if attempts:
                self._changed.wait_for(lambda: self._closed, self._again_s)
            else:
                self._changed.wait_for(lambda: self._closed or self._queue)
            return list(self._queue)[:_BATCH]

    def _send(self, batch: Sequence[Queued]) -> str | None:
        """Send the spans, and return why it failed."""
        spans = [
            self._span(value)
            for record, earlier in batch
            for value in rebalance_spans(record, cluster_id=self._cluster_id, earlier=earlier)
        ]
        if self._exporter.export(spans) is SpanExportResult.SUCCESS:
            return None
        return self._session.problem or "the spans cannot be sent"

    def _span(self, value: SpanValue) -> ReadableSpan:
        return ReadableSpan(
            value.name,
            _context(value.id),
            None if value.parent is None else _context(value.parent),
            self._resource,
            dict(value.attributes),
            [Event(event.name, dict(event.attributes), _nanoseconds(event.at)) for event in value.events],
            [Link(_context(span), {"kohort.link": relation}) for span, relation in value.links],
            status=Status() if value.error is None else Status(StatusCode.ERROR, value.error),
            start_time=_nanoseconds(value.start),
            end_time=_nanoseconds(value.end),
            instrumentation_scope=self._scope,
        )

    def _failed(self, problem: str) -> None:
        if problem != self._failing:
            self._failing = problem
            self._report(f"Rebalances are not exported to {self._where}: {problem}.")

    def _succeeded(self) -> None:
        if self._failing is not None:
            self._failing = None
            with self._changed:
                lost, self._lost = self._lost, 0
            self._report(f"Rebalances are exported to {self._where} again; {lost} were lost.")


def _context(span: SpanId) -> SpanContext:
    return SpanContext(span[0], span[1], is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _nanoseconds(at: Millis) -> int:
    """Return a time as OTLP has it. Strangers may write any into the log, and one out of range cannot be sent."""
    return min(max(at, 0), _LATEST) * 1_000_000


class _NotingSession(Session):
    """Session that notes why the last request failed. The exporter only says that it did."""

    problem: str | None = None

    def send(self, request: PreparedRequest, **options: Any) -> Response:
        try:
            response = super().send(request, **options)
        except RequestException as problem:
            self.problem = _root(problem)
            raise
        reason = "".join(c for c in (response.reason or "")[:80] if c.isprintable())
        self.problem = None if response.ok else f"it answers {response.status_code} {reason}".rstrip()
        return response


def _root(problem: BaseException) -> str:
    """Return the operating system's words. The exception's own text has the path of the URL, a possible secret."""
    seen = 0
    inner: BaseException | None = problem
    while inner is not None and seen < 20:
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
        causes = [each for each in (getattr(inner, "reason", None), *inner.args) if isinstance(each, BaseException)]
        inner = causes[0] if causes else inner.__cause__ or inner.__context__
        seen += 1
    return type(problem).__name__


class _OfThread(logging.Filter):
    """Drops what the exporter logs for each attempt in this thread, because the sender reports changes."""

    def __init__(self, thread: int) -> None:
        super().__init__()
        self._thread = thread

    def filter(self, record: logging.LogRecord) -> bool:
        return record.thread != self._thread
