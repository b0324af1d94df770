"""A broker that reports what its peers ask, what it answers, and what its coordinator does; see `events`.

Each part is the broker's own, with a report added. An answer is reported when it leaves, behind the answers to earlier
requests of its connection; if the connection closes first, the answer is lost.

Faults happen here, too (see `faults`). A request that is held before the work stops its connection, as a slow network
does: later requests of the connection arrive after it. An answer that is held or dropped stops all later answers of the
connection. Other connections go on.
"""

import asyncio
import copy
import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast
from uuid import UUID

from kohort.broker import Broker, BrokerOptions, Clock
from kohort.broker.apis import Dispatch, Routes
from kohort.broker.config import Listener
from kohort.broker.fetch import TOPIC_IDS_FROM
from kohort.broker.groups import BrokerJournal, GroupCoordinator, Shard
from kohort.broker.net import (
    BadFrame,
    Call,
    ClientConnection,
    Handler,
    PendingAnswer,
    Route,
    Secured,
    Served,
    Sockets,
)
from kohort.coordinator import GroupRecord, GroupShard
from kohort.errors import ErrorCode
from kohort.group_events import GroupEvent
from kohort.log import FileSlice, LogStore
from kohort.model import NO_TOPIC_ID, Millis
from kohort.recorder import RebalanceRecord
from kohort.testing.events import (
    AnswerLost,
    AnswerSent,
    ConnectionClosed,
    ConnectionOpened,
    CoordinatorStarted,
    Event,
    GroupChanged,
    KitActed,
    Observer,
    RecordsAppended,
    RequestReceived,
)
from kohort.testing.faults import Faults, LiveRule, Plan, Stay
from kohort.testing.names import api_name
from kohort.testing.parts import copied, shape_of, whole_error, with_errors, without
from kohort.testing.rules import Close, Cut, Delay, Drop, Duplicate, Observe, Sender, When
from kohort.wire.codec import Buffer, DecodeError, Message
from kohort.wire.commits import RepeatedCommit
from kohort.wire.messages.api_key import ApiKey
from kohort.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.fetch import FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.produce import ProduceRequest

log = logging.getLogger("kohort.testing")

_AGAIN = "a fault repeated the request, and the peer gets the second answer"
_CLOSED_BY_FAULT = "a fault failed a request with acks=0"
_CUT = "a fault cut the answer"
_DROPPED = "a fault dropped the answer"
_NO_ANSWER = "the request asks for no answer (acks=0)"
_CLOSED = "the connection closed"

_connections = itertools.count(1)
_requests = itertools.count(1)


class TappedCall(Call):
    """A request, with what became of its answer."""

    __slots__ = ("_is_reported", "broker", "closes", "is_again", "is_cut", "plan", "request_id", "response")

    def __init__(
        self,
        broker: "TappedBroker",
        connection: "TappedConnection",
        correlation_id: int,
        route: Route,
        request: Message,
        size: int,
    ) -> None:
        super().__init__(connection, correlation_id, route, request, size)
        self.broker = broker
        self.request_id = next(_requests)
        self.response: Message | None = None
        """The answer, since it is known."""
        self.plan: Plan | None = None
        """What happens to the request because of faults."""
        self.is_again = False
        """Whether it is the first of two identical requests: the peer does not get its answer."""
        self.closes = False
        """Whether the connection is closed when the answer has left."""
        self.is_cut = False
        self._is_reported = False

    @property
    def open(self) -> bool:
        return self.response is None and super().open

    def reply(self, response: Message) -> None:
        if self.answer is None and self.response is None:
            self.on_abandon = None
            self.give(response if self.plan is None else self._with_faults(self.plan, response))

    def give(self, response: Message) -> None:
        """Answer, with no fault in the response itself."""
        self.response = response
        if self.is_again:
            self.answer = []
            self.lost(_AGAIN)
        elif self.plan is None:
            super().reply(response)
        else:
            stay([stay for stay in self.plan.stays if stay[0].when is When.AFTER], self._leave)

    def complete_without_answer(self) -> None:
        plan = self.plan
        super().complete_without_answer()
        if self.is_again:
            self.lost(_NO_ANSWER)
        elif plan is not None and (plan.fails or isinstance(plan.ending, Close | Cut)):
            # With acks=0, a closed connection is the only way to tell of an error.
            self.connection.refuse(_CLOSED_BY_FAULT)

    def abandon(self) -> None:
        if self.response is not None:
            self.on_abandon = None  # whoever parked it has answered
        super().abandon()
        self.lost(_CLOSED)

    def drop(self) -> None:
        """Never answer."""
        self.lost(_DROPPED)

    def left(self) -> None:
        """Report that the answer is with the transport, or that there is none."""
        if self.is_cut:
            self.lost(_CUT)
        elif self.connection.transport is None:
            self.lost(_CLOSED)
        elif self.response is None:
            self.lost(_NO_ANSWER)
        elif self.broker.observers and not self._is_reported:
            self._is_reported = True
            broker, number = self.broker, cast("TappedConnection", self.connection).number
            broker.emit(AnswerSent(broker.now(), broker.node_id, number, self.request_id, self.response))

    def lost(self, reason: str) -> None:
        """Report that the peer never receives the answer."""
        if self.broker.observers and not self._is_reported:
            self._is_reported = True
            broker, number = self.broker, cast("TappedConnection", self.connection).number
            broker.emit(AnswerLost(broker.now(), broker.node_id, number, self.request_id, self.response, reason))

    def _with_faults(self, plan: Plan, response: Message) -> Message:
        hits = len(plan.hits)
        plan.consider_response(response)
        self.report(plan.hits[hits:])
        if plan.whole is not None:
            return self._whole_error(plan.whole.error)
        if not plan.failed:
            return response
        if isinstance(plan.request, FetchRequest) and isinstance(response, FetchResponse):
            if response.error_code:
                return response
            self._tell_again(plan, plan.request, response.session_id)
        return with_errors(plan.shape, plan.depth, plan.request, response, self.version, plan.error_of)

    def _tell_again(self, plan: Plan, request: FetchRequest, session_id: int) -> None:
        failed = [(request.topics[topic], index) for topic, index in plan.failed]
        by_id = self.version >= TOPIC_IDS_FROM
        keys = [(topic.topic_id if by_id else topic.topic, topic.partitions[at].partition) for topic, at in failed]
        self.broker.fetch_sessions.tell_again(session_id, keys)

    def fail(self, code: ErrorCode) -> None:
        """Answer with an error for the request as a whole."""
        self.give(self._whole_error(code))

    def _whole_error(self, code: ErrorCode) -> Message:
        if not isinstance(self.request, ApiVersionsRequest):
            return whole_error(self.request, self.version, code)
        if code is ErrorCode.UNSUPPORTED_VERSION:
            # KIP-511: in version 0, which any client can read.
            found = Routes(self.broker.served).find(ApiKey.API_VERSIONS, 0)
            assert found is not None
            self.route = found
        keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in self.broker.served]
        return ApiVersionsResponse(error_code=code, api_keys=keys)

    def report(self, hits: Iterable[LiveRule]) -> None:
        """Report the faults that happen to the request."""
        broker, name = self.broker, api_name(self.route.api_key)
        for live in hits:
            if broker.observers and not isinstance(live.rule.action, Observe):
                what = f"fault {live.owner.id} ({live.rule}) on {name} of client {self.connection.client_id!r}"
                broker.emit(KitActed(broker.now(), broker.node_id, what))

    def _leave(self) -> None:
        assert self.plan is not None and self.response is not None
        if self.answer is not None:
            return  # the connection closed meanwhile
        ending = self.plan.ending
        match ending:
            case Drop():
                self.drop()
            case Close(when=When.AFTER):
                self.connection.close()
            case Cut(after_bytes=after_bytes):
                self.closes = self.is_cut = True
                self._cut(after_bytes)
            case _:
                self.closes = isinstance(ending, Close)
                super().reply(self.response)
        cast("TappedConnection", self.connection).flush_soon()

    def _cut(self, after_bytes: int | None) -> None:
        assert self.response is not None
        if self.amend is not None:
            self.amend(self.response)
        self._encode(self.response)
        parts = cast("list[Buffer | FileSlice]", self.answer)
        frame = b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts)
        self.answer = [frame[: len(frame) // 2 if after_bytes is None else after_bytes]]
        if self.queued:
            self.connection.advance()


class TappedConnection(ClientConnection):
    """A connection that reports its beginning, its end, and when answers leave."""

    broker: "TappedBroker"
    number: int
    stalled: deque[bytes] | None = None
    """The requests behind one that a fault delays or holds; None if there is no such request."""
    again: set[TappedCall]
    """Requests that were handled twice, while the first answer is not known."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.number = next(_connections)
        self.again = set()
        host, port = (transport.get_extra_info("peername") or ("unknown", 0))[:2]
        broker = self.broker
        broker.emit(ConnectionOpened(broker.now(), broker.node_id, self.number, f"{host}:{port}"))
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        by_broker = self.transport is None
        super().connection_lost(exc)
        for call in self.again:
            if call.answer is None:
                call.abandon()
        broker = self.broker
        broker.emit(ConnectionClosed(broker.now(), broker.node_id, self.number, by_broker))

    def place(self, call: PendingAnswer) -> None:
        super().place(call)
        if not call.queued:
            self._left([cast("TappedCall", call)])

    def advance(self) -> None:
        leaving = cast(
            "list[TappedCall]", list(itertools.takewhile(lambda call: call.answer is not None, self._waiting))
        )
        last = next((at for at, call in enumerate(leaving, 1) if call.closes), len(leaving))
        behind = [self._waiting.pop() for _ in range(len(leaving) - last)]
        super().advance()
        self._left(leaving[:last])
        for call in reversed(behind):
            call.abandon()

    def _left(self, calls: Iterable[TappedCall]) -> None:
        for call in calls:
            call.left()
            if call.closes:
                self.close()

    def flush_soon(self) -> None:
        """Write what is ready, also outside of a turn in which something was read."""
        if self._outbox.ready:
            self._flushes.add(self)


class TappedSockets(Sockets):
    """Sockets whose connections are tapped."""

    connection_type = TappedConnection
    _broker: "TappedBroker"

    def _new_connection(self, listener: Listener, secured: Secured) -> ClientConnection:
        connection = cast("TappedConnection", super()._new_connection(listener, secured))
        connection.broker = self._broker
        return connection


class TappedRoutes(Routes):
    """Routes whose requests pass through `serve`, which gets the handler first."""

    def __init__(self, served: Served, serve: Callable[[Handler, Any, Any, Any], None]) -> None:
        super().__init__(served)
        self._serve = serve

    def find(self, api_key: int, version: int) -> Route | None:
        found = super().find(api_key, version)
        if found is not None:
            found = self.used[api_key, version] = replace(found, handler=partial(self._serve, found.handler))
        return found


class TappedDispatch(Dispatch):
    """A dispatcher that reports each request, and applies faults to it."""

    _broker: "TappedBroker"

    def __init__(self, broker: "TappedBroker") -> None:
        super().__init__(broker)
        self._routes = TappedRoutes(broker.served, self._serve)
        self._used = self._routes.used
        self._new_call = self._new_repeat = self._tapped_call

    def handle(self, connection: ClientConnection, frame: bytes) -> None:
        stalled = cast("TappedConnection", connection).stalled
        if stalled is None:
            super().handle(connection, frame)
        else:
            stalled.append(frame)

    def _tapped_call(
        self, connection: ClientConnection, correlation_id: int, route: Route, request: Message, size: int
    ) -> TappedCall:
        broker, tapped = self._broker, cast("TappedConnection", connection)
        call = TappedCall(broker, tapped, correlation_id, route, request, size)
        if broker.observers:
            if isinstance(request, RepeatedCommit):
                seen: Message = request.named()
            else:
                # With ACLs, the guard removes from the request what the client may not do.
                seen = request if broker.access_control is None else copy.copy(request)
            number, client_id = tapped.number, connection.client_id
            broker.emit(
                RequestReceived(broker.now(), broker.node_id, number, call.request_id, client_id, route.version, seen)
            )
        return call

    # Faults

    def _serve(self, handler: Handler, broker: "TappedBroker", call: TappedCall, request: Message) -> None:
        """Handle a request, which the client may make: faults come after permissions."""
        if broker.faults.any and isinstance(request, RepeatedCommit):
            call.request = request = request.plain()  # a fault may concern only a part of it
        plan = self._plan(call, request) if broker.faults.any else None
        if plan is None:
            handler(broker, call, request)
            return
        call.plan = plan
        call.report(plan.hits)
        early = [stay for stay in plan.stays if stay[0].when is When.BEFORE]
        if not early:
            self._work(handler, call, request, plan)
            return
        cast("TappedConnection", call.connection).stalled = deque()
        stay(early, partial(self._resume, handler, call, request, plan))

    def _plan(self, call: TappedCall, request: Message) -> Plan | None:
        broker, connection = self._broker, cast("TappedConnection", call.connection)
        sender = Sender(broker.node_id, call.route.api_key, call.version, connection.client_id, connection.number)
        if isinstance(request, FetchRequest):
            request = _with_session(broker, request)
        return broker.faults.plan(sender, request, shape_of(request, call.version), self._name_of)

    def _name_of(self, topic_id: UUID) -> str | None:
        topic = self._broker.topics.with_id(topic_id)
        return None if topic is None else topic.name

    def _resume(self, handler: Handler, call: TappedCall, request: Message, plan: Plan) -> None:
        """Handle a request that was delayed or held, and those behind it."""
        if self._broker.stopping:
            return
        connection = cast("TappedConnection", call.connection)
        frames, connection.stalled = connection.stalled or (), None
        try:
            # Also if the client has given up: the request had arrived.
            self._work(handler, call, request, plan)
        except Exception:  # as in `Dispatch.handle`
            log.exception("request failed api=%d version=%d peer=%s", call.route.api_key, call.version, connection.peer)
            connection.refuse("the request failed with an internal error of the broker")
        for frame in frames:
            if connection.transport is not None:
                try:
                    self.handle(connection, frame)
                except (BadFrame, DecodeError) as error:
                    connection.refuse(str(error))
        connection.flush_soon()

    def _work(self, handler: Handler, call: TappedCall, request: Message, plan: Plan) -> None:
        broker = self._broker
        match plan.ending:
            case Close(when=When.BEFORE):
                call.connection.close()
                return
            case Drop(when=When.BEFORE):
                call.drop()
                return
            case Duplicate():
                self._handle_again(handler, call, request)
        if plan.whole is not None and not plan.does_work(plan.whole):
            call.fail(plan.whole.error)
            return
        rest: Message | None = request
        if plan.failed:
            rest = _without_failed(plan, request)
            if rest is None:
                self._fail_all_parts(call, plan)
                return
        handler(broker, call, rest)

    def _handle_again(self, handler: Handler, call: TappedCall, request: Message) -> None:
        connection = cast("TappedConnection", call.connection)
        first: Message = copied(request)
        again = self._tapped_call(connection, call.correlation_id, call.route, first, call.size)
        again.is_again = True
        connection.again.add(again)
        handler(self._broker, again, first)

    def _fail_all_parts(self, call: TappedCall, plan: Plan) -> None:
        if isinstance(plan.request, ProduceRequest) and plan.request.acks == 0:
            call.complete_without_answer()
            return
        call.give(with_errors(plan.shape, plan.depth, plan.request, None, call.version, plan.error_of))


def stay(stays: Sequence[Stay], then: Callable[[], None]) -> None:
    """Call `then` after these delays, one after the other, and when the faults that hold are released."""
    if not stays:
        then()
        return
    (action, owner, releases), *rest = stays
    following = partial(stay, rest, then)
    if isinstance(action, Delay):
        asyncio.get_running_loop().call_later(action.ms / 1000, following)
    else:
        owner.hold(following, releases)


def _with_session(broker: "TappedBroker", request: FetchRequest) -> FetchRequest:
    """Return the request with all partitions of its fetch session: it names only those that changed."""
    topics: dict[tuple[str, UUID], FetchTopic] = {}
    seen: set[tuple[tuple[str, UUID], int]] = set()
    forgotten = {
        (topic.topic, topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions
    }
    if request.session_epoch <= 0:
        return request
    named = ((topic.topic, topic.topic_id, wanted) for topic in request.topics for wanted in topic.partitions)
    kept = ((place.topic, place.topic_id, place.wanted) for place in broker.fetch_sessions.places(request.session_id))
    for name, topic_id, wanted in itertools.chain(kept, named):
        key = ("", topic_id) if topic_id != NO_TOPIC_ID else (name, topic_id)
        if (key, wanted.partition) in seen or (*key, wanted.partition) in forgotten:
            continue
        seen.add((key, wanted.partition))
        topic = topics.setdefault(key, FetchTopic(topic=name, topic_id=topic_id))
        topic.partitions.append(wanted)
    whole = copy.copy(request)
    whole.topics = list(topics.values())
    return whole


def _without_failed(plan: Plan, request: Message) -> Message | None:
    """Return the request for the broker: without the parts that fail instead of the work. None if nothing is left."""
    if isinstance(request, FetchRequest):
        request = copy.copy(request)
        request.max_wait_ms = 0  # an error is no reason to wait
        return request
    if plan.shape.reads:
        return request  # the errors replace results
    failed = {path for path, fail in plan.failed.items() if not plan.does_work(fail)}
    return without(plan.shape, plan.depth, request, failed.__contains__)


class TappedShard(Shard):
    """A shard that reports the records that it appends."""

    _broker: "TappedBroker"

    def _append(self, records: list[GroupRecord], now: Millis) -> None:
        super()._append(records, now)
        self._broker.emit(RecordsAppended(now, self._broker.node_id, self.partition, tuple(records)))


class TappedCoordinator(GroupCoordinator):
    """A coordinator whose shards are tapped."""

    shard_type = TappedShard


class TappedJournal(BrokerJournal):
    """A journal that reports the events of groups, and keeps its records."""

    _broker: "TappedBroker"

    def observe(self, event: GroupEvent, now: Millis) -> None:
        self._broker.emit(GroupChanged(now, self._broker.node_id, event))
        super().observe(event, now)

    def _write(self, fresh: Sequence[RebalanceRecord]) -> None:
        self._broker.rebalances += fresh
        super()._write(fresh)


class TappedBroker(Broker):
    """A broker that reports its events to observers. Like `Broker`, it belongs to its event loop."""

    sockets_type = TappedSockets
    coordinator_type = TappedCoordinator
    journal_type = TappedJournal

    def __init__(
        self,
        options: BrokerOptions,
        store: LogStore | None = None,
        clock: Clock | None = None,
        *,
        observers: Sequence[Observer] = (),
        faults: Faults | None = None,
    ) -> None:
        super().__init__(options, store, clock)
        self.faults = Faults() if faults is None else faults
        self.observers: list[Observer] = list(observers)
        self.failures: list[Exception] = []
        """Errors of observers. The kit raises them to its caller."""
        self.rebalances: list[RebalanceRecord] = []
        """The rebalances that the journal has completed, the earliest first."""

    def emit(self, event: Event) -> None:
        """Report an event to all observers."""
        for observer in tuple(self.observers):
            try:
                observer(event)
            except Exception as error:
                log.exception("an observer failed")
                self.failures.append(error)

    def new_dispatch(self) -> Callable[[ClientConnection, bytes], None]:
        return TappedDispatch(self).handle

    def new_group_shard(self, partition: int) -> GroupShard:
        self.emit(CoordinatorStarted(self.now(), self.node_id, partition))
        return super().new_group_shard(partition)
