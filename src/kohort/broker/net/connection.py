"""One client connection: it reads frames and sends answers in the order of the requests, within memory limits.

Small frames are cut out of a buffer that all connections share. Reading is synchronous, so the buffer is free again
when `buffer_updated` returns. A frame larger than that buffer is received directly into its own.
"""

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Callable
from typing import Protocol, cast

from kohort.broker.net.flushes import FlushQueue
from kohort.broker.net.large_frame import FIRST_ROOM, LargeFrame
from kohort.broker.net.outbox import Outbox
from kohort.broker.net.repeated_commits import RepeatedCommits
from kohort.broker.net.repeated_heartbeats import LARGEST, RepeatedHeartbeat
from kohort.broker.net.route import Route
from kohort.coordinator import ClientKind
from kohort.security import ANONYMOUS
from kohort.wire.codec import Buffer, DecodeError, Message
from kohort.wire.messages.fetch import FetchRequest

log = logging.getLogger("kohort.broker")

_READ_SIZE = 1 << 16  # a larger read buffer costs an mmap and its page faults per read
_MOST_HELD = 1 << 20  # bytes of large answers that may wait here before reading pauses
FEW_MEMBERS = 16
_RESET, _OTHERS_TURN = "connection that is reset", "turn of others"
_HELD_ANSWERS = "answers behind one that is not ready"
UNKNOWN_SOFTWARE = ("unknown", "unknown")
"""What Kafka says of a client that does not name its library."""
_SLOW_READER, _SLOW_READER_OF_FILES = "slow reader", "slow reader of files"
_UNREAD = {_SLOW_READER, _SLOW_READER_OF_FILES}
_QUOTA = "quota exceeded"
_LINGER_S = 30.0
"""Time within which the peer of a closed connection must take the last answers, as asyncio's TLS has it."""
_shared = bytearray(_READ_SIZE)
_shared_view = memoryview(_shared)
_frame_size = struct.Struct(">i").unpack_from


class BadFrame(Exception):
    """The peer does not follow the Kafka protocol; its connection is closed and the reason logged."""


class PendingAnswer(Protocol):
    """A request of this connection and its answer, which is None until it is ready; see `Call`."""

    answer: list[Buffer] | None
    queued: bool
    request: Message

    @property
    def open(self) -> bool: ...

    def wait(self) -> None: ...

    def abandon(self) -> None: ...

    def __hash__(self) -> int: ...


class Gate(Protocol):
    """Decides which requests of a connection are handled; see `Authentication`."""

    def intercept(self, frame: bytes) -> bool:
        """Return whether the frame is no request, and has been handled. Raise BadFrame to close the connection."""
        ...


class ClientConnection(asyncio.BufferedProtocol):
    """The protocol of the transport. `dispatch(connection, frame)` handles one request and creates its `Call`.

    `half_read` is called when an incomplete request begins to arrive; see `mid_frame_since`.
    """

    def __init__(
        self,
        dispatch: Callable[["ClientConnection", bytes], None],
        opened: Callable[["ClientConnection"], None],
        closed: Callable[["ClientConnection"], None],
        flushes: FlushQueue,
        half_read: Callable[["ClientConnection"], None],
        *,
        max_frame: int,
        max_waiting: int,
    ) -> None:
        self._dispatch = dispatch
        self._opened = opened
        self._closed = closed
        self._flushes = flushes
        self._incomplete_requests = half_read
        self.max_frame = max_frame
        """Maximum size of a request, which is smaller until the client is authenticated."""
        self._max_waiting = max_waiting
        self._waiting: deque[PendingAnswer] = deque()
        self._rest = b""
        self._frame: LargeFrame | None = None
        self._room = FIRST_ROOM
        """Initial buffer size of a large frame: the size of the largest so far. This saves a quarter of a produce."""
        self._outbox = Outbox(flushes.loop, self._files_sent)
        self._paused_for: set[str] = set()
        self._ending: asyncio.Transport | None = None
        """The transport after `close`, until the peer has taken the last answers and the end of the encryption."""
        self.transport: asyncio.Transport | None = None
        self.peer = ""
        self.host = ""
        self.listener = ""
        """Name of the listener on which the client connected."""
        self.accepted_as = 0
        """Place in the order in which the broker accepted its connections."""
        self.principal = ANONYMOUS
        self.gate: Gate | None = None
        """None if any request is handled, as without SASL."""
        self.client_id = ""
        self.client_id_bytes = b""
        self.client = ClientKind.OTHER
        self.software = UNKNOWN_SOFTWARE
        """Name and version of the client's library (KIP-511)."""
        self.held_heartbeat: PendingAnswer | None = None
        """The last heartbeat, which may be held until there is news; see `Dispatch._release`."""
        self.members: dict[str, str] = {}
        """Members that last used this connection: member ID to group ID."""
        self.awaited_answer = False
        """Whether the client waited for the answer to a heartbeat or a fetch when the connection closed."""
        self.check_members_at = FEW_MEMBERS
        """Number of members at which `MemberConnections` checks which of them have left."""
        self.new_partitions_seen = 0
        """Value of `NewPartitions.count` when the peer was last told of topics with more partitions."""
        self.has_many_members = False
        """Whether several members send their heartbeats here: holding one would delay the others."""
        self.last_heartbeat: RepeatedHeartbeat | None = None
        """The last heartbeat, which is likely to be repeated."""
        self.commits: RepeatedCommits | None = None
        """The shape of the last commits, which is likely to be repeated; None before the first."""
        self._unmute: asyncio.TimerHandle | None = None
        """Set while the client must pause because of a quota, until `_muted_until`."""
        self._muted_until = 0.0
        self._is_busy = False
        """Whether bytes were received or sent since the last `is_idle`. Reading the clock for each would cost more."""
        self._busy_at = flushes.loop.time()
        self.mid_frame_since: float | None = None
        """Loop time at which a request that is still incomplete began to arrive."""

    @property
    def who(self) -> tuple[str, str]:
        """Host and client ID, which all connections of one client have in common."""
        return self.host, self.client_id

    def check_members_later(self) -> None:
        """Set `check_members_at` to twice their number: checking all of them for each new member is quadratic."""
        self.check_members_at = max(FEW_MEMBERS, 2 * len(self.members))

    def remember(self, route: Route, frame: bytes, request: Message) -> None:
        """Remember a heartbeat, which is likely to be repeated, unless it is unusually large."""
        if len(frame) <= LARGEST:
            self.last_heartbeat = RepeatedHeartbeat(route, frame[8:], request)

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        # None: the peer reset the connection before it was accepted, and connection_lost follows.
        address = transport.get_extra_info("peername") or ("unknown", 0)
        self.host, self.peer = f"/{address[0]}", f"{address[0]}:{address[1]}"
        self._opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.awaited_answer = any(
            call.open and (call is self.held_heartbeat or isinstance(call.request, FetchRequest))
            for call in self._waiting
        )
        self.transport = self._ending = None
        self._outbox.close()
        if self._unmute is not None:
            self._unmute.cancel()
        waiting, self._waiting = self._waiting, deque()
        for call in waiting:
            call.abandon()
        self._closed(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _shared_view if self._frame is None else self._frame.rest

    def buffer_updated(self, nbytes: int) -> None:
        if self.transport is None:
            return  # closed: TLS passes on what it had received before that, also from a client that is refused
        try:
            if self._frame is not None:
                self._fill(self._frame, nbytes)
            else:
                self._cut(self._rest + _shared_view[:nbytes] if self._rest else bytes(_shared_view[:nbytes]))
        except (BadFrame, DecodeError) as error:
            self.refuse(str(error))
        self._is_busy = True
        if self._paused_for or (self._frame is None and not self._rest):
            self.mid_frame_since = None
        elif self.mid_frame_since is None:
            self._wait_for_rest()
        if self._outbox.ready:
            # Not at once: answers that are written back to back find the peer awake, and waking it is the larger cost.
            self._flushes.add(self)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._pause(_SLOW_READER)

    def resume_writing(self) -> None:
        self._is_busy = True
        self._resume(_SLOW_READER)

    # Framing

    def _fill(self, frame: LargeFrame, nbytes: int) -> None:
        if frame.fill(nbytes):
            self._frame = None
            self._room = max(self._room, frame.next_buffer)
            # The codec reads a bytearray like bytes, and the log may write a batch's base offset into it.
            self._handle(cast("bytes", frame.data))

    def _cut(self, data: bytes) -> None:
        position, end = 0, len(data)
        while end - position >= 4 and not self._paused_for:
            (size,) = _frame_size(data, position)
            if not 0 <= size <= self.max_frame:
                setting = "socket.request.max.bytes" if self.gate is None else "sasl.server.max.receive.size"
                raise BadFrame(f"a request of {size} bytes is outside 0 to {self.max_frame} ({setting})")
            if end - position - 4 < size:
                if size > _READ_SIZE:
                    self._frame = LargeFrame(size, memoryview(data)[position + 4 :], self._room)
                    self._rest = b""
                    return
                break
            position += 4
            self._handle(data[position : position + size])
            position += size
            if self.transport is None:
                return
        self._rest = data[position:] if position < end else b""

    def _handle(self, frame: bytes) -> None:
        self.mid_frame_since = None  # frame.read.timeout.ms starts anew with each request
        self._dispatch(self, frame)
        if self._outbox.held > _MOST_HELD:
            # 64 KiB of requests can ask for gigabytes: send what is ready; the transport pauses if it cannot take it.
            self.flush()
            if self._outbox.held > _MOST_HELD:
                self._pause(_HELD_ANSWERS)
            elif self.transport is not None and self.transport.is_closing():
                # The peer has reset the connection. Its transport takes everything and pauses nobody, and 64 KiB of
                # requests whose answers nobody gets would hold up all other clients for seconds.
                self._paused_for.add(_RESET)
            elif self._is_encrypted:
                # Its transport does not tell that. The loop learns of a reset in the next turn.
                self._pause(_OTHERS_TURN)
                self._flushes.loop.call_soon(self._resume, _OTHERS_TURN)

    def _handle_rest(self) -> None:
        """Handle requests that were read before the connection was paused."""
        if self.transport is not None and not self.transport.is_closing():
            self.buffer_updated(0)

    def _wait_for_rest(self) -> None:
        self.mid_frame_since = self._flushes.loop.time()
        self._incomplete_requests(self)

    @property
    def _is_encrypted(self) -> bool:
        return self.transport is not None and self.transport.get_extra_info("sslcontext") is not None

    @property
    def waiting(self) -> int:
        """Number of requests without an answer."""
        return len(self._waiting)

    @property
    def sending_files(self) -> bool:
        """Whether records in files wait until the peer takes more."""
        return self._outbox.blocked

    # Answers

    def place(self, call: PendingAnswer) -> None:
        """Send the call's answer, or queue the call behind those that are not answered yet."""
        if call.answer is not None and not self._waiting:
            self._outbox.add(call.answer)
            return
        call.wait()
        self._waiting.append(call)
        if len(self._waiting) > self._max_waiting:
            self._pause("too many requests")

    def advance(self) -> None:
        """Send every answer that is ready and has no unanswered request before it."""
        waiting = self._waiting
        while waiting and (answer := waiting[0].answer) is not None:
            waiting.popleft()
            self._outbox.add(answer)
        if self._paused_for and len(waiting) <= self._max_waiting // 2:
            self._resume("too many requests")
        if self._outbox.ready:
            self._flushes.add(self)

    def hold(self, size: int) -> None:
        """Count a large answer of `size` bytes as held until the transport has it."""
        self._outbox.hold(size)

    def flush(self) -> None:
        """Give the transport all ready answers in one write; records in files bypass it."""
        outbox = self._outbox
        if outbox.ready:
            self._is_busy = True
        try:
            outbox.send(self.transport)
        except OSError as error:
            self._broken(error)
        if self._paused_for and outbox.held <= _MOST_HELD:
            self._resume(_HELD_ANSWERS)
        if outbox.blocked:
            self._pause(_SLOW_READER_OF_FILES)

    def _files_sent(self, error: OSError | None) -> None:
        self._is_busy = True
        if error is not None:
            self._broken(error)
        self._resume(_SLOW_READER_OF_FILES)

    def _broken(self, error: OSError) -> None:
        """Abort the connection: an answer was sent in part and cannot be completed."""
        if self.transport is not None:
            log.info("closing connection peer=%s reason=%s", self.peer, error)
            self.transport.abort()

    # Closing and pausing

    def refuse(self, reason: str) -> None:
        """Close without an answer and log the reason, once."""
        if self.transport is not None:
            log.warning("closing connection peer=%s reason=%s", self.peer, reason)
            self.close()

    def drop(self, reason: str) -> None:
        """Close at once, without what is ready, and log the reason, unless the connection is closed already.

        A peer cannot keep a closed connection open by not taking what is left.
        """
        if self.transport is not None:
            log.warning("closing connection peer=%s reason=%s", self.peer, reason)
            self._ending, self.transport = self.transport, None
        if self._ending is not None:
            self._ending.abort()

    def close(self) -> None:
        """Send what is ready, then close, also if the peer does not take it."""
        if self._outbox.ready:
            self.flush()
        if self.transport is not None:
            transport, self.transport = self.transport, None
            if self.sending_files:
                transport.abort()  # it cannot wait for the rest, which bypasses it
            else:
                self._ending = transport
                transport.close()
                if transport.get_write_buffer_size():
                    self._flushes.loop.call_later(_LINGER_S, transport.abort)

    def is_idle(self, seconds: float, now: float) -> bool:
        """Return whether nothing was received or sent for `seconds`; detected late, by the time between two calls.

        An answer that is ready will be sent in this turn of the loop.
        """
        if self._is_busy or self._outbox.ready:
            self._is_busy = False
            self._busy_at = now
        return now - self._busy_at > seconds

    def expire(self) -> None:
        """Close an idle connection. A peer that has not read its answers by now is not going to."""
        if self._paused_for & _UNREAD and self.transport is not None:
            transport, self.transport = self.transport, None
            transport.abort()
        else:
            self.close()

    def throttle(self) -> None:
        """Stop reading until `unthrottle`, because the log has too much to write."""
        self._pause("full log queue")

    def unthrottle(self) -> None:
        """Read again."""
        self._resume("full log queue")

    def mute(self, seconds: float) -> None:
        """Read no requests for this time. Answers are sent."""
        loop = self._flushes.loop
        self._muted_until = max(self._muted_until, loop.time() + seconds)
        if self._unmute is None and self.transport is not None:
            self._pause(_QUOTA)
            self._unmute = loop.call_at(self._muted_until, self._end_mute)

    def _end_mute(self) -> None:
        loop = self._flushes.loop
        if loop.time() < self._muted_until:
            self._unmute = loop.call_at(self._muted_until, self._end_mute)
        else:
            self._unmute = None
            self._resume(_QUOTA)

    def stop_reading(self) -> None:
        """Read no more requests until the connection is closed."""
        self._pause("failed authentication")

    def _pause(self, why: str) -> None:
        if not self._paused_for and self.transport is not None:
            self.transport.pause_reading()
            self.mid_frame_since = None  # the rest of a frame is late because of the broker
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
