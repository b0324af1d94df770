"""A broker that reports what its peers ask, what it answers, and what its coordinator does; see `events`.

Each part is the broker's own, with a report added. An answer is reported when it leaves, behind the answers to earlier
requests of its connection; if the connection closes first, the answer is lost.
"""

import asyncio
import copy
import itertools
import logging
from collections.abc import Callable, Sequence
from typing import cast

from kohort.broker import Broker, BrokerOptions, Clock
from kohort.broker.apis import Dispatch
from kohort.broker.cluster import DirectoryCluster
from kohort.broker.config import Listener
from kohort.broker.groups import BrokerJournal, GroupCoordinator, Shard
from kohort.broker.logs import Leadership
from kohort.broker.net import Call, ClientConnection, PendingAnswer, Route, Secured, Sockets
from kohort.coordinator import Record
from kohort.group_events import GroupEvent
from kohort.log import LogStore
from kohort.model import Millis
from kohort.recorder import RebalanceRecord
from kohort.testing.events import (
    AnswerLost,
    AnswerSent,
    ConnectionClosed,
    ConnectionOpened,
    Event,
    GroupChanged,
    Observer,
    RecordsAppended,
    RequestReceived,
)
from kohort.wire.codec import Message

log = logging.getLogger("kohort.testing")

_LOOK_EVERY_S = 0.005
"""Interval at which brokers over one directory look for changes: tests wait for them."""
_NO_ANSWER = "the request asks for no answer (acks=0)"
_CLOSED = "the connection closed"

_connections = itertools.count(1)
_requests = itertools.count(1)


class TappedCall(Call):
    """A request, with what became of its answer."""

    __slots__ = ("broker", "request_id", "response")

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
        """The answer that the broker gave."""

    def reply(self, response: Message) -> None:
        if self.answer is None:
            self.response = response
            super().reply(response)

    def abandon(self) -> None:
        super().abandon()
        self.lost(_CLOSED)

    def left(self) -> None:
        """Report that the answer is with the transport, or that there is none."""
        if self.connection.transport is None:
            self.lost(_CLOSED)
        elif self.response is None:
            self.lost(_NO_ANSWER)
        elif self.broker.observers:
            connection = cast("TappedConnection", self.connection).number
            broker = self.broker
            broker.emit(AnswerSent(broker.now(), broker.node_id, connection, self.request_id, self.response))

    def lost(self, reason: str) -> None:
        """Report that the peer never receives the answer."""
        broker = self.broker
        if broker.observers:
            connection = cast("TappedConnection", self.connection).number
            broker.emit(AnswerLost(broker.now(), broker.node_id, connection, self.request_id, self.response, reason))


class TappedConnection(ClientConnection):
    """A connection that reports its beginning, its end, and when answers leave."""

    broker: "TappedBroker"
    number: int

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.number = next(_connections)
        host, port = (transport.get_extra_info("peername") or ("unknown", 0))[:2]
        broker = self.broker
        broker.emit(ConnectionOpened(broker.now(), broker.node_id, self.number, f"{host}:{port}"))
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        by_broker = self.transport is None
        super().connection_lost(exc)
        broker = self.broker
        broker.emit(ConnectionClosed(broker.now(), broker.node_id, self.number, by_broker))

    def place(self, call: PendingAnswer) -> None:
        super().place(call)
        if not call.queued:
            cast("TappedCall", call).left()

    def advance(self) -> None:
        leaving = list(itertools.takewhile(lambda call: call.answer is not None, self._waiting))
        super().advance()
        for call in leaving:
            cast("TappedCall", call).left()


class TappedSockets(Sockets):
    """Sockets whose connections are tapped."""

    connection_type = TappedConnection
    _broker: "TappedBroker"

    def _new_connection(self, listener: Listener, secured: Secured) -> ClientConnection:
        connection = cast("TappedConnection", super()._new_connection(listener, secured))
        connection.broker = self._broker
        return connection


class TappedDispatch(Dispatch):
    """A dispatcher that reports each request."""

    _broker: "TappedBroker"

    def __init__(self, broker: "TappedBroker") -> None:
        super().__init__(broker)
        self._new_call = self._tapped_call

    def _tapped_call(
        self, connection: ClientConnection, correlation_id: int, route: Route, request: Message, size: int
    ) -> Call:
        broker, tapped = self._broker, cast("TappedConnection", connection)
        call = TappedCall(broker, tapped, correlation_id, route, request, size)
        if broker.observers:
            # The guard of an access-controlled broker takes what is not allowed out of the request.
            seen = request if broker.access_control is None else copy.copy(request)
            number, client_id = tapped.number, connection.client_id
            broker.emit(
                RequestReceived(broker.now(), broker.node_id, number, call.request_id, client_id, route.version, seen)
            )
        return call


class TappedShard(Shard):
    """A shard that reports the records that it appends."""

    _broker: "TappedBroker"

    def _append(self, records: list[Record], now: Millis) -> None:
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
    ) -> None:
        super().__init__(options, store, clock)
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

    def _new_leadership(self) -> Leadership:
        leadership = super()._new_leadership()
        if isinstance(leadership, DirectoryCluster):
            leadership.look_every_s = _LOOK_EVERY_S
        return leadership
