"""Figures of each API: requests, errors, sizes, and the time until the answer is ready."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

from kohort.broker.net import Call, ClientConnection, Route
from kohort.errors import ErrorCode
from kohort.exposition import Exposition, Histogram, labels
from kohort.wire.codec import Message
from kohort.wire.messages.api_key import ApiKey

SECONDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets for the time until an answer. Heartbeats and fetches may be held for long."""

_TOPIC_PARTITIONS = ("topics", "partitions")
_PARTS: Mapping[int, Sequence[str]] = {
    ApiKey.PRODUCE: ("responses", "partition_responses"),
    ApiKey.FETCH: ("responses", "partitions"),
    ApiKey.LIST_OFFSETS: _TOPIC_PARTITIONS,
    ApiKey.METADATA: ("topics",),
    ApiKey.OFFSET_COMMIT: _TOPIC_PARTITIONS,
    ApiKey.OFFSET_FETCH: ("groups", "topics", "partitions"),
    ApiKey.FIND_COORDINATOR: ("coordinators",),
    ApiKey.LEAVE_GROUP: ("members",),
    ApiKey.DESCRIBE_GROUPS: ("groups",),
    ApiKey.CREATE_TOPICS: ("topics",),
    ApiKey.DELETE_TOPICS: ("responses",),
    ApiKey.DELETE_GROUPS: ("results",),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ("groups",),
}
"""Names of the nested parts of a response that may have an error code."""


class ApiFigures:
    """Figures of one API since the start."""

    __slots__ = ("abandoned", "errors", "name", "parts", "received_bytes", "seconds")

    def __init__(self, api_key: int) -> None:
        self.name = "".join(word.capitalize() for word in ApiKey(api_key).name.split("_"))
        self.parts = _PARTS.get(api_key, ())
        self.abandoned = 0
        """Requests whose connection closed before the answer."""
        self.received_bytes = 0
        self.errors: dict[int, int] = {}
        """Number of answers by their first error code."""
        self.seconds = Histogram(SECONDS)
        """Time of each request until its answer; requests that need none count, too."""


def first_error(response: Any, parts: Sequence[str]) -> int:
    """Return the first error code in the response or its nested parts; 0 if there is none."""
    code: int = getattr(response, "error_code", 0)
    if code or not parts:
        return code
    rest = parts[1:]
    for part in getattr(response, parts[0]) or ():
        if code := first_error(part, rest):
            return code
    # OffsetFetch has no groups before version 8.
    return first_error(response, rest) if rest and hasattr(response, rest[0]) else 0


class MeasuredCall(Call):
    """A request whose answer is measured. Its maker sets `figures` and `started`."""

    __slots__ = ("figures", "started")

    figures: ApiFigures
    started: float

    def reply(self, response: Message) -> None:
        """Send `response` as `Call.reply` does, and count it. This runs for every heartbeat."""
        if self.answer is not None:
            return
        Call.reply(self, response)  # it may still change the response
        seconds = perf_counter() - self.started
        figures = self.figures
        histogram = figures.seconds
        histogram.counts[bisect_left(SECONDS, seconds)] += 1
        histogram.sum += seconds
        figures.received_bytes += self.size
        code = getattr(response, "error_code", 0)
        if code or (figures.parts and (code := first_error(response, figures.parts))):
            figures.errors[code] = figures.errors.get(code, 0) + 1

    def complete_without_answer(self) -> None:
        """Complete the request without an answer, and count it."""
        if self.answer is None:
            self.figures.seconds.observe(perf_counter() - self.started)
            self.figures.received_bytes += self.size
        super().complete_without_answer()

    def abandon(self) -> None:
        """Drop later replies, because the connection is closed."""
        if self.answer is None:
            self.figures.abandoned += 1
        super().abandon()


class RequestFigures:
    """Figures of all APIs that were used."""

    def __init__(self) -> None:
        self._of: _ByApi = _ByApi()

    @property
    def new_call(self) -> Callable[[ClientConnection, int, Route, Message, int], Call]:
        """Function that makes the calls of a dispatcher."""
        of = self._of

        def new_call(
            connection: ClientConnection, correlation_id: int, route: Route, request: Message, size: int
        ) -> Call:
            call = MeasuredCall(connection, correlation_id, route, request, size)
            call.figures = of[route.api_key]
            call.started = perf_counter()
            return call

        return new_call

    def add(self, text: Exposition) -> None:
        """Add the figures to a scrape."""
        requests = text.counter("kafka_network_requestmetrics_requests", "Requests that were answered, by API.")
        errors = text.counter("kafka_network_requestmetrics_errors", "Answers by API and first error.")
        received = text.counter("kohort_broker_request_bytes", "Bytes of requests by API.")
        abandoned = text.counter("kohort_broker_requests_abandoned", "Requests whose client closed the connection.")
        seconds = text.histogram(
            "kohort_broker_request_seconds", "Time from a request's last byte until its answer is ready."
        )
        for _, figures in sorted(self._of.items()):
            api = labels(request=figures.name)
            requests.add(api, sum(figures.seconds.counts))
            received.add(api, figures.received_bytes)
            abandoned.add(api, figures.abandoned)
            seconds.add_histogram(api, figures.seconds)
            for code, count in sorted(figures.errors.items()):
                errors.add(f"{api},{labels(error=_name_of(code))}", count)


class _ByApi(dict[int, ApiFigures]):
    def __missing__(self, api_key: int) -> ApiFigures:
        return self.setdefault(api_key, ApiFigures(api_key))


def _name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
