"""Requests of the gateway itself on the connection of a client to a broker, and the pauses that they need."""

import asyncio

from kohort.broker.groups import GATEWAY_CLIENT_ID
from kohort.errors import ErrorCode, KafkaError
from kohort.gateway.framing import FrameStream
from kohort.gateway.side import Side
from kohort.gateway.traffic import Traffic, request_frame
from kohort.wire.codec import Message

_FIRST = -(1 << 30)
"""First correlation ID of the gateway's own requests. Clients count up from 0."""
_STOPPED = "requests are stopped"


class OwnRequests:
    """Requests between those of the client."""

    def __init__(self, upstream: Side, traffic: Traffic) -> None:
        self._upstream = upstream
        self._traffic = traffic
        self._last_correlation = _FIRST
        self._asked: dict[int, asyncio.Future[Message]] = {}

    def next_correlation(self) -> int:
        """Return a correlation ID that no request has whose response is read. A client may use any."""
        while True:
            self._last_correlation = max(self._last_correlation + 1, _FIRST)
            if not self._traffic.awaits(self._last_correlation):
                return self._last_correlation

    def ask(self, request: Message, version: int) -> "asyncio.Future[Message]":
        """Send a request to the broker, and return its response."""
        asked: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        if not self._upstream.is_open:
            asked.set_exception(KafkaError(ErrorCode.NETWORK_EXCEPTION, "the connection to the broker is closed"))
            return asked
        correlation = self.next_correlation()
        self._asked[correlation] = asked
        self._traffic.expect(correlation, request.KEY, version)
        self._upstream.write(request_frame(request.KEY, version, correlation, GATEWAY_CLIENT_ID, request))
        return asked

    def answered(self, correlation: int, frame: bytes) -> bool:
        """Return whether a response belongs to one of these requests. Raises BadStream."""
        asked = self._asked.pop(correlation, None)
        if asked is None:
            return False
        response = self._traffic.read(frame)
        if not asked.done():
            asked.set_result(response)
        return True

    def end(self) -> None:
        """Fail the requests that are not answered."""
        asked, self._asked = self._asked, {}
        for one in asked.values():
            if not one.done():
                one.set_exception(KafkaError(ErrorCode.NETWORK_EXCEPTION, "the broker closed the connection"))
                one.exception()  # it is no error if nobody waits any more


class RequestStops:
    """Reasons for which no requests of the client are passed on. One whose beginning has passed is completed."""

    def __init__(self, requests: FrameStream, client: Side) -> None:
        self._requests = requests
        self._client = client
        self._reasons: set[str] = set()
        self._complete: asyncio.Future[None] | None = None

    def stop(self, reason: str) -> None:
        """Pass on no more requests, until each reason is removed."""
        self._reasons.add(reason)
        self._requests.is_paused = True
        self.received()

    def received(self) -> None:
        """Read no more, if requests are stopped and none has passed only in part. To be called after each read."""
        if self._reasons and not self._requests.is_passing:
            self._client.pause(_STOPPED)
            if self._complete is not None and not self._complete.done():
                self._complete.set_result(None)

    async def complete(self) -> None:
        """Return when the last request has passed completely."""
        if self._requests.is_passing:
            self._complete = asyncio.get_running_loop().create_future()
            await self._complete

    def is_stopped_for(self, reason: str) -> bool:
        """Return whether requests are stopped for this reason."""
        return reason in self._reasons

    def removed(self, reason: str) -> bool:
        """Remove a reason. Return whether there are others."""
        self._reasons.discard(reason)
        return bool(self._reasons)

    def go_on(self) -> None:
        """Pass on the requests that have arrived, and read again, unless there are reasons again. Raises BadStream."""
        if not self._reasons:
            self._client.resume(_STOPPED)
            self._requests.resume()

    def end(self) -> None:
        """Wait for nothing any more: the connection is closed."""
        if self._complete is not None and not self._complete.done():
            self._complete.cancel()
