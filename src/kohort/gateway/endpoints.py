"""Addresses of brokers at the end of a response with records (KIP-951), which passes in pieces. Pure.

A response to Fetch may have 50 MB, and the addresses of new leaders follow the records. A `Walk`
finds where they begin, and skips the records unread. The size of the response has left by then, so
the new addresses get exactly the room of the former ones. A tagged field that clients skip, as all
that they do not know, fills the rest. If the new addresses are longer, none are given: clients then
ask for metadata, as they do without KIP-951.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError

from kohort.gateway.framing import BadStream
from kohort.wire.codec import DecodeError, read_varint

FETCH, SHARE_FETCH, SHARE_ACKNOWLEDGE = 1, 78, 79

WALKED: Mapping[int, tuple[int, int]] = {FETCH: (16, 18), SHARE_FETCH: (1, 2), SHARE_ACKNOWLEDGE: (1, 2)}
"""Versions of responses that end with addresses, by API key."""

Steps = Generator[int, bytes, None]
"""Yields the number of bytes that it needs, and receives them; a negative number of bytes is skipped."""

Learn = Callable[[int, str, int], tuple[str, int] | None]
"""Returns host and port in place of a broker's node ID, host and port; None if this broker is not to be named."""

_INT32 = Struct(">i")
_TAGS_OF_PADDING = (100, 200)
"""Numbers of a tagged field that nobody knows. The second one needs two bytes."""
_NODE_ENDPOINTS = 0
"""Number of the tagged field with addresses in a response to Fetch."""


class Walk:
    """One response, from its correlation ID on."""

    __slots__ = ("_have", "_is_fetch", "_skip", "_steps", "_wanted", "is_done")

    def __init__(self, key: int, version: int) -> None:
        """Begin with the first byte of the frame. The version is one of `WALKED`."""
        self._is_fetch = key == FETCH
        self._steps = _LAYOUTS[key](version)
        self._have = b""
        self._wanted, self._skip = next(self._steps), 0
        self.is_done = False
        """Whether the rest of the frame has the addresses."""

    def feed(self, data: memoryview) -> int:
        """Take the next bytes. Return how many of them are before the addresses. Raises BadStream."""
        position, end = 0, len(data)
        while True:
            if self._skip:
                skipped = min(self._skip, end - position)
                position += skipped
                self._skip -= skipped
                if self._skip:
                    return end
            missing = self._wanted - len(self._have)
            if end - position < missing:
                self._have += data[position:]
                return end
            found = self._have + data[position : position + missing]
            position += missing
            self._have = b""
            try:
                step = self._steps.send(found)
            except StopIteration:
                self.is_done = True
                return position
            self._wanted, self._skip = (0, -step) if step < 0 else (step, 0)

    def rewritten(self, tail: bytes, learn: Learn) -> bytes:
        """Return as many bytes with other addresses. Raises BadStream."""
        if tail in (b"\0", b"\1\0"):
            return tail  # none, and by far the most frequent
        try:
            return _fetch_tail(tail, learn) if self._is_fetch else _share_tail(tail, learn)
        except (DecodeError, IndexError, StructError, UnicodeDecodeError) as problem:
            raise BadStream(f"the addresses at the end of a response cannot be read: {problem}") from problem


# Where the addresses begin


def _varint() -> Generator[int, bytes, int]:
    value = shift = 0
    while True:
        (byte,) = yield 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
        if shift > 28:
            raise BadStream("a response has a number that is too long")


def _skipped(size: int) -> Steps:
    if size > 0:
        yield -size


def _tags() -> Steps:
    for _ in range((yield from _varint())):
        yield from _varint()
        yield from _skipped((yield from _varint()))


def _text() -> Steps:
    yield from _skipped((yield from _varint()) - 1)


def _header() -> Steps:
    yield 4  # correlation ID
    yield from _tags()


def _topics(partition: Callable[[], Steps]) -> Steps:
    for _ in range((yield from _varint()) - 1):
        yield 16  # topic ID
        for _ in range((yield from _varint()) - 1):
            yield from partition()
            yield from _tags()
        yield from _tags()


def _fetch(version: int) -> Steps:
    yield from _header()
    yield 10  # throttle time, error code, session ID
    yield from _topics(_fetch_partition)


def _fetch_partition() -> Steps:
    yield 30  # index, error code, high watermark, last stable offset, log start offset
    for _ in range((yield from _varint()) - 1):  # aborted transactions
        yield 16
        yield from _tags()
    yield 4  # preferred read replica
    yield from _text()  # records


def _share_fetch(version: int) -> Steps:
    yield from _header()
    yield 6  # throttle time, error code
    yield from _text()
    yield 4  # acquisition lock timeout
    yield from _topics(_share_partition)


def _share_partition() -> Steps:
    yield 6  # index, error code
    yield from _text()
    yield 2  # error code of the acknowledgement
    yield from _text()
    yield 8  # current leader
    yield from _tags()
    yield from _text()  # records
    for _ in range((yield from _varint()) - 1):  # acquired records
        yield 18
        yield from _tags()


def _share_acknowledge(version: int) -> Steps:
    yield from _header()
    yield 6
    yield from _text()
    if version >= 2:
        yield 4  # acquisition lock timeout
    yield from _topics(_acknowledged_partition)


def _acknowledged_partition() -> Steps:
    yield 6
    yield from _text()
    yield 8  # current leader
    yield from _tags()


_LAYOUTS: Mapping[int, Callable[[int], Steps]] = {
    FETCH: _fetch,
    SHARE_FETCH: _share_fetch,
    SHARE_ACKNOWLEDGE: _share_acknowledge,
}


# The addresses


@dataclass(frozen=True, slots=True)
class _Endpoint:
    node_id: int
    host: str
    port: int
    rest: bytes
    """Rack and tagged fields, as they are."""


def _fetch_tail(tail: bytes, learn: Learn) -> bytes:
    tags = _read_tags(tail, 0)
    if _NODE_ENDPOINTS not in tags:
        return tail
    found, _ = _read_endpoints(tags[_NODE_ENDPOINTS], 0)
    others = {tag: data for tag, data in tags.items() if tag != _NODE_ENDPOINTS}
    ours = {_NODE_ENDPOINTS: _write_endpoints(found, learn), **others}
    return _padded(b"", ours, len(tail)) or _without(b"", others, len(tail))


def _share_tail(tail: bytes, learn: Learn) -> bytes:
    found, position = _read_endpoints(tail, 0)
    tags = _read_tags(tail, position)
    ours = _write_endpoints(found, learn)
    return _padded(ours, tags, len(tail)) or _without(b"\1", tags, len(tail))


def _without(start: bytes, tags: Mapping[int, bytes], size: int) -> bytes:
    made = _padded(start, tags, size)
    if made is None:  # one address has more bytes than the smallest field, if it is encoded as Kafka does
        raise BadStream("a response ends with more or fewer bytes than its fields")
    return made


def _read_tags(data: bytes, position: int) -> dict[int, bytes]:
    count, position = read_varint(data, position)
    tags = {}
    for _ in range(count):
        tag, position = read_varint(data, position)
        size, position = read_varint(data, position)
        tags[tag] = data[position : position + size]
        position += size
    return tags


def _read_endpoints(data: bytes, position: int) -> tuple[list[_Endpoint], int]:
    found = []
    count, position = read_varint(data, position)
    for _ in range(count - 1):
        (node_id,) = _INT32.unpack_from(data, position)
        size, position = read_varint(data, position + 4)
        host, position = data[position : position + size - 1].decode(), position + size - 1
        (port,) = _INT32.unpack_from(data, position)
        rest = position = position + 4
        size, position = read_varint(data, position)
        position += max(size - 1, 0)
        for _ in range(data[position]):
            _, position = read_varint(data, position + 1)
            size, position = read_varint(data, position)
            position += size - 1
        position += 1
        found.append(_Endpoint(node_id, host, port, data[rest:position]))
    return found, position


def _write_endpoints(found: list[_Endpoint], learn: Learn) -> bytes:
    named = [(each, place) for each in found if (place := learn(each.node_id, each.host, each.port)) is not None]
    out = bytearray(_write_varint(len(named) + 1))
    for each, (host, port) in named:
        encoded = host.encode()
        out += _INT32.pack(each.node_id) + _write_varint(len(encoded) + 1) + encoded + _INT32.pack(port) + each.rest
    return bytes(out)


def _padded(start: bytes, tags: Mapping[int, bytes], size: int) -> bytes | None:
    """Return `start` and the tagged fields, filled to this size; None if that is impossible."""
    plain = start + _write_tags(tags)
    if len(plain) == size:
        return plain
    for tag in _TAGS_OF_PADDING:
        for length in range(max(size - len(plain) - 5, 0), max(size - len(plain), 0)):
            made = start + _write_tags({**tags, tag: bytes(length)})
            if len(made) == size:
                return made
    return None


def _write_tags(tags: Mapping[int, bytes]) -> bytes:
    out = bytearray(_write_varint(len(tags)))
    for tag, data in sorted(tags.items()):
        out += _write_varint(tag) + _write_varint(len(data)) + data
    return bytes(out)


def _write_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
