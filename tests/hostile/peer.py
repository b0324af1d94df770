"""A peer that writes its bytes by hand: what a library would never send must not depend on our own codec."""

from __future__ import annotations

import contextlib
import socket
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import crc32c

from kohort.wire.messages.api_key import ApiKey
from tests.interop.process import until

API_VERSIONS = ApiKey.API_VERSIONS
CREATE_TOPICS = ApiKey.CREATE_TOPICS
FETCH = ApiKey.FETCH
HEARTBEAT = ApiKey.HEARTBEAT
JOIN_GROUP = ApiKey.JOIN_GROUP
LIST_OFFSETS = ApiKey.LIST_OFFSETS
METADATA = ApiKey.METADATA
PRODUCE = ApiKey.PRODUCE


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def compact(text: str) -> bytes:
    assert len(text) < 127
    return bytes([len(text) + 1]) + text.encode()


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def request(key: int, version: int, body: bytes = b"", *, correlation_id: int = 1, flexible: bool = False) -> bytes:
    """A whole request: its size, its header (v1, or v2 when flexible), its body."""
    header = struct.pack(">hhi", key, version, correlation_id) + string("hostile") + (b"\0" if flexible else b"")
    return frame(header + body)


class Peer:
    """A blocking connection to a broker; whatever takes longer than `timeout` fails the test."""

    def __init__(self, bootstrap: str, timeout: float = 30.0) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    @property
    def port(self) -> int:
        """Ours: the broker's log names the peer by it."""
        return int(self.socket.getsockname()[1])

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> tuple[int, bytes]:
        """The next answer's correlation id and what follows it."""
        (size,) = struct.unpack(">i", self._exactly(4))
        data = self._exactly(size)
        return int.from_bytes(data[:4], "big"), data[4:]

    def ask(self, key: int, version: int, body: bytes = b"", *, flexible: bool = False) -> bytes:
        self.send(request(key, version, body, correlation_id=77, flexible=flexible))
        correlation_id, rest = self.answer()
        assert correlation_id == 77
        return rest

    def is_closed(self) -> bool:
        """Wait for the broker's end of the connection; False when it sends something instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def ping(self) -> None:
        """A request that every broker answers at once."""
        (error,) = struct.unpack_from(">h", self.ask(API_VERSIONS, 0))
        assert error == 0

    def create_topic(self, name: str, partitions: int = 1) -> None:
        body = struct.pack(">i", 1) + string(name) + struct.pack(">ihiii", partitions, 1, 0, 0, 10_000) + b"\0"
        rest = self.ask(CREATE_TOPICS, 4, body)
        (error,) = struct.unpack_from(">h", rest, 4 + 4 + 2 + len(name))
        assert error == 0
        # Apache Kafka's controller answers before its broker leads the partitions.
        until(30.0, "the new topic has leaders", lambda: self._list_offsets(name)[0] == 0)

    def produce(self, topic: str, records: bytes | None, *, acks: int = -1) -> tuple[int, int]:
        """Produce v3 to partition 0; its error code and base offset."""
        size = struct.pack(">i", -1 if records is None else len(records))
        body = struct.pack(">hhii", -1, acks, 10_000, 1) + string(topic) + struct.pack(">ii", 1, 0)
        rest = self.ask(PRODUCE, 3, body + size + (records or b""))
        error, base_offset = struct.unpack_from(">hq", rest, 4 + 2 + len(topic) + 4 + 4)
        return error, base_offset

    def log_end(self, topic: str) -> int:
        """Return the offset of partition 0's next record."""
        error, offset = self._list_offsets(topic)
        assert error == 0
        return offset

    def _list_offsets(self, topic: str) -> tuple[int, int]:
        body = struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">iiq", 1, 0, -1)
        error, _, offset = struct.unpack_from(">hqq", self.ask(LIST_OFFSETS, 1, body), 4 + 2 + len(topic) + 4 + 4)
        return int(error), int(offset)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            got = self.socket.recv(min(size - len(data), 1 << 16))
            assert got, "the broker closed the connection"
            data += got
        return bytes(data)


def open_sockets(pid: int) -> int:
    """How many a process has."""
    count = 0
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            count += str(descriptor.readlink()).startswith("socket:")
    return count


def fetch(topic: str, max_bytes: int, *, correlation_id: int = 1) -> bytes:
    """Fetch v4 of partition 0 from its beginning."""
    body = struct.pack(">iiiibi", -1, 100, 1, max_bytes, 0, 1) + string(topic)
    return request(FETCH, 4, body + struct.pack(">iiqi", 1, 0, 0, max_bytes), correlation_id=correlation_id)


@dataclass(frozen=True, slots=True)
class Batch:
    """A record batch v2 whose header may say what it likes; its CRC is right unless `crc` says otherwise."""

    values: Iterable[bytes] = (b"one", b"two")
    attributes: int = 0
    magic: int = 2
    crc: int | None = None
    count: int | None = None
    last_offset_delta: int | None = None
    length: int | None = None
    base_sequence: int = -1

    def __bytes__(self) -> bytes:
        records = [record(delta, value) for delta, value in enumerate(self.values)]
        count = len(records) if self.count is None else self.count
        last = len(records) - 1 if self.last_offset_delta is None else self.last_offset_delta
        checked = struct.pack(">hiqqqhii", self.attributes, last, 0, 0, -1, -1, self.base_sequence, count)
        checked += b"".join(records)
        crc = crc32c.crc32c(checked) if self.crc is None else self.crc
        length = 4 + 1 + 4 + len(checked) if self.length is None else self.length
        return struct.pack(">qiibI", 0, length, -1, self.magic, crc) + checked


def record(offset_delta: int, value: bytes) -> bytes:
    body = b"\0\0" + _varint(offset_delta) + _varint(-1) + _varint(len(value)) + value + b"\0"
    return _varint(len(body)) + body


def old_message(magic: int, value: bytes) -> bytes:
    """A message set of one message in the format before record batches (magic 0 or 1), its CRC right."""
    checked = struct.pack(">bb", magic, 0) + (struct.pack(">q", 0) if magic else b"")
    checked += struct.pack(">ii", -1, len(value)) + value
    message = struct.pack(">I", zlib.crc32(checked)) + checked
    return struct.pack(">qi", 0, len(message)) + message


def _varint(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 31)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
