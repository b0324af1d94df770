"""One connection to one broker: requests out, answers in, in the order of the requests.

It knows no retries and no other brokers. When it breaks, everything that waits on it fails at once, and its owner
opens another.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from struct import Struct
from typing import Any, TypeVar, cast

from kohort.client.alarm import Alarm
from kohort.client.strangers import NotKafkaError, copied, garbled, stranger
from kohort.client.versions import NEWEST_SPOKEN, common_versions, version_for
from kohort.errors import ErrorCode, KafkaError, error_code
from kohort.model import Millis
from kohort.wire.api import APIS
from kohort.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.codec import Buffer, DecodeError, Message, decoder, encoder
from kohort.wire.header import read_response_header, request_header

_log = logging.getLogger(__name__)

_SIZE = Struct(">i")
_LARGEST_ANSWER = 1 << 30
_SLOW = 0.25
"""Of request.timeout.ms: an answer that takes longer is logged."""
_READ_BYTES = 1 << 16  # asyncio's own 256 KiB cost an mmap and its page faults for each read

_M = TypeVar("_M", bound=Message)


@dataclass(slots=True)
class _Waiting:
    """A request whose answer has not come."""

    correlation_id: int
    key: int
    version: int
    decode: Callable[[bytes, int], tuple[Message, int]]
    answer: "asyncio.Future[Any]"
    deadline_at: float
    slow_at: float
    """From then on it is worth a line in the log."""


class Connection(asyncio.Protocol):
    """Open it with `connect`. `closed` resolves when it is over, for whatever reason."""

    def __init__(self, client_id: str, request_timeout_ms: Millis) -> None:
        self._loop = asyncio.get_running_loop()
        self._client_id = client_id
        self._request_timeout = request_timeout_ms / 1000
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[_Waiting] = deque()
        self._last_correlation_id = 0
        self._versions: Mapping[int, int] = {}
        self._alarm = Alarm(self._check_deadlines)
        self._chunks: list[bytes] = []
        self._waiting_bytes = 0
        self._wanted = _SIZE.size
        self._writable = asyncio.Event()
        self._writable.set()
        self.address = "?"
        self.peer: tuple[str, int] = ("", 0)
        self.closed: asyncio.Future[KafkaError] = self._loop.create_future()
        self.used_at = self._loop.time()
        self._answered_nothing = True
        self.received = 0
        """Bytes, so far."""

    @property
    def open(self) -> bool:
        """Whether a request can be sent."""
        return self._transport is not None and not self.closed.done()

    @property
    def in_flight(self) -> int:
        """Requests that wait for their answer."""
        return len(self._waiting)

    def version_of(self, kind: type[Message]) -> int:
        """The version in which that request is sent here. Raises UNSUPPORTED_VERSION where there is none in common."""
        try:
            return self._versions[kind.KEY]
        except KeyError:
            name = APIS[kind.KEY].name
            detail = (
                f"the broker at {self.address} and this client have no version of {name} in common: a broker older"
                " than Apache Kafka 2.1 must be upgraded."
            )
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail) from None

    def speaks(self, kind: type[Message]) -> bool:
        """Whether the broker knows that request at all."""
        return kind.KEY in self._versions

    # -- requests

    def send(self, request: Message, timeout_ms: Millis | None = None) -> "asyncio.Future[Any]":
        """Queue a request for this turn of the loop; the future gets its answer, or the KafkaError that came instead.

        Requests are answered in order, so one that the broker holds holds those behind it.
        """
        version = version_for(request, self.version_of(type(request)))
        return self._send(request, version, timeout_ms)

    async def request(self, request: Message, answer: type[_M], timeout_ms: Millis | None = None) -> _M:
        """Send it and wait for its answer."""
        response = await self.send(request, timeout_ms)
        assert isinstance(response, answer)
        return response

    def post(self, request: Message) -> None:
        """Send what the broker will not answer (Produce with acks=0)."""
        version = self.version_of(type(request))
        if self._transport is None or self.closed.done():
            raise self._why_closed()
        self._write(self._transport, request, version)

    async def drained(self) -> None:
        """Wait until the other side has taken most of what was sent."""
        await self._writable.wait()

    def _send(self, request: Message, version: int, timeout_ms: Millis | None) -> "asyncio.Future[Any]":
        answer: asyncio.Future[Any] = self._loop.create_future()
        transport = self._transport
        if transport is None or self.closed.done():
            answer.set_exception(self._why_closed())
            return answer
        api = APIS[request.KEY]
        correlation_id = self._write(transport, request, version)
        now = self._loop.time()
        timeout, slow_at = self._request_timeout, now + self._request_timeout * _SLOW
        if timeout_ms is not None:  # the broker may take its time: a long poll, a rebalance
            timeout, slow_at = timeout_ms / 1000, inf
        decode = decoder(api.response, version)
        waiting = _Waiting(correlation_id, api.key, version, decode, answer, now + timeout, slow_at)
        self._waiting.append(waiting)
        self.used_at = now
        self._alarm.by(waiting.deadline_at)
        return answer

    def _write(self, transport: asyncio.Transport, request: Message, version: int) -> int:
        self._last_correlation_id = correlation_id = (self._last_correlation_id + 1) & 0x7FFFFFFF
        parts: list[Buffer] = [b"", request_header(request.KEY, version, correlation_id, self._client_id)]
        encoder(type(request), version)(request, parts)
        parts[0] = _SIZE.pack(sum(map(len, parts)))
        transport.writelines(parts)
        return correlation_id

    # -- life

    @classmethod
    async def connect(
        cls, host: str, port: int, *, client_id: str, request_timeout_ms: Millis, setup_timeout_ms: Millis
    ) -> "Connection":
        """Connect and agree on versions. Raises KafkaError with a sentence that says what is wrong."""
        loop = asyncio.get_running_loop()
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        connection: Connection | None = None
        try:
            async with asyncio.timeout(setup_timeout_ms / 1000):
                _, connection = await loop.create_connection(lambda: cls(client_id, request_timeout_ms), host, port)
                connection.address, connection.peer = address, (host, port)
                await connection._agree()
        except TimeoutError as problem:
            detail = f"{address} did not answer within {setup_timeout_ms} ms"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, detail) from problem
        except OSError as problem:
            why = problem.strerror or problem
            detail = f"cannot connect to {address}: {why}; does a broker run there, and is bootstrap_servers right?"
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, detail) from problem
        finally:
            if connection is not None and not connection._versions:
                connection.abort("the connection was given up before it was ready")
        return connection

    async def _agree(self) -> None:
        """KIP-35, KIP-511: ask in our newest version; a broker that does not know it says which ones it knows."""
        version = NEWEST_SPOKEN[ApiVersionsRequest.KEY]
        request = ApiVersionsRequest(client_software_name="kohort", client_software_version="0.1.0")
        response: ApiVersionsResponse = await self._send(request, version, None)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            known = [one.max_version for one in response.api_keys if one.api_key == ApiVersionsRequest.KEY]
            response = await self._send(request, min([version, *known]) if known else 0, None)
        if response.error_code:
            raise KafkaError(error_code(response.error_code), f"{self.address} refused to say what it supports")
        self._versions = common_versions(response.api_keys)

    async def close(self) -> None:
        """Close when what was sent has gone out; answers that have not come fail. Closing twice is fine."""
        if self._transport is not None and not self.closed.done():
            self._transport.close()
            self._break(KafkaError(ErrorCode.NETWORK_EXCEPTION, "the connection was closed"))

    def abort(self, why: str, code: ErrorCode = ErrorCode.NETWORK_EXCEPTION) -> None:
        """Close at once."""
        self._end(KafkaError(code, why))

    def _end(self, error: KafkaError) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._break(error)

    def _break(self, error: KafkaError) -> None:
        if self.closed.done():
            return
        self.closed.set_result(error)
        self._alarm.cancel()
        self._writable.set()
        self._chunks.clear()
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            if not one.answer.done():
                one.answer.set_exception(copied(error))

    def _why_closed(self) -> KafkaError:
        why = self.closed.result() if self.closed.done() else None
        if isinstance(why, NotKafkaError):
            return copied(why)
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, why.sentence if why else "the connection is not open")

    # -- deadlines: one timer, moved lazily

    def _check_deadlines(self) -> None:
        now = self._loop.time()
        for one in self._waiting:
            if one.deadline_at <= now:
                # What comes later on this connection could be anything: as in Java's client, it is over.
                name = APIS[one.key].name
                _log.warning("no answer in time: request=%s broker=%s", name, self.address)
                self.abort(f"{self.address} did not answer {name} in time", ErrorCode.REQUEST_TIMED_OUT)
                return
        if self._waiting:
            self._alarm.by(min(one.deadline_at for one in self._waiting))

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if hasattr(transport, "max_size"):
            transport.max_size = _READ_BYTES

    def connection_lost(self, exc: Exception | None) -> None:
        why = f": {exc}" if exc else ""
        if self._answered_nothing:
            why += ", before it said anything: does it stop, or expect TLS?"
        if self._waiting and not self.closed.done():
            asked = ", ".join(APIS[one.key].name for one in self._waiting)
            _log.info("connection lost: %s closed the connection%s; it owed answers to %s", self.address, why, asked)
        self._break(KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{self.address} closed the connection{why}"))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._chunks.append(data)
        self.received += len(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes < self._wanted:
            return
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        at, end = 0, len(data)
        if self._answered_nothing and (problem := stranger(self.address, data)) is not None:
            self._end(problem)
            return
        self._wanted = _SIZE.size
        while end - at >= _SIZE.size:
            (size,) = _SIZE.unpack_from(data, at)
            if not 0 < size <= _LARGEST_ANSWER:
                self._end(garbled(self.address))
                return
            if end - at < _SIZE.size + size:
                self._wanted = _SIZE.size + size
                break
            at += _SIZE.size
            if not self._answer(data, at):
                return
            at += size
        rest = data[at:] if at else data
        self._chunks = [rest] if rest else []
        self._waiting_bytes = len(rest)

    def _answer(self, data: bytes, at: int) -> bool:
        """Give the answer at `at` to who waits for it; False when the connection is over."""
        if not self._waiting:
            self.abort(f"{self.address} answered what was not asked")
            return False
        one = self._waiting.popleft()
        try:
            correlation_id, body = read_response_header(data, one.key, one.version, at)
            if correlation_id != one.correlation_id:
                raise DecodeError(f"the answer is to request {correlation_id}, not {one.correlation_id}")
            response = self._decode(one, data, body)
        except DecodeError as problem:
            self._waiting.appendleft(one)
            self.abort(f"{self.address} sent a malformed answer to {APIS[one.key].name}: {problem}")
            return False
        self._answered_nothing = False
        if (now := self._loop.time()) > one.slow_at:
            took = now - one.slow_at + self._request_timeout * _SLOW
            _log.info("slow answer: %s took %.1f s for %s", self.address, took, APIS[one.key].name)
        if not one.answer.done():
            one.answer.set_result(response)
        return not self.closed.done()

    def _decode(self, one: _Waiting, data: bytes, body: int) -> Message:
        # KIP-511: the answer to an ApiVersions of a version that the broker does not know is a v0 body.
        if one.key == ApiVersionsRequest.KEY and data[body : body + 2] == _UNSUPPORTED_VERSION:
            return decoder(ApiVersionsResponse, 0)(data, body)[0]
        return one.decode(data, body)[0]


_UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2)
