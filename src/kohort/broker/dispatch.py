"""From a frame to its handler: the request that it is, decoded once, and its place among the answers."""

import logging
import struct
from typing import TYPE_CHECKING, cast

from kohort.broker.apis import api_versions
from kohort.broker.call import Call, Route
from kohort.broker.connection import BadFrame, Connection
from kohort.broker.repeats import LARGEST, Repeat
from kohort.broker.routes import route, routes
from kohort.coordinator import Behind
from kohort.errors import ErrorCode
from kohort.wire.api_versions import ApiVersionsRequest
from kohort.wire.codec import Message
from kohort.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.heartbeat import HeartbeatRequest
from kohort.wire.varint import skip_tags

if TYPE_CHECKING:
    from kohort.broker.server import Broker

log = logging.getLogger("kohort.broker")

_head = struct.Struct(">hhih").unpack_from
_API_VERSIONS = 18


class Dispatch:
    """Of one broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def handle(self, connection: Connection, frame: bytes) -> None:
        """Handle one request to its end, or to where it has to wait. Raises BadFrame, DecodeError."""
        try:
            api_key, version, correlation_id, length = _head(frame)
        except struct.error:
            raise BadFrame("a request is too short for its header") from None
        found = routes.get((api_key, version)) or route(api_key, version)
        if found is None:
            self._unserved(connection, api_key, version, correlation_id)
            return
        broker = self._broker
        if broker.fenced is not None and broker.fenced():
            raise BadFrame("this broker has no lease now")
        last = connection.last_heartbeat
        if last is not None and last.route is found and last.said == frame[8:]:
            request = last.request
        else:
            request = self._decode(connection, found, frame, length)
        call = Call(connection, correlation_id, found, request)
        try:
            if connection.may_wait is not None:
                self._release(connection, request)
            found.handler(broker, call, request)
            connection.place(call)
        except Exception:  # our bug: it costs this connection, never another
            log.exception("request failed api=%d version=%d peer=%s", api_key, version, connection.peer)
            connection.refuse("the request met an error of the broker's own")

    def _decode(self, connection: Connection, found: Route, frame: bytes, length: int) -> Message:
        """What a frame says; `length` is that of its client id."""
        position = 10
        if length > 0:
            position += length
            if connection.client_id_bytes != (raw := frame[10:position]):
                connection.client_id_bytes = raw
                connection.client_id = raw.decode("utf-8", "surrogateescape")
                connection.last_heartbeat = None  # it said another
        if found.flexible_request:
            position = position + 1 if frame[position : position + 1] == b"\0" else skip_tags(frame, position)
        request: Message = found.decode(frame, position, self._broker.max_elements)[0]
        if found.repeats and len(frame) <= LARGEST:
            connection.last_heartbeat = Repeat(found, frame[8:], request)
        return request

    def _release(self, connection: Connection, request: Message) -> None:
        """Answer a held heartbeat now: the answer to what comes after it could not leave before."""
        call, connection.may_wait = connection.may_wait, None
        if call is not None and call.open:
            held = cast("HeartbeatRequest | ConsumerGroupHeartbeatRequest", call.request)
            behind = Behind.REQUEST
            if type(request) is type(held):
                own = request.member_id == held.member_id
                behind = Behind.OWN_HEARTBEAT if own else Behind.OTHERS_HEARTBEAT
                connection.speaks_for_many |= not own
            self._broker.groups.shard(held.group_id).release(call, behind)

    def _unserved(self, connection: Connection, api_key: int, version: int, correlation_id: int) -> None:
        if api_key != _API_VERSIONS:
            raise BadFrame(f"request {api_key} version {version} is not served")
        # KIP-511: answered in version 0, so that any client can read what it may ask for instead.
        found = route(_API_VERSIONS, 0)
        assert found is not None
        call = Call(connection, correlation_id, found, ApiVersionsRequest())
        call.reply(api_versions.served(self._broker, ErrorCode.UNSUPPORTED_VERSION))
        connection.place(call)
