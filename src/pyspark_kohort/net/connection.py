"""Blocking connection to one broker. Responses arrive in the order of the requests."""

import socket
import ssl
import struct
import time
from collections import deque
from math import inf
from types import TracebackType
from typing import Self, TypeVar

from kohort.errors import ErrorCode, KafkaError
from kohort.model import NO_TOPIC_ID, Millis
from kohort.wire.api import APIS, read_response_header, request_header
from kohort.wire.codec import Buffer, DecodeError, Message, decoder, encoder
from kohort.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.end_txn import EndTxnRequest
from kohort.wire.messages.fetch import FetchRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.produce import ProduceRequest
from pyspark_kohort.net.login import Login

M = TypeVar("M", bound=Message)

_NEWEST = {
    ProduceRequest.KEY: 11,
    AddPartitionsToTxnRequest.KEY: 3,
    EndTxnRequest.KEY: 4,
    FindCoordinatorRequest.KEY: 3,
}
"""Latest versions used.

Later versions of Produce and EndTxn are those of transaction version 2 (KIP-890), which raises the
epoch with EndTxn: the sink raises it with InitProducerId, so that a transaction can be ended with
the epoch that it began with. Later ones of AddPartitionsToTxn are for brokers, and of
FindCoordinator for several keys.
"""
_FETCH_BY_NAME = 12
"""Last version of Fetch that names topics; later ones use topic ids (KIP-516)."""
_LARGEST_ANSWER = 1 << 30
_AGAIN = 0.85
"""Fraction of a session's lifetime after which the connection authenticates again (KIP-368)."""


class BlockingConnection:
    """One socket. After an error the caller must close it, because the state of the stream is unknown."""

    def __init__(self, host: str, port: int, client_id: str, timeout_ms: Millis, login: Login | None = None) -> None:
        self._peer = f"{host}:{port}"
        self._client_id = client_id
        self._correlation_id = 0
        self._awaited: list[tuple[int, int, int]] = []
        self._early: deque[bytes] = deque()
        """Responses that were read before they were asked for, because the connection authenticated again."""
        self._login = login
        self._again_at = inf
        self._versions: dict[int, tuple[int, int]] = {ApiVersionsRequest.KEY: (0, 0)}
        try:
            plain = socket.create_connection((host, port), timeout=timeout_ms / 1000)
        except OSError as error:
            raise self._lost(error) from None
        except UnicodeError as error:
            raise self._lost(OSError(f"the host has no valid name: {error}")) from None
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket: socket.socket = plain if login is None else login.wrap(plain, host, self._peer)
        self._encrypted = self._socket is not plain
        if not self._encrypted:
            self._use_timeouts_of_the_kernel(timeout_ms)
        try:
            answer = self.call(ApiVersionsRequest(), ApiVersionsResponse)
            self._versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
            self._authenticate()
        except KafkaError:
            self.close()
            raise

    def _use_timeouts_of_the_kernel(self, timeout_ms: Millis) -> None:
        # Use the kernel's timeouts. Python's make a socket non-blocking, and MSG_WAITALL would not wait.
        self._socket.settimeout(None)
        limit = struct.pack("ll", timeout_ms // 1000, timeout_ms % 1000 * 1000)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(self, request: Message, answer: type[M]) -> M:
        self.send(request)
        return self.receive(answer)

    def send(self, request: Message) -> None:
        """Send a request. `receive` returns the responses in the order of the requests."""
        if time.monotonic() >= self._again_at:
            # A broker accepts no other request meanwhile, so those under way are answered first.
            while len(self._early) < len(self._awaited):
                self._early.append(self._read_frame())
            self._authenticate()
        self._awaited.append(self._write(request, self._version_of(request)))

    def _write(self, request: Message, version: int) -> tuple[int, int, int]:
        """Send a request, and return what identifies its response."""
        self._correlation_id += 1
        parts: list[Buffer] = [request_header(request.KEY, version, self._correlation_id, self._client_id)]
        encoder(type(request), version)(request, parts)
        size = sum(map(len, parts))
        try:
            self._socket.sendall(b"".join([struct.pack(">i", size), *parts]))  # record batches are copied once
        except OSError as error:
            raise self._lost(error) from None
        return request.KEY, version, self._correlation_id

    def _authenticate(self) -> None:
        if self._login is None:
            return
        lifetime_ms = self._login.authenticate(self._peer, self._versions, self._ask_now)
        self._again_at = time.monotonic() + _AGAIN * lifetime_ms / 1000 if lifetime_ms > 0 else inf

    def _ask_now(self, request: Message, version: int, answer: type[M]) -> M:
        """Send a request of the authentication, and return its response."""
        return self._decoded(self._write(request, version), self._read_frame(), answer)

    def receive(self, answer: type[M]) -> M:
        """Return the response to the oldest pending request; its record batches point into the bytes received."""
        awaited = self._awaited.pop(0)
        return self._decoded(awaited, self._early.popleft() if self._early else self._read_frame(), answer)

    def _read_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._read(4))
        if not 4 <= size <= _LARGEST_ANSWER:
            raise self._malformed(f"an answer of {size} bytes")
        return self._read(size)

    def _decoded(self, awaited: tuple[int, int, int], frame: bytes, answer: type[M]) -> M:
        key, version, expected = awaited
        assert key == answer.KEY
        try:
            correlation_id, position = read_response_header(frame, key, version)
            if correlation_id != expected:
                raise self._malformed(f"answer {correlation_id} where {expected} was due")
            return decoder(answer, version)(frame, position)[0]
        except DecodeError as error:
            raise self._malformed(str(error)) from error

    def close(self) -> None:
        self._socket.close()

    def _version_of(self, request: Message) -> int:
        version = self._version(request.KEY)
        if isinstance(request, FetchRequest) and any(topic.topic_id == NO_TOPIC_ID for topic in request.topics):
            return min(version, _FETCH_BY_NAME)
        return version

    def _version(self, key: int) -> int:
        api = APIS[key]
        low, high = self._versions.get(key, (0, -1))
        version = min(high, api.max_version, _NEWEST.get(key, api.max_version))
        if key == ApiVersionsRequest.KEY:
            return 0
        if version < max(low, api.min_version):
            detail = f"{self._peer} has {api.name} {low} to {high}; kohort reads {api.min_version} to {api.max_version}"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail)
        return version

    def _read(self, size: int) -> bytes:
        """Read exactly `size` bytes into one object, so that large responses are not copied."""
        try:
            if self._encrypted:
                return self._read_encrypted(size)
            data = self._socket.recv(size, socket.MSG_WAITALL)
            while len(data) < size:  # a signal interrupted the call, or the peer closed
                more = self._socket.recv(size - len(data), socket.MSG_WAITALL)
                if not more:
                    raise ConnectionResetError("the broker closed the connection")
                data += more
        except OSError as error:
            raise self._lost(error) from None
        return data

    def _read_encrypted(self, size: int) -> bytes:
        data = bytearray(size)
        view, at = memoryview(data), 0
        while at < size:  # TLS has no MSG_WAITALL
            count = self._socket.recv_into(view[at:])
            if not count:
                raise ConnectionResetError("the broker closed the connection")
            at += count
        return bytes(data)

    def _lost(self, error: OSError) -> KafkaError:
        ended = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
        if isinstance(error, ssl.SSLError) and not ended and self._login is not None:
            return self._login.tls_error(self._peer, error)
        if isinstance(error, (TimeoutError, BlockingIOError)):
            return KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{self._peer} did not answer in time")
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{self._peer}: {error.strerror or error}")

    def _malformed(self, what: str) -> KafkaError:
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{self._peer} does not speak Kafka's protocol: {what}")
