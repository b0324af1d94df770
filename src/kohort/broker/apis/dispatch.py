"""Dispatch of a frame to its handler: the request is decoded once, and its answer queued in order."""

import logging
import struct
from collections.abc import Callable
from typing import Protocol, cast

from kohort.broker.access import AccessControl, guarded
from kohort.broker.apis import api_versions
from kohort.broker.apis.routes import Dependencies as HandlerParts
from kohort.broker.apis.routes import Routes
from kohort.broker.groups import GroupCoordinator
from kohort.broker.net import BadFrame, Call, ClientConnection, PendingAnswer, RepeatedCommits, Route
from kohort.coordinator import WaitingRequest
from kohort.errors import ErrorCode
from kohort.wire.api import API_VERSIONS
from kohort.wire.codec import Message, skip_tags
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.offset_commit import OffsetCommitRequest


class Dependencies(HandlerParts, Protocol):
    """The parts of the broker that this module uses."""

    access_control: AccessControl | None
    fenced: Callable[[], bool] | None
    groups: GroupCoordinator
    max_elements: int


NewCall = Callable[[ClientConnection, int, Route, Message, int], Call]
"""Makes the call of a request from its connection, correlation ID, route, message and size."""

log = logging.getLogger("kohort.broker")

_head = struct.Struct(">hhih").unpack_from


class Dispatch:
    """The dispatcher of one broker."""

    def __init__(self, broker: Dependencies, new_call: NewCall = Call, new_repeat: NewCall = Call) -> None:
        """Create it.

        `new_call` may measure the calls; without that, a broker does no more for a request. `new_repeat`
        makes the calls of heartbeats that are the same as the connection's last one.
        """
        self._broker = broker
        self._routes = Routes(broker.served)
        self._used = self._routes.used
        self._new_call = new_call
        self._new_repeat = new_repeat
        """A test kit replaces both."""

    def handle(self, connection: ClientConnection, frame: bytes) -> None:
        """Handle one request until it is complete or must wait. Raise BadFrame or DecodeError."""
        gate = connection.gate
        if gate is not None and gate.intercept(frame):
            return
        try:
            api_key, version, correlation_id, length = _head(frame)
        except struct.error:
            raise BadFrame("a request is too short for its header") from None
        found = self._used.get((api_key, version)) or self._routes.find(api_key, version)
        if found is None:
            self._unsupported_request(connection, api_key, version, correlation_id)
            return
        broker = self._broker
        if broker.fenced is not None and broker.fenced():
            raise BadFrame("this broker's lease has expired")
        last = connection.last_heartbeat
        if last is not None and last.route is found and last.said == frame[8:]:
            request = last.request
            new_call = self._new_repeat  # called as a function: Python looks it up twice as fast as a method
        else:
            commits = connection.commits
            known = None if commits is None or commits.route is not found else commits.read(frame)
            request = self._decode(connection, found, frame, length) if known is None else known
            new_call = self._new_call
        call = new_call(connection, correlation_id, found, request, len(frame))
        try:
            held, connection.held_heartbeat = connection.held_heartbeat, None
            if held is not None and held.open:
                self._release(connection, held, request)
            control = broker.access_control
            if control is None:
                found.handler(broker, call, request)
            elif (rest := guarded(control, broker.topics, call, request)) is not None:
                found.handler(broker, call, rest)
            connection.place(call)
            if type(request) is OffsetCommitRequest:  # a RepeatedCommit has its shape
                self._learn(connection, found, frame, length, request)
        except Exception:  # a bug in the broker must affect only this connection
            log.exception("request failed api=%d version=%d peer=%s", api_key, version, connection.peer)
            connection.refuse("the request failed with an internal error of the broker")

    def _decode(self, connection: ClientConnection, found: Route, frame: bytes, length: int) -> Message:
        """Return the frame's request; `length` is that of its client ID."""
        position = 10 + max(length, 0)
        if connection.client_id_bytes != (raw := frame[10:position]):  # a null ID is treated as empty
            connection.client_id_bytes = raw
            connection.client_id = raw.decode("utf-8", "surrogateescape")
            connection.last_heartbeat = None  # remembered for another client ID
            connection.commits = None
        position = _body(found, frame, position)
        request: Message = found.decode(frame, position, self._broker.max_elements)[0]
        if found.repeats:
            connection.remember(found, frame, request)
        return request

    def _learn(
        self, connection: ClientConnection, found: Route, frame: bytes, length: int, request: OffsetCommitRequest
    ) -> None:
        """Learn the shape of a commit, whose topics have names and IDs now."""
        if connection.commits is None:
            connection.commits = RepeatedCommits()
        connection.commits.learn(found, frame, _body(found, frame, 10 + max(length, 0)), request)

    def _release(self, connection: ClientConnection, call: PendingAnswer, request: Message) -> None:
        """Answer a held heartbeat now, because answers to later requests cannot be sent before its own."""
        held = cast("HeartbeatRequest | ConsumerGroupHeartbeatRequest", call.request)
        behind = WaitingRequest.REQUEST
        if type(request) is type(held):
            own = request.member_id == held.member_id
            behind = WaitingRequest.OWN_HEARTBEAT if own else WaitingRequest.OTHERS_HEARTBEAT
            connection.has_many_members |= not own
        self._broker.groups.shard(held.group_id).release(call, behind)

    def _unsupported_request(
        self, connection: ClientConnection, api_key: int, version: int, correlation_id: int
    ) -> None:
        if api_key != API_VERSIONS:
            raise BadFrame(f"request {api_key} version {version} is not supported")
        # KIP-511: answered in version 0, so that any client can read which versions it may use instead.
        found = self._routes.find(API_VERSIONS, 0)
        assert found is not None
        call = self._new_call(connection, correlation_id, found, ApiVersionsRequest(), 0)
        call.reply(api_versions.served(self._broker, ErrorCode.UNSUPPORTED_VERSION))
        connection.place(call)


def _body(found: Route, frame: bytes, position: int) -> int:
    """Return the position of the request after its client ID and, if the header has them, its tagged fields."""
    if not found.flexible_request:
        return position
    return position + 1 if frame[position : position + 1] == b"\0" else _after_tags(frame, position)


def _after_tags(frame: bytes, position: int) -> int:
    """Return the position after the tagged fields of a request header. Raise BadFrame or DecodeError."""
    try:
        return skip_tags(frame, position)
    except IndexError:
        raise BadFrame("the tagged fields of a request header are cut short") from None
