"""Which frames of one client connection the gateway reads, and what it makes of them. Pure."""

from struct import Struct
from struct import error as StructError

from kohort.errors import ErrorCode
from kohort.gateway.addresses import Addresses
from kohort.gateway.endpoints import WALKED, Walk
from kohort.gateway.framing import BadStream, Fate
from kohort.gateway.framing import Walk as AnyWalk
from kohort.gateway.observed import TopicNames
from kohort.gateway.versions import FIRST_SASL_HANDSHAKE, announce
from kohort.wire.api import (
    APIS,
    RequestHeader,
    read_request_header,
    read_response_header,
    request_header,
    response_header,
)
from kohort.wire.codec import DecodeError, Message, decoder, encode, read_varint, skip_tags
from kohort.wire.messages.api_key import ApiKey
from kohort.wire.messages.api_versions import ApiVersionsResponse
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.metadata import MetadataResponse

_HEAD = Struct(">hhih")
_CORRELATION = Struct(">i")
_SIZE = Struct(">i")
_ACKS = Struct(">h")

READ_REQUESTS = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
    }
)
"""Requests that are handed over: those of group members, and the one that names the client's software."""
_WITH_ADDRESSES = frozenset({ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER, ApiKey.API_VERSIONS})
_TRANSACTION = 1
"""Key type of a request for the coordinators of transactions."""
_PRODUCE_WITH_ADDRESSES = 10
"""First version of Produce whose response may name addresses of brokers (KIP-951)."""
_NO_THROTTLE_NO_TAGS = bytes(5)
"""End of a Produce response without addresses: throttle time 0 and no tagged fields.

One with addresses ends with the port of the last one, which is not 0, its rack and its tagged fields.
"""
_UNKNOWN_VERSION = (0x7FFF).to_bytes(2)
_MOST_PENDING = 10_000
"""Requests on one connection whose responses are read, and which are not answered yet."""
_LARGEST_READ = 1 << 20
"""Maximum size of a member's request that is read. A larger one passes; its member's heartbeats are not held."""
_LONGEST_HEAD = 70_000
"""Client ID and transactional ID have at most 32 kB each; more than that is no request."""


class Traffic:
    """Reader of one client connection."""

    __slots__ = ("_addresses", "_ends_sasl", "_names", "_of_transactions", "_pending", "groups_only")

    def __init__(self, addresses: Addresses, names: TopicNames | None = None, *, ends_sasl: bool = False) -> None:
        """Create a reader. `names` learns the names of topics, if they are of use."""
        self._ends_sasl = ends_sasl
        self._addresses = addresses
        self._names = names
        self._pending: dict[int, tuple[int, int]] = {}
        """API key and version of each request whose response is read, by correlation ID."""
        self._of_transactions: set[int] = set()
        """Correlation IDs of requests for coordinators of transactions."""
        self.groups_only = False
        """Whether the client gets the brokers' addresses for all but the coordinators of groups."""

    def decide_request(self, head: memoryview, size: int) -> Fate:
        """Return the fate of a request, and remember it if its response must be read. Raises BadStream."""
        if len(head) < _HEAD.size:
            if size < _HEAD.size:
                raise BadStream("a request is too short for its header")
            return Fate.UNDECIDED
        key, version, correlation, _ = _HEAD.unpack_from(head)
        if key == ApiKey.SASL_HANDSHAKE and version < FIRST_SASL_HANDSHAKE:
            raise BadStream(
                f"SaslHandshake {version} cannot pass a gateway, the client must support version 1 (KIP-152)"
            )
        if self.groups_only and (key == ApiKey.PRODUCE or key in WALKED):
            return Fate.PASS
        if key == ApiKey.PRODUCE:
            return self._decide_produce(head, size, version, correlation)
        if key in WALKED and version >= WALKED[key][0]:
            self._expect_walk(correlation, key, version)
        elif key in _WITH_ADDRESSES:
            self.expect(correlation, key, version)
            if key == ApiKey.FIND_COORDINATOR and self.groups_only and size <= _LARGEST_READ:
                return Fate.COLLECT
        return Fate.COLLECT if key in READ_REQUESTS and size <= _LARGEST_READ else Fate.PASS

    def expect_coordinators(self, correlation: int, request: FindCoordinatorRequest) -> None:
        """Note what a request for coordinators asks for, with `groups_only`."""
        if request.key_type == _TRANSACTION:
            self._of_transactions.add(correlation)

    def _decide_produce(self, head: memoryview, size: int, version: int, correlation: int) -> Fate:
        if version < _PRODUCE_WITH_ADDRESSES:
            return Fate.PASS
        acks = _acks(bytes(head[:_LONGEST_HEAD]))
        if acks is None:
            if len(head) < min(size, _LONGEST_HEAD):
                return Fate.UNDECIDED
            raise BadStream("a Produce request is too short or its header too long")
        if acks:
            self.expect(correlation, ApiKey.PRODUCE, version)
        return Fate.PASS

    def _expect_walk(self, correlation: int, key: int, version: int) -> None:
        first, last = WALKED[key]
        if version > last:
            raise BadStream(f"request {key} has version {version}: the gateway announces {first} to {last}")
        self._remember(correlation, key, version)

    def expect(self, correlation: int, key: int, version: int) -> None:
        """Read the response to this request. Raises BadStream if it cannot be read."""
        api = APIS[key]
        if key != ApiKey.API_VERSIONS and not api.min_version <= version <= api.max_version:
            raise BadStream(
                f"{api.name} {version} is not supported: the gateway announces {api.min_version} to {api.max_version}"
            )
        self._remember(correlation, key, version)

    def _remember(self, correlation: int, key: int, version: int) -> None:
        if correlation in self._pending:
            raise BadStream(f"two requests that wait for a response have the correlation ID {correlation}")
        if len(self._pending) >= _MOST_PENDING:
            raise BadStream(f"more than {_MOST_PENDING} requests wait for a response")
        self._pending[correlation] = key, version

    def awaits(self, correlation: int) -> bool:
        """Return whether the response to a request with this correlation ID is to be read."""
        return correlation in self._pending

    def decide_response(self, head: memoryview, size: int) -> Fate:
        """Return the fate of a response."""
        if len(head) < _CORRELATION.size:
            if size < _CORRELATION.size:
                raise BadStream("a response is too short for its header")
            return Fate.UNDECIDED
        (correlation,) = _CORRELATION.unpack_from(head)
        pending = self._pending.get(correlation)
        if pending is None:
            return Fate.PASS
        return Fate.WALK if pending[0] in WALKED else Fate.COLLECT

    def begin_walk(self, head: memoryview) -> Walk:
        """Return the reader of a response that passes but for its end."""
        (correlation,) = _CORRELATION.unpack_from(head)
        return Walk(*self._pending.pop(correlation))

    def end_walk(self, walk: AnyWalk, end: bytes) -> bytes:
        """Return the end of such a response, with the gateway's addresses. Raises BadStream."""
        assert isinstance(walk, Walk)
        return walk.rewritten(end, self._addresses.replaced)

    def response(self, frame: bytes) -> bytes:
        """Return what the client gets in place of a response that was collected, with its size. Raises BadStream."""
        (correlation,) = _CORRELATION.unpack_from(frame)
        key, version = self._pending[correlation]
        if key == ApiKey.PRODUCE and frame.endswith(_NO_THROTTLE_NO_TAGS):
            del self._pending[correlation]
            return _SIZE.pack(len(frame)) + frame
        if key == ApiKey.API_VERSIONS and _error_code(frame) == ErrorCode.UNSUPPORTED_VERSION:
            # KIP-511: in this case the response has version 0.
            version = 0
            self._pending[correlation] = key, version
        message = self.read(frame)
        if isinstance(message, ApiVersionsResponse):
            announce(message, ends_sasl=self._ends_sasl)
        else:
            if self._names is not None and isinstance(message, MetadataResponse):
                self._names.learn(message)
            if self._is_of_broker(correlation, message):
                self._addresses.learn(message)
                return _SIZE.pack(len(frame)) + frame
            self._addresses.rewrite(message)
        return response_frame(key, version, correlation, message)

    def _is_of_broker(self, correlation: int, response: Message) -> bool:
        """Return whether the client gets the brokers' addresses in a response."""
        if not self.groups_only:
            return False
        if not isinstance(response, FindCoordinatorResponse):
            return True
        is_of_transactions = correlation in self._of_transactions
        self._of_transactions.discard(correlation)
        return is_of_transactions

    def read(self, frame: bytes) -> Message:
        """Return a response that was collected. Raises BadStream."""
        (correlation,) = _CORRELATION.unpack_from(frame)
        key, version = self._pending.pop(correlation)
        try:
            _, position = read_response_header(frame, key, version)
            message: Message = decoder(APIS[key].response, version)(frame, position)[0]
        except DecodeError as problem:
            raise BadStream(f"the response to {APIS[key].name} {version} cannot be read: {problem}") from problem
        return message


def fetch_of(head: memoryview) -> int | None:
    """Return the correlation ID of a request whose header begins so, if it is a Fetch."""
    key, _, correlation, _ = _HEAD.unpack_from(head)
    return correlation if key == ApiKey.FETCH else None


def is_readable(size: int) -> bool:
    """Return whether a request of that size can be read."""
    return size <= _LARGEST_READ


def client_id_of(head: memoryview) -> str | None:
    """Return the client ID of a request, which is empty for null; None if more bytes are needed."""
    if len(head) < _HEAD.size:
        return None
    end = _HEAD.size + max(_HEAD.unpack_from(head)[-1], 0)
    return bytes(head[_HEAD.size : end]).decode("utf-8", "surrogateescape") if len(head) >= end else None


def correlation_of(response: bytes | memoryview) -> int:
    """Return the correlation ID of a response."""
    correlation: int = _CORRELATION.unpack_from(response)[0]
    return correlation


def read_request(frame: bytes) -> tuple[RequestHeader, Message | None]:
    """Return a request that was collected; None for the body if its version is not supported. Raises BadStream."""
    try:
        header = read_request_header(frame)
        api = APIS[header.api_key]
        if not api.min_version <= header.api_version <= api.max_version:
            return header, None
        message: Message = decoder(api.request, header.api_version)(frame, header.body)[0]
    except DecodeError as problem:
        raise BadStream(f"a request cannot be read: {problem}") from problem
    return header, message


def with_unknown_version(frame: bytes) -> bytes:
    """Return a request with a version that no broker knows."""
    return frame[:2] + _UNKNOWN_VERSION + frame[4:]


def request_frame(key: int, version: int, correlation: int, client_id: str | None, message: Message) -> bytes:
    """Encode a request, with its size."""
    frame = request_header(key, version, correlation, client_id) + encode(message, version)
    return _SIZE.pack(len(frame)) + frame


def response_frame(key: int, version: int, correlation: int, message: Message) -> bytes:
    """Encode a response, with its size."""
    frame = response_header(key, version, correlation) + encode(message, version)
    return _SIZE.pack(len(frame)) + frame


def _error_code(frame: bytes) -> int:
    return int.from_bytes(frame[4:6], "big", signed=True)


def _acks(head: bytes) -> int | None:
    """Return the field acks of a Produce request with a flexible header; None if more bytes are needed."""
    try:
        _, _, _, length = _HEAD.unpack_from(head)
        position = skip_tags(head, _HEAD.size + max(length, 0))
        transactional, position = read_varint(head, position)
        (acks,) = _ACKS.unpack_from(head, position + max(transactional - 1, 0))
    except (StructError, IndexError):
        return None
    except DecodeError as problem:
        raise BadStream(f"the header of a Produce request cannot be read: {problem}") from problem
    return int(acks)
