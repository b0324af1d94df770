"""Figures of each API: requests, errors, sizes, and the time until the answer is ready."""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from time import perf_counter
from typing import Any, ClassVar

from kohort.broker.net import Call, ClientConnection, RepeatedHeartbeat, Route, answer_head
from kohort.errors import ErrorCode
from kohort.exposition import Exposition, Histogram, labels
from kohort.wire.codec import Message
from kohort.wire.messages.api_key import ApiKey

NewCall = Callable[[ClientConnection, int, Route, Message, int], Call]

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
_ONLY_PARTITIONS = frozenset({ApiKey.PRODUCE, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_COMMIT})
"""APIs in whose responses only partitions have error codes."""


class ApiFigures:
    """Figures of one API since the start."""

    __slots__ = ("abandoned", "error_of", "errors", "name", "received_bytes", "seconds")

    def __init__(self, api_key: int) -> None:
        self.name = "".join(word.capitalize() for word in ApiKey(api_key).name.split("_"))
        self.error_of = _errors_of(api_key)
        """Returns the first error code of a response; None if only the response itself has one."""
        self.abandoned = 0
        """Requests whose connection closed before the answer."""
        self.received_bytes = 0
        self.errors: dict[int, int] = {}
        """Number of answers by their first error code."""
        self.seconds = Histogram(SECONDS)
        """Time of each request until its answer; requests that need none count, too."""


def _errors_of(api_key: int) -> Callable[[Any], int] | None:
    parts = _PARTS.get(api_key)
    if parts is None:
        return None
    if api_key not in _ONLY_PARTITIONS:
        return lambda response: first_error(response, parts)
    # Commits and requests of records are frequent, and have many partitions.
    topics, partitions = map(attrgetter, parts)
    code_of = attrgetter("error_code")

    def first(response: Any) -> int:
        for topic in topics(response):
            for code in filter(None, map(code_of, partitions(topic))):
                return int(code)
        return 0

    return first


def first_error(response: Any, parts: Sequence[str]) -> int:
    """Return the first error code in the response or its nested parts; 0 if there is none."""
    code: int = getattr(response, "error_code", 0)
    if code or not parts:
        return code
    rest = parts[1:]
    for part in getattr(response, parts[0]) or ():
        # Most parts are the innermost: a call for each would cost as much as the rest.
        if code := first_error(part, rest) if rest else part.error_code:
            return code
    # OffsetFetch has no groups before version 8.
    return first_error(response, rest) if rest and hasattr(response, rest[0]) else 0


class MeasuredCall(Call):
    """A request whose answer is measured. `new_call` of `RequestFigures` makes it."""

    __slots__ = ("started",)

    of: ClassVar["RequestFigures"]
    """Figures to which the calls of a subclass belong."""
    started: float

    def reply(self, response: Message) -> None:
        """Send `response` as `Call.reply` does, and count it."""
        if self.answer is not None:
            return
        last = self.connection.last_heartbeat
        if last is not None and last.repeats:
            self.of.end_turn()  # this answer may replace the one that they got
        Call.reply(self, response)  # it may still change the response
        figures = self.of[self.route.api_key]
        # As `Histogram.observe` does, without the call.
        seconds, histogram = perf_counter() - self.started, figures.seconds
        histogram.counts[bisect_left(SECONDS, seconds)] += 1
        histogram.sum += seconds
        figures.received_bytes += self.size
        error_of = figures.error_of
        code = getattr(response, "error_code", 0) if error_of is None else error_of(response)
        if code:
            figures.errors[code] = figures.errors.get(code, 0) + 1

    def complete_without_answer(self) -> None:
        """Complete the request without an answer, and count it."""
        if self.answer is None:
            figures = self.of[self.route.api_key]
            figures.seconds.observe(perf_counter() - self.started)
            figures.received_bytes += self.size
        super().complete_without_answer()

    def abandon(self) -> None:
        """Drop later replies, because the connection is closed."""
        if self.answer is None:
            self.of[self.route.api_key].abandoned += 1
        super().abandon()


class RepeatedCall(MeasuredCall):
    """A heartbeat that is the same as the last one of its connection.

    Such heartbeats are nearly all requests of a large cluster, and they cost 3 microseconds each, so two
    readings of the clock for each would be a tenth of that. Those that are answered at once are only
    counted, and share the time of their turn of the event loop.
    """

    __slots__ = ()

    turn: ClassVar[list[RepeatedHeartbeat]]
    """Heartbeats that were repeated in this turn of the event loop."""

    def wait(self) -> None:
        """Take a position in the queue, for a heartbeat that is held or behind one that is."""
        self.started = perf_counter()
        self.queued = True

    def reply(self, response: Message) -> None:
        """Send `response` as `Call.reply` does, and count it."""
        if self.answer is not None:
            return
        last = self.connection.last_heartbeat
        if (
            last is None
            or last.answer is not response
            or last.request is not self.request
            or self.queued
            or self.amend is not None
            or self.on_reply is not None
        ):
            if not self.queued:
                self.started = perf_counter()
            MeasuredCall.reply(self, response)
            return
        self.on_abandon = None
        self.answer = [answer_head(last.size, self.correlation_id) + last.payload]
        if not last.repeats:
            if not self.turn:
                self.of.begin_turn()
            self.turn.append(last)
        last.repeats += 1


class RequestFigures(dict[int, ApiFigures]):
    """Figures of all APIs that were used, by API key."""

    def __init__(self) -> None:
        super().__init__()
        self._turn: list[RepeatedHeartbeat] = []
        self._turn_began = 0.0
        # Classes are called to make calls: a function that calls them would cost as much again.
        figures = self

        class OwnCall(MeasuredCall):
            __slots__ = ()
            of = figures

        class OwnRepeatedCall(RepeatedCall):
            __slots__ = ()
            of = figures
            turn = figures._turn

        self._call = OwnCall
        self.new_repeat: NewCall = OwnRepeatedCall
        """Makes the calls of heartbeats that are the same as the last one of their connection."""

    def __missing__(self, api_key: int) -> ApiFigures:
        return self.setdefault(api_key, ApiFigures(api_key))

    def new_call(
        self, connection: ClientConnection, correlation_id: int, route: Route, request: Message, size: int
    ) -> Call:
        """Return the call of a request, whose time begins."""
        call = self._call(connection, correlation_id, route, request, size)
        call.started = perf_counter()
        return call

    # -- repeated heartbeats

    def begin_turn(self) -> None:
        """Take that the first heartbeat of this turn of the event loop is answered."""
        self._turn_began = perf_counter()
        asyncio.get_running_loop().call_soon(self.end_turn)

    def end_turn(self) -> None:
        """Count the repeated heartbeats of the turn. Their answers are written right after this."""
        if not self._turn:
            return
        seconds = perf_counter() - self._turn_began
        bucket = bisect_left(SECONDS, seconds)
        for last in self._turn:
            number = last.repeats
            if number:
                last.repeats = 0
                figures = self[last.route.api_key]
                figures.received_bytes += number * last.request_size
                histogram = figures.seconds
                histogram.counts[bucket] += number
                histogram.sum += number * seconds
                if last.error_code:
                    figures.errors[last.error_code] = figures.errors.get(last.error_code, 0) + number
        self._turn.clear()

    # -- scrapes

    def add(self, text: Exposition) -> None:
        """Add the figures to a scrape."""
        requests = text.counter("kafka_network_requestmetrics_requests", "Requests that were answered, by API.")
        errors = text.counter("kafka_network_requestmetrics_errors", "Answers by API and first error.")
        received = text.counter("kohort_broker_request_bytes", "Bytes of requests by API.")
        abandoned = text.counter("kohort_broker_requests_abandoned", "Requests whose client closed the connection.")
        seconds = text.histogram(
            "kohort_broker_request_seconds", "Time from a request's last byte until its answer is ready."
        )
        self.end_turn()
        for _, figures in sorted(self.items()):
            api = labels(request=figures.name)
            requests.add(api, sum(figures.seconds.counts))
            received.add(api, figures.received_bytes)
            abandoned.add(api, figures.abandoned)
            seconds.add_histogram(api, figures.seconds)
            for code, count in sorted(figures.errors.items()):
                errors.add(f"{api},{labels(error=_name_of(code))}", count)


def _name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
