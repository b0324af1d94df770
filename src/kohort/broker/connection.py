"""One client connection: frames in, answers out in the order of the requests, bounded in what it holds.

Small frames are cut out of a buffer that all connections share (reading is synchronous, so it is free again when
`buffer_updated` returns); a frame larger than that is received straight into its own.
"""

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from kohort.broker.file_sending import FileSending, has_file, in_memory, socket_of
from kohort.broker.repeats import Repeat
from kohort.coordinator import ClientKind
from kohort.wire.codec import Buffer, DecodeError

if TYPE_CHECKING:
    from kohort.broker.call import Call

log = logging.getLogger("kohort.broker")

_READ_SIZE = 1 << 16  # larger reads cost an mmap and its page faults each
_FIRST_ROOM = 1 << 17  # of a large frame; it doubles as the frame arrives
_MOST_ROOM = 1 << 21  # at once, for who has sent as much before
_MOST_HELD = 1 << 20  # bytes of large answers that may wait here before requests do
_SLOW_READER, _SLOW_READER_OF_FILES = "slow reader", "slow reader of files"
_UNREAD = {_SLOW_READER, _SLOW_READER_OF_FILES}
_shared = bytearray(_READ_SIZE)
_shared_view = memoryview(_shared)
_frame_size = struct.Struct(">i").unpack_from


class BadFrame(Exception):
    """The peer does not speak Kafka, or not correctly: its connection is closed and the reason logged."""


class Connection(asyncio.BufferedProtocol):
    """The transport's protocol. `dispatch(connection, frame)` handles one request and creates its `Call`.

    `half_read` is called when a request begins to arrive that is not complete: see `mid_frame_since`.
    """

    def __init__(
        self,
        dispatch: Callable[["Connection", bytes], None],
        opened: Callable[["Connection"], None],
        closed: Callable[["Connection"], None],
        flushes: "FlushQueue",
        half_read: Callable[["Connection"], None],
        *,
        max_frame: int,
        max_waiting: int,
    ) -> None:
        self._dispatch = dispatch
        self._opened = opened
        self._closed = closed
        self._flushes = flushes
        self._half_read = half_read
        self._max_frame = max_frame
        self._max_waiting = max_waiting
        self._waiting: deque[Call] = deque()
        self._rest = b""
        self._frame: bytearray | None = None
        """A large frame on its way in, the room for it so far; then its whole size and how much of it is here."""
        self._size = 0
        self._filled = 0
        self._room = _FIRST_ROOM
        """What a large frame gets at once: as much as one that came whole before. A quarter of a produce is saved."""
        self._out: list[Buffer] = []
        self._corked = False
        self._held = 0
        """Bytes of large answers that the transport does not have yet; of these, `_leaving` are in `_out`."""
        self._leaving = 0
        self._files: FileSending | None = None
        """Made for the first answer with records that lie in files."""
        self._paused_for: set[str] = set()
        self.transport: asyncio.Transport | None = None
        self.peer = ""
        self.host = ""
        self.client_id = ""
        self.client_id_bytes = b""
        self.client = ClientKind.OTHER
        self.may_wait: Call | None = None
        """The last heartbeat, which may be held until there is news; see `Dispatch._release`."""
        self.members: dict[str, str] = {}
        """The members that were last heard of here, by member id, and their groups."""
        self.growths_seen = 0
        """How many topics had got more partitions when the peer was told last; see `Growths`."""
        self.speaks_for_many = False
        """Several members send their heartbeats here: holding one would hold up the others."""
        self.last_heartbeat: Repeat | None = None
        """It is likely to be repeated."""
        self._is_busy = False
        """Bytes were received or sent since somebody asked. To ask for the time at each of them would cost more."""
        self._busy_at = flushes.loop.time()
        self.mid_frame_since: float | None = None
        """Loop time at which a request began to arrive that is not complete yet."""

    @property
    def who(self) -> tuple[str, str]:
        """What its client calls itself, and where: connections of one client have this in common."""
        return self.host, self.client_id

    # The transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        # None: the peer reset the connection before it was accepted; connection_lost follows.
        address = transport.get_extra_info("peername") or ("unknown", 0)
        self.host, self.peer = f"/{address[0]}", f"{address[0]}:{address[1]}"
        self._opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self._files is not None:
            self._files.close()
            self._files = None
        waiting, self._waiting = self._waiting, deque()
        self._out.clear()
        for call in waiting:
            call.abandon()
        self._closed(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            if self._filled == len(self._frame):
                self._frame.extend(bytes(min(len(self._frame), self._size - self._filled)))
            return memoryview(self._frame)[self._filled :]
        return _shared_view

    def buffer_updated(self, nbytes: int) -> None:
        self._corked = True
        try:
            if self._frame is not None:
                self._fill(nbytes)
            else:
                self._cut(self._rest + _shared_view[:nbytes] if self._rest else bytes(_shared_view[:nbytes]))
        except (BadFrame, DecodeError) as error:
            self.refuse(str(error))
        self._corked = False
        self._is_busy = True
        if self._paused_for or (self._frame is None and not self._rest):
            self.mid_frame_since = None
        elif self.mid_frame_since is None:
            self._wait_for_rest()
        if self._out:
            # Not at once: answers written back to back find their peer awake, and waking it costs more than they do.
            self._flushes.add(self)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._pause(_SLOW_READER)

    def resume_writing(self) -> None:
        self._is_busy = True
        self._resume(_SLOW_READER)

    # Framing

    def _fill(self, nbytes: int) -> None:
        assert self._frame is not None
        self._filled += nbytes
        if self._filled == self._size:
            frame, self._frame = self._frame, None
            self._room = max(self._room, min(self._size, _MOST_ROOM))
            # The codec reads a bytearray as it reads bytes, and the log may write a batch's place into it.
            self._handle(cast("bytes", frame))

    def _cut(self, data: bytes) -> None:
        position, end = 0, len(data)
        while end - position >= 4 and not self._paused_for:
            (size,) = _frame_size(data, position)
            if not 0 <= size <= self._max_frame:
                raise BadFrame(
                    f"a request of {size} bytes is outside 0 to {self._max_frame} (socket.request.max.bytes)"
                )
            if end - position - 4 < size:
                if size > _READ_SIZE:
                    self._begin_frame(data, position + 4, size)
                    return
                break
            position += 4
            self._handle(data[position : position + size])
            position += size
            if self.transport is None:
                return
        self._rest = data[position:] if position < end else b""

    def _handle(self, frame: bytes) -> None:
        self._dispatch(self, frame)
        if self._held > _MOST_HELD:
            # 64 KiB of requests can ask for gigabytes: what is ready leaves now, and the transport says if it cannot.
            self.flush()
            if self._held > _MOST_HELD:
                self._pause("answers behind one that is not ready")

    def _handle_rest(self) -> None:
        """Go on with requests that were read before the connection was paused."""
        if self._rest and self._frame is None and not self._paused_for and self.transport is not None:
            self.buffer_updated(0)

    def _begin_frame(self, data: bytes, position: int, size: int) -> None:
        # A bytearray's zeros are written, so it is resident at once: a size that is only claimed must not make one.
        self._frame = bytearray(min(size, self._room))
        self._size = size
        self._filled = len(data) - position
        self._frame[: self._filled] = memoryview(data)[position:]
        self._rest = b""

    def _wait_for_rest(self) -> None:
        self.mid_frame_since = self._flushes.loop.time()
        self._half_read(self)

    @property
    def waiting(self) -> int:
        """How many requests have no answer yet."""
        return len(self._waiting)

    @property
    def sending_files(self) -> bool:
        """Whether records wait in files until the peer takes more."""
        return self._files is not None and self._files.waiting

    # Answers

    def place(self, call: "Call") -> None:
        """Send the call's answer, or give the call its place behind those that are not answered yet."""
        if call.answer is not None and not self._waiting:
            self._send(call.answer)
            return
        call.queued = True
        self._waiting.append(call)
        if len(self._waiting) > self._max_waiting:
            self._pause("too many requests")

    def advance(self) -> None:
        """Send every answer that is ready and has none in front of it that is not."""
        waiting = self._waiting
        while waiting and (answer := waiting[0].answer) is not None:
            waiting.popleft()
            self._send(answer)
        if self._paused_for and len(waiting) <= self._max_waiting // 2:
            self._resume("too many requests")
        if self._out and not self._corked:
            self._flushes.add(self)

    def _send(self, answer: list[Buffer]) -> None:
        self._out += answer
        if len(answer) > 1:
            self._leaving += sum(map(len, answer))

    def hold(self, size: int) -> None:
        """A large answer of so many bytes is ready; it counts until the transport has it."""
        self._held += size

    def flush(self) -> None:
        """Hand the transport what is ready, in one write; what lies in files goes past it."""
        out, self._out = self._out, []
        large = self._leaving > 0
        if large:
            self._held -= self._leaving
            self._leaving = 0
            if self._held <= _MOST_HELD:
                self._resume("answers behind one that is not ready")
        if self.transport is None:
            return
        if out:
            self._is_busy = True
        if self._files is not None and self._files.waiting:
            self._files.send(out)
        elif large and has_file(out):
            self._send_files(self.transport, out)
        elif len(out) == 1:
            self.transport.write(out[0])
        elif out:
            self.transport.writelines(out)

    def _send_files(self, transport: asyncio.Transport, out: list[Buffer]) -> None:
        shared = socket_of(transport)
        try:
            if shared is None:
                transport.writelines(in_memory(out))
                return
            if self._files is None:
                self._files = FileSending(self._flushes.loop, shared, self._files_sent)
            self._files.send(out)
        except OSError as error:
            self._broken(error)
        else:
            if self._files.waiting:
                self._pause(_SLOW_READER_OF_FILES)

    def _files_sent(self, error: OSError | None) -> None:
        self._is_busy = True
        if error is not None:
            self._broken(error)
        self._resume(_SLOW_READER_OF_FILES)

    def _broken(self, error: OSError) -> None:
        """An answer has left in part and can never be whole."""
        if self.transport is not None:
            log.info("closing connection peer=%s reason=%s", self.peer, error)
            self.transport.abort()

    # Ends and pauses

    def refuse(self, reason: str) -> None:
        """Close without an answer and say why, once."""
        if self.transport is not None:
            log.warning("closing connection peer=%s reason=%s", self.peer, reason)
            self.close()

    def close(self) -> None:
        """Send what is ready, then close."""
        if self._out:
            self.flush()
        if self.transport is not None:
            transport, self.transport = self.transport, None
            if self._files is not None and self._files.waiting:
                transport.abort()  # it would not know when the rest has left
            else:
                transport.close()

    def is_idle(self, seconds: float, now: float) -> bool:
        """Whether nothing was received or sent for so long: it is too late by the time since it was asked last."""
        if self._is_busy:
            self._is_busy = False
            self._busy_at = now
        return now - self._busy_at > seconds

    def expire(self) -> None:
        """Close a connection that was silent for too long. What its peer has not read by now it never will."""
        if self._paused_for & _UNREAD and self.transport is not None:
            transport, self.transport = self.transport, None
            transport.abort()
        else:
            self.close()

    def throttle(self) -> None:
        """Stop reading until `unthrottle`: the log has too much to write."""
        self._pause("full log queue")

    def unthrottle(self) -> None:
        """Read again."""
        self._resume("full log queue")

    def _pause(self, why: str) -> None:
        if not self._paused_for and self.transport is not None:
            self.transport.pause_reading()
            self.mid_frame_since = None  # the rest of a frame is late because of us
        self._paused_for.add(why)

    def _resume(self, why: str) -> None:
        if why in self._paused_for:
            self._paused_for.discard(why)
            if not self._paused_for and self.transport is not None:
                self.transport.resume_reading()
                if self._frame is not None:
                    self._wait_for_rest()
                elif self._rest:
                    self._flushes.loop.call_soon(self._handle_rest)


class FlushQueue:
    """Connections with answers that are ready: each is written once per loop turn, when all that was read is handled.

    A sync that completes 400 commits of 100 connections costs 100 writes. In the order in which they became ready: a
    simulation of the same seed must write the same.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._connections: dict[Connection, None] = {}

    def add(self, connection: Connection) -> None:
        """Flush it before the loop waits again."""
        if not self._connections:
            self.loop.call_soon(self.run)
        self._connections[connection] = None

    def run(self) -> None:
        """Flush them now."""
        connections, self._connections = self._connections, {}
        for connection in connections:
            connection.flush()
