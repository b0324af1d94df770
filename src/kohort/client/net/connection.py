"""Connection to one broker: requests and their responses, in the order of the requests.

It does not retry and does not know other brokers. When it breaks, all pending requests fail at
once, and its owner opens another connection.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from ssl import SSLContext, SSLError
from struct import Struct
from typing import Any, TypeVar, cast

from kohort.client.metrics import NetworkMetrics, NodeMetrics, Sampling
from kohort.client.net.authentication import Authentication
from kohort.client.net.earliest_timer import EarliestTimer
from kohort.client.net.not_kafka import NotKafkaError, copied_error, malformed_answer_error, other_protocol_error
from kohort.client.net.versions import (
    NEWEST_SPOKEN,
    FinalizedFeatures,
    api_versions_request,
    common_versions,
    finalized_features,
    version_for,
)
from kohort.client.security import AuthenticationError, Credentials, tls_error
from kohort.errors import ErrorCode, KafkaError, error_code
from kohort.model import Millis
from kohort.wire.api import APIS, read_response_header, request_header
from kohort.wire.codec import Buffer, DecodeError, Message, decoder, encoder
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

_log = logging.getLogger(__name__)

_SIZE = Struct(">i")
_LARGEST_ANSWER = 1 << 30
_SLOW = 0.25
"""Fraction of request.timeout.ms after which a response is logged as slow."""
_READ_BYTES = 1 << 16  # asyncio's default of 256 KiB costs an mmap and its page faults for each read

_TLS_CLOSING_S = 1.0
"""Longest wait for a broker's part in closing a TLS connection."""

_M = TypeVar("_M", bound=Message)


@dataclass(slots=True)
class _Waiting:
    """Request without a response so far."""

    correlation_id: int
    key: int
    version: int
    decode: Callable[[bytes, int], tuple[Message, int]]
    answer: "asyncio.Future[Any]"
    sent_at: float
    deadline_at: float
    slow_at: float
    """Loop time from which the response is logged as slow."""


@dataclass(slots=True)
class _Held:
    """Request that waits until the connection is authenticated again."""

    request: Message
    version: int
    timeout_ms: Millis | None
    answer: "asyncio.Future[Any] | None"
    """None for a request without a response."""


class BrokerConnection(asyncio.Protocol):
    """Connection to one broker, opened with `connect`. `closed` resolves when it ends for any reason."""

    def __init__(self, client_id: str, request_timeout_ms: Millis, metrics: NodeMetrics | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self.metrics = metrics or NetworkMetrics(Sampling()).node(0)
        """Metrics of the broker that the connection leads to."""
        self._client_id = client_id
        self._request_timeout = request_timeout_ms / 1000
        self._transport: asyncio.Transport
        self._waiting: deque[_Waiting] = deque()
        self._last_correlation_id = 0
        self._versions: Mapping[int, int] = {}
        self.features = FinalizedFeatures()
        """Features that the cluster has finalized, as far as this broker knows."""
        self._deadline_timer = EarliestTimer(self._check_deadlines)
        self._chunks: list[bytes] = []
        self._waiting_bytes = 0
        self._wanted = _SIZE.size
        self._writable = asyncio.Event()
        self._writable.set()
        self.address = "?"
        self.peer: tuple[str, int] = ("", 0)
        self.closed: asyncio.Future[KafkaError] = self._loop.create_future()
        self._never_answered = True
        self.received = 0
        """Number of bytes received so far."""
        self._tls = False
        self._lost: asyncio.Future[None] = self._loop.create_future()
        """Resolves when the transport has ended."""
        self._authentication: Authentication | None = None
        self._held: list[_Held] | None = None
        """Requests to send when the connection is authenticated again; None if it is."""
        self._throttled_until = 0.0
        """Loop time until which the broker reads nothing from this connection, because of a quota."""
        self._only_versions = True
        """Whether ApiVersions is the only request that has been answered."""

    @property
    def open(self) -> bool:
        """Whether a request can be sent."""
        return not self.closed.done()

    @property
    def in_flight(self) -> int:
        """Number of requests that wait for a response."""
        return len(self._waiting) + len(self._held or ())

    @property
    def authentications(self) -> int:
        """Number of times that the connection has been authenticated by SASL."""
        return self._authentication.count if self._authentication is not None else 0

    def version_of(self, kind: type[Message]) -> int:
        """Return the version in which requests of this kind are sent.

        Raises UNSUPPORTED_VERSION if the broker and the client have no version in common.
        """
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
        """Return whether the broker supports requests of this kind."""
        return kind.KEY in self._versions

    # -- requests

    def send(
        self, request: Message, timeout_ms: Millis | None = None, newest: int | None = None
    ) -> "asyncio.Future[Any]":
        """Queue a request for this turn of the loop, and return a future with its response or KafkaError.

        Responses arrive in order, so a request that the broker holds delays those behind it. `newest`
        limits the version.
        """
        version = self.version_of(type(request))
        version = version_for(request, version if newest is None else min(version, newest))
        return self._send(request, version, timeout_ms)

    async def request(
        self, request: Message, answer: type[_M], timeout_ms: Millis | None = None, newest: int | None = None
    ) -> _M:
        """Send a request and return its response. `newest` limits the version."""
        response = await self.send(request, timeout_ms, newest)
        assert isinstance(response, answer)
        return response

    def post(self, request: Message) -> None:
        """Send a request that has no response (Produce with acks=0)."""
        version = self.version_of(type(request))
        if self.closed.done():
            raise self._why_closed()
        if self._held is not None:
            self._held.append(_Held(request, version, None, None))
        else:
            self._write(request, version)

    async def drained(self) -> None:
        """Wait until the peer has received most of the data sent."""
        await self._writable.wait()

    def _send(self, request: Message, version: int, timeout_ms: Millis | None) -> "asyncio.Future[Any]":
        answer: asyncio.Future[Any] = self._loop.create_future()
        if self._held is not None and not self.closed.done():
            self._held.append(_Held(request, version, timeout_ms, answer))
        else:
            self._send_now(request, version, timeout_ms, answer)
        return answer

    def _send_now(
        self, request: Message, version: int, timeout_ms: Millis | None, answer: "asyncio.Future[Any]"
    ) -> None:
        if self.closed.done():
            answer.set_exception(self._why_closed())
            return
        api = APIS[request.KEY]
        correlation_id = self._write(request, version)
        now = max(self._loop.time(), self._throttled_until)  # from when the broker reads
        timeout, slow_at = self._request_timeout, now + self._request_timeout * _SLOW
        if timeout_ms is not None:  # the broker may hold the request: a long poll, a rebalance
            timeout, slow_at = timeout_ms / 1000, inf
        decode = decoder(api.response, version)
        waiting = _Waiting(correlation_id, api.key, version, decode, answer, now, now + timeout, slow_at)
        self._waiting.append(waiting)
        self._deadline_timer.by(waiting.deadline_at)

    # -- requests of the authentication

    def send_first(self, request: Message, version: int) -> "asyncio.Future[Any]":
        """Send a request though others are held."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._send_now(request, version, None, answer)
        return answer

    def hold_requests(self) -> None:
        """Hold new requests until `release_requests`."""
        if self._held is None:
            self._held = []

    def release_requests(self) -> None:
        """Send the requests that were held, in their order."""
        held, self._held = self._held or [], None
        for each in held:
            if each.answer is None:
                self._write(each.request, each.version)
            elif not each.answer.done():
                self._send_now(each.request, each.version, each.timeout_ms, each.answer)

    def end(self, error: KafkaError) -> None:
        """Close immediately. All requests fail with this error."""
        self._end(error)

    def _write(self, request: Message, version: int) -> int:
        self._last_correlation_id = correlation_id = (self._last_correlation_id + 1) & 0x7FFFFFFF
        parts: list[Buffer] = [b"", request_header(request.KEY, version, correlation_id, self._client_id)]
        encoder(type(request), version)(request, parts)
        size = sum(map(len, parts))
        parts[0] = _SIZE.pack(size)
        self._transport.writelines(parts)
        self.metrics.request(request.KEY, _SIZE.size + size, self._loop.time())
        return correlation_id

    # -- opening and closing

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        request_timeout_ms: Millis,
        setup_timeout_ms: Millis,
        tls: SSLContext | None = None,
        credentials: Credentials | None = None,
        metrics: NodeMetrics | None = None,
    ) -> "BrokerConnection":
        """Connect, negotiate API versions and authenticate.

        Raises KafkaError with a sentence that explains the problem.
        """
        loop = asyncio.get_running_loop()
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        machine = None if credentials is None else await credentials.client()
        connection: BrokerConnection | None = None
        ready = False
        try:
            async with asyncio.timeout(setup_timeout_ms / 1000):
                connecting = loop.create_connection(
                    lambda: cls(client_id, request_timeout_ms, metrics), host, port, ssl=tls
                )
                _, connection = await connecting
                connection.address, connection.peer = address, (host, port)
                connection._tls = tls is not None
                await connection._agree()
                if credentials is not None and machine is not None:
                    connection._authentication = Authentication(connection, credentials)
                    await connection._authentication.authenticate(machine)
                    connection.metrics.client.authenticated.add(1, loop.time())
            ready = True
        except AuthenticationError:
            if connection is not None:
                connection.metrics.client.rejected.add(1, loop.time())
            raise
        except TimeoutError as problem:
            detail = f"{address} did not answer within {setup_timeout_ms} ms"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, detail) from problem
        except (SSLError, ConnectionResetError, ConnectionAbortedError) as problem:
            if tls is not None:
                raise tls_error(address, problem) from problem
            raise _unreachable(address, problem) from problem
        except (OSError, UnicodeError) as problem:  # UnicodeError: no resolver takes the name, such as "a..b"
            raise _unreachable(address, problem) from problem
        finally:
            if connection is not None and not ready:
                connection.abort("the connection was given up before it was ready")
        return connection

    async def _agree(self) -> None:
        """Negotiate API versions (KIP-35, KIP-511).

        ApiVersions is sent in our newest version; a broker that does not support it returns its
        versions.
        """
        version = NEWEST_SPOKEN[ApiVersionsRequest.KEY]
        request = api_versions_request()
        response: ApiVersionsResponse = await self._send(request, version, None)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            known = [api.max_version for api in response.api_keys if api.api_key == ApiVersionsRequest.KEY]
            response = await self._send(request, min([version, *known]) if known else 0, None)
        if response.error_code:
            raise KafkaError(error_code(response.error_code), f"{self.address} refused to list its supported versions")
        self._versions = common_versions(response.api_keys)
        self.features = finalized_features(response)

    async def close(self) -> None:
        """Close after the data sent has been transmitted. Pending requests fail. Closing twice is allowed."""
        self._transport.close()
        self._break(KafkaError(ErrorCode.NETWORK_EXCEPTION, "the connection was closed"))
        if self._tls and not self._lost.done():  # it ends with a message in each direction
            await asyncio.wait([self._lost], timeout=_TLS_CLOSING_S)
            self._transport.abort()

    def abort(self, why: str, code: ErrorCode = ErrorCode.NETWORK_EXCEPTION) -> None:
        """Close immediately."""
        self._end(KafkaError(code, why))

    def _end(self, error: KafkaError) -> None:
        self._transport.abort()
        self._break(error)

    def _break(self, error: KafkaError) -> None:
        if self.closed.done():
            return
        self.closed.set_result(error)
        self.metrics.disconnected(self._loop.time())
        self._deadline_timer.cancel()
        self._writable.set()
        if self._authentication is not None:
            self._authentication.close()
        waiting, self._waiting = self._waiting, deque()
        held, self._held = self._held or [], None
        answers = [*(each.answer for each in waiting), *(each.answer for each in held if each.answer is not None)]
        for answer in answers:
            if not answer.done():
                answer.set_exception(copied_error(error))

    def _why_closed(self) -> KafkaError:
        why = self.closed.result()
        if isinstance(why, NotKafkaError | AuthenticationError):
            return copied_error(why)
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, why.sentence)

    # -- deadlines, with one timer that is rescheduled lazily

    def _check_deadlines(self) -> None:
        now = self._loop.time()
        for waiting_request in self._waiting:
            if waiting_request.deadline_at <= now:
                # A late response could not be attributed, so the connection ends, as in Java's
                # client.
                name = APIS[waiting_request.key].name
                self.metrics.timeouts += 1
                _log.warning("no answer in time: request=%s broker=%s", name, self.address)
                self.abort(f"{self.address} did not answer {name} in time", ErrorCode.REQUEST_TIMED_OUT)
                return
        if self._waiting:
            self._deadline_timer.by(min(waiting_request.deadline_at for waiting_request in self._waiting))

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.metrics.connected(self._loop.time())
        if hasattr(transport, "max_size"):
            transport.max_size = _READ_BYTES

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._lost.done():
            self._lost.set_result(None)
        if isinstance(exc, SSLError) and self._never_answered:
            # With TLS 1.3, a broker rejects a certificate after the handshake.
            self._break(tls_error(self.address, exc))
            return
        why = f": {exc}" if exc else ""
        if self._never_answered and self._tls:
            why += " before its first answer: is it stopping, or does it require a certificate (ssl_certfile)?"
        elif self._never_answered:
            why += " before its first answer: is it stopping, or does it expect TLS (security_protocol)?"
        elif self._only_versions and self._authentication is None and exc is None:
            why += " after its first answer: is it stopping, or does it require SASL (security_protocol)?"
        if self._waiting:
            asked = ", ".join(APIS[waiting_request.key].name for waiting_request in self._waiting)
            _log.info("connection lost: %s closed the connection%s; unanswered requests: %s", self.address, why, asked)
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
        if self._never_answered and (problem := other_protocol_error(self.address, data)) is not None:
            self._end(problem)
            return
        self._wanted = _SIZE.size
        while end - at >= _SIZE.size:
            (size,) = _SIZE.unpack_from(data, at)
            if not 0 < size <= _LARGEST_ANSWER:
                self._end(malformed_answer_error(self.address))
                return
            if end - at < _SIZE.size + size:
                self._wanted = _SIZE.size + size
                break
            at += _SIZE.size
            if not self._answer(data, at, size):
                return
            at += size
        rest = data[at:] if at else data
        self._chunks = [rest] if rest else []
        self._waiting_bytes = len(rest)

    def _answer(self, data: bytes, at: int, size: int) -> bool:
        """Deliver the response of `size` bytes at `at` to its request. Return False if the connection has ended."""
        if not self._waiting:
            self.abort(f"{self.address} sent an answer without a request")
            return False
        waiting_request = self._waiting.popleft()
        try:
            correlation_id, body = read_response_header(data, waiting_request.key, waiting_request.version, at)
            if correlation_id != waiting_request.correlation_id:
                raise DecodeError(f"the answer is to request {correlation_id}, not {waiting_request.correlation_id}")
            response = self._decode(waiting_request, data, body)
        except DecodeError as problem:
            self._waiting.appendleft(waiting_request)
            self.abort(f"{self.address} sent a malformed answer to {APIS[waiting_request.key].name}: {problem}")
            return False
        self._never_answered = False
        self._only_versions &= waiting_request.key == ApiVersionsRequest.KEY
        if (now := self._loop.time()) > waiting_request.slow_at:
            took = now - waiting_request.slow_at + self._request_timeout * _SLOW
            _log.info("slow answer: %s took %.1f s for %s", self.address, took, APIS[waiting_request.key].name)
        throttle_ms: Millis = getattr(response, "throttle_time_ms", 0)
        self.metrics.response(waiting_request.key, _SIZE.size + size, now - waiting_request.sent_at, throttle_ms, now)
        if throttle_ms > 0:
            self._wait_longer(throttle_ms / 1000)
        if not waiting_request.answer.done():
            waiting_request.answer.set_result(response)
        return not self.closed.done()

    def _wait_longer(self, seconds: float) -> None:
        """Extend the time limit of each request: because of a quota, the broker reads none for this time (KIP-219)."""
        self._throttled_until = max(self._throttled_until, self._loop.time() + seconds)
        for waiting_request in self._waiting:
            waiting_request.deadline_at += seconds
            waiting_request.slow_at += seconds

    def _decode(self, waiting_request: _Waiting, data: bytes, body: int) -> Message:
        # KIP-511: the response to an ApiVersions request of a version unknown to the broker has a
        # v0 body.
        if waiting_request.key == ApiVersionsRequest.KEY and data[body : body + 2] == _UNSUPPORTED_VERSION:
            return decoder(ApiVersionsResponse, 0)(data, body)[0]
        return waiting_request.decode(data, body)[0]


def _unreachable(address: str, problem: OSError | UnicodeError) -> KafkaError:
    why = (problem.strerror if isinstance(problem, OSError) else "the host has no valid name") or problem
    detail = f"cannot connect to {address}: {why}; is a broker running there, and is bootstrap_servers correct?"
    return KafkaError(ErrorCode.NETWORK_EXCEPTION, detail)


_UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2)
