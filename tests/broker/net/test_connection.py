"""One client connection between a transport and a dispatcher: frames, the order of answers, and when reading pauses."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import uvloop

from kohort.broker.net.connection import FEW_MEMBERS, BadFrame, ClientConnection
from kohort.broker.net.flushes import FlushQueue
from kohort.coordinator import ClientKind
from kohort.wire.codec import Buffer, Message
from kohort.wire.messages.metadata import MetadataRequest
from tests.broker.security.certificates import new_certificates

MAX_FRAME = 1 << 20
MAX_WAITING = 4
LARGE = 200_000
"""Bytes of a frame that does not fit into the shared read buffer."""
MIB = 1 << 20


class Transport(asyncio.Transport):
    """Transport of a socket whose peer reads everything."""

    def __init__(self, peer: tuple[str, int] | None = ("10.0.0.7", 4711), *, encrypted: bool = False) -> None:
        super().__init__({"peername": peer, "sslcontext": object() if encrypted else None})
        self.written: list[bytes] = []
        self.reading = True
        self.ended = ""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def is_closing(self) -> bool:
        return bool(self.ended)

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"


class Waiting:
    """A request whose answer the test gives."""

    def __init__(self, connection: ClientConnection, frame: bytes) -> None:
        self.connection = connection
        self.frame = frame
        self.answer: list[Buffer] | None = None
        self.queued = False
        self.request: Message = MetadataRequest()
        self.abandoned = False

    @property
    def open(self) -> bool:
        return self.answer is None

    def wait(self) -> None:
        self.queued = True

    def abandon(self) -> None:
        self.abandoned = True

    def reply(self, *parts: bytes) -> None:
        self.answer = list(parts)
        if len(parts) > 1:
            self.connection.hold(sum(map(len, parts)))
        if self.queued:
            self.connection.advance()


class Line:
    """A connection, its transport, and what the broker knows of it."""

    def __init__(self, peer: tuple[str, int] | None = ("10.0.0.7", 4711), *, encrypted: bool = False) -> None:
        self.calls: list[Waiting] = []
        self.echoes = False
        """Whether each request is answered at once with its own bytes."""
        self.opened = self.closed = self.half_read = 0
        self.flushes = FlushQueue(asyncio.get_running_loop())
        self.connection = ClientConnection(
            self._dispatch,
            lambda _: self._count("opened"),
            lambda _: self._count("closed"),
            self.flushes,
            lambda _: self._count("half_read"),
            max_frame=MAX_FRAME,
            max_waiting=MAX_WAITING,
        )
        self.transport = Transport(peer, encrypted=encrypted)
        self.connection.connection_made(self.transport)

    def _count(self, what: str) -> None:
        setattr(self, what, getattr(self, what) + 1)

    def _dispatch(self, connection: ClientConnection, frame: bytes) -> None:
        if frame == b"bad":
            raise BadFrame("that is no request")
        call = Waiting(connection, bytes(frame))
        self.calls.append(call)
        if self.echoes:
            call.reply(b"<" + bytes(frame) + b">")
        connection.place(call)

    @property
    def is_half_read(self) -> bool:
        return self.connection.mid_frame_since is not None

    def receive(self, data: bytes, at_most: int = 1 << 30) -> None:
        """The transport reads these bytes, in as many pieces as the buffers of the connection require."""
        while data:
            size = self._put(data[:at_most])
            data = data[size:]
            self.connection.buffer_updated(size)

    def _put(self, data: bytes) -> int:
        buffer = self.connection.get_buffer(-1)  # it may be resized once nothing refers to it
        size = min(len(data), len(buffer))
        buffer[:size] = data[:size]
        return size

    @property
    def frames(self) -> list[bytes]:
        return [call.frame for call in self.calls]

    async def sent(self) -> bytes:
        """All that was written until now."""
        await asyncio.sleep(0)
        return b"".join(self.transport.written)


def framed(*requests: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(request)) + request for request in requests)


# Frames


@pytest.mark.parametrize("at_most", [1, 3, 5, 7, 11, 65_536])
async def test_requests_are_cut_out_however_their_bytes_arrive(at_most: int) -> None:
    line = Line()
    line.echoes = True
    line.receive(framed(b"one", b"", b"three", b""), at_most)
    assert line.frames == [b"one", b"", b"three", b""]
    assert await line.sent() == b"<one><><three><>"


@pytest.mark.parametrize("size", [65_532, 65_533, 65_536, 65_537, LARGE, MAX_FRAME])
async def test_a_large_request_is_whole_and_so_are_its_neighbours(size: int) -> None:
    line = Line()
    large = bytes(range(256)) * (size // 256 + 1)
    for _ in range(2):
        line.calls.clear()
        line.echoes = True
        line.receive(framed(b"before", large[:size], b"after"))
        assert line.frames == [b"before", large[:size], b"after"]


async def test_a_large_request_whose_size_arrives_in_two_parts_is_whole_and_so_is_the_next() -> None:
    line = Line()
    whole = framed(bytes(LARGE))
    for piece in (whole[:3], whole[3:], framed(b"after")):
        line.receive(piece)
    assert line.frames == [bytes(LARGE), b"after"]


async def test_a_large_request_is_received_into_a_buffer_of_the_size_of_the_largest_before() -> None:
    line = Line()
    rooms = []
    for size in (500_000, 300_000, 500_000):
        whole = framed(bytes(size))
        line.receive(whole[:65_536])
        rooms.append(len(line.connection.get_buffer(-1)))
        line.receive(whole[65_536:])
        line.calls.pop().reply(b"x")
    first, second, third = rooms
    assert first < 200_000, "a size that is only claimed costs little"
    assert (second, third) == (300_000 - 65_532, 500_000 - 65_532)


@pytest.mark.parametrize("size", [-1, MAX_FRAME + 1])
async def test_a_frame_of_an_impossible_size_closes_the_connection(size: int, caplog: pytest.LogCaptureFixture) -> None:
    line = Line()
    line.receive(framed(b"fine") + struct.pack(">i", size) + b"more")
    assert (line.frames, line.transport.ended) == ([b"fine"], "closed")
    assert f"peer=10.0.0.7:4711 reason=a request of {size} bytes is outside 0 to {MAX_FRAME}" in caplog.text


async def test_a_bad_request_closes_the_connection_after_the_answers_before_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    line = Line()
    line.echoes = True
    line.receive(framed(b"fine", b"bad", b"unread"))
    assert (line.frames, line.transport.ended) == ([b"fine"], "closed")
    assert await line.sent() == b"<fine>"
    assert len(caplog.records) == 1 and "that is no request" in caplog.text
    line.connection.refuse("once more")
    assert len(caplog.records) == 1


async def test_nothing_is_read_behind_a_request_that_closed_the_connection() -> None:
    line = Line()
    line.receive(framed(b"one"))
    dispatch = line.connection._dispatch

    def close(connection: ClientConnection, frame: bytes) -> None:
        dispatch(connection, frame)
        connection.close()

    line.connection._dispatch = close
    line.receive(framed(b"two", b"three"))
    assert line.frames == [b"one", b"two"]


async def test_what_was_read_before_is_not_handled_after_the_end() -> None:
    line = Line()
    line.receive(framed(*[b"x"] * (MAX_WAITING + 3)))
    for call in line.calls[:]:
        call.reply(b"y")
    assert line.transport.reading
    line.connection.close()
    await asyncio.sleep(0)
    assert len(line.calls) == MAX_WAITING + 1


# Requests that have not arrived completely


async def test_the_broker_learns_of_each_request_that_is_incomplete() -> None:
    line = Line()
    line.echoes = True
    whole = framed(b"request")
    line.receive(whole)
    assert (line.half_read, line.connection.mid_frame_since) == (0, None)
    line.receive(whole[:5])
    since = line.connection.mid_frame_since
    assert line.half_read == 1 and since is not None
    line.receive(whole[5:6])
    assert (line.half_read, line.connection.mid_frame_since) == (1, since)
    line.receive(whole[6:])
    assert (line.half_read, line.connection.mid_frame_since) == (1, None)
    line.receive(framed(bytes(LARGE))[:-1])
    assert (line.half_read, line.is_half_read) == (2, True)
    line.receive(b"x")
    assert (line.half_read, line.is_half_read) == (2, False)


@pytest.mark.parametrize("size", [10, LARGE])
async def test_time_in_which_reading_pauses_counts_for_no_request(size: int) -> None:
    line = Line()
    line.receive(framed(bytes(size))[:-1])
    line.connection.throttle()
    assert line.connection.mid_frame_since is None
    line.connection.unthrottle()
    await asyncio.sleep(0)
    assert line.half_read == 2 and line.connection.mid_frame_since is not None


# Answers


async def test_answers_are_sent_in_the_order_of_the_requests() -> None:
    line = Line()
    line.receive(framed(b"a", b"b", b"c"))
    first, second, third = line.calls
    assert line.connection.waiting == 3
    second.reply(b"B")
    assert (await line.sent(), line.connection.waiting) == (b"", 3)
    first.reply(b"A")
    assert (await line.sent(), line.connection.waiting) == (b"AB", 1)
    third.reply(b"C")
    line.echoes = True
    line.receive(framed(b"d"))
    assert (await line.sent(), line.connection.waiting) == (b"ABC<d>", 0)


async def test_an_answer_that_is_ready_waits_behind_one_that_is_not() -> None:
    line = Line()
    line.receive(framed(b"slow"))
    line.echoes = True
    line.receive(framed(b"quick"))
    assert await line.sent() == b""
    line.calls[0].reply(b"slow")
    assert await line.sent() == b"slow<quick>"


async def test_the_answers_of_one_turn_are_one_write() -> None:
    line = Line()
    line.echoes = True
    line.receive(framed(b"a", b"b"))
    line.receive(framed(b"c"))
    assert line.transport.written == []
    await asyncio.sleep(0)
    assert line.transport.written == [b"<a><b><c>"]


# Pauses


async def test_reading_pauses_while_too_many_requests_wait_and_goes_on_when_half_of_them_are_answered() -> None:
    line = Line()
    line.receive(framed(*(b"%d" % number for number in range(10))))
    assert line.connection.waiting == MAX_WAITING + 1
    assert not line.transport.reading
    for call in line.calls[: MAX_WAITING // 2]:
        call.reply(b"x")
    assert not line.transport.reading
    line.calls[2].reply(b"x")
    assert line.transport.reading
    await asyncio.sleep(0)
    assert line.frames == [b"%d" % number for number in range(8)], "what was read before"
    assert not line.transport.reading


async def test_as_many_requests_as_may_wait_do_not_pause_the_connection() -> None:
    line = Line()
    line.receive(framed(*[b"x"] * MAX_WAITING))
    assert line.transport.reading


async def test_reading_pauses_until_all_reasons_are_gone() -> None:
    line = Line()
    line.echoes = True
    line.connection.pause_writing()
    line.connection.throttle()
    line.connection.throttle()
    line.connection.resume_writing()
    assert not line.transport.reading
    line.connection.unthrottle()
    assert line.transport.reading
    line.connection.unthrottle()
    assert line.transport.reading


async def test_a_request_behind_one_that_pauses_the_connection_is_not_awaited() -> None:
    line = Line()
    dispatch = line.connection._dispatch

    def handle(connection: ClientConnection, frame: bytes) -> None:
        dispatch(connection, frame)
        connection.throttle()

    line.connection._dispatch = handle
    line.receive(framed(b"one", b"two")[:-1])
    assert (line.half_read, line.is_half_read) == (0, False)
    line.connection.unthrottle()
    await asyncio.sleep(0)
    assert (line.half_read, line.is_half_read) == (1, True)


async def test_a_request_that_pauses_the_connection_is_the_last_that_is_handled() -> None:
    line = Line()
    dispatch = line.connection._dispatch

    def handle(connection: ClientConnection, frame: bytes) -> None:
        dispatch(connection, frame)
        connection.throttle()

    line.connection._dispatch = handle
    line.receive(framed(b"one", b"two"))
    await asyncio.sleep(0)
    assert line.frames == [b"one"]
    line.connection.unthrottle()
    await asyncio.sleep(0)
    assert line.frames == [b"one", b"two"]


async def test_large_answers_that_wait_behind_another_pause_the_connection() -> None:
    line = Line()
    line.receive(framed(b"slow"))
    for _ in range(2):
        line.receive(framed(b"large"))
        line.calls[-1].reply(b"head", bytes(MIB // 2))
    assert line.transport.reading
    line.receive(framed(b"next"))
    assert not line.transport.reading
    line.connection.flush()
    assert not line.transport.reading, "the large answers still wait"
    line.calls[0].reply(b"slow")
    assert len(await line.sent()) > MIB
    assert line.transport.reading


async def test_large_answers_that_can_be_sent_pause_nothing() -> None:
    line = Line()

    def answer(connection: ClientConnection, frame: bytes) -> None:
        call = Waiting(connection, frame)
        call.reply(b"head", bytes(MIB // 2))
        connection.place(call)

    line.connection._dispatch = answer
    line.receive(framed(*[b"x"] * 5))
    assert line.transport.reading
    assert len(b"".join(line.transport.written)) > MIB, "sent before the last request was handled"


async def test_requests_of_a_peer_that_resets_the_connection_hold_up_nobody() -> None:
    # The transport notices it as it writes; the connection learns of it in a later turn of the loop.
    line = Line()
    handled = 0

    def answer(connection: ClientConnection, frame: bytes) -> None:
        nonlocal handled
        handled += 1
        call = Waiting(connection, frame)
        call.reply(b"head", bytes(MIB // 2))
        connection.place(call)
        if handled == 5:
            line.transport.ended = "reset"

    line.connection._dispatch = answer
    line.receive(framed(*[b"x"] * 1_000))
    assert handled == 6
    line.connection.connection_lost(None)
    await asyncio.sleep(0)
    assert handled == 6


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_requests_of_a_peer_that_resets_an_encrypted_connection_hold_up_nobody(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    # The transport of TLS does not tell that the one below it is closing.
    certificates = new_certificates(tmp_path)
    server_side, client_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server_side.load_cert_chain(certificates.key_store())
    certificates.authority.configure_trust(client_side)
    handling, reset = threading.Event(), threading.Event()

    def send_and_reset(port: int) -> None:
        sock = socket.create_connection(("127.0.0.1", port))
        with client_side.wrap_socket(sock, server_hostname="127.0.0.1") as peer:
            peer.sendall(framed(*[b"x"] * 1_000))
            handling.wait(30)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        reset.set()

    async def serve() -> int:
        loop = asyncio.get_running_loop()
        lost = loop.create_future()
        handled = 0

        def answer(connection: ClientConnection, frame: bytes) -> None:
            nonlocal handled
            handled += 1
            handling.set()
            reset.wait(30)
            call = Waiting(connection, frame)
            call.reply(b"head", bytes(MIB // 2))
            connection.place(call)

        connection = ClientConnection(
            answer,
            lambda _: None,
            lambda _: lost.set_result(None),
            FlushQueue(loop),
            lambda _: None,
            max_frame=MAX_FRAME,
            max_waiting=MAX_WAITING,
        )
        async with await loop.create_server(lambda: connection, "127.0.0.1", 0, ssl=server_side) as server:
            await asyncio.gather(asyncio.to_thread(send_and_reset, server.sockets[0].getsockname()[1]), lost)
        return handled

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(serve()) < 20


async def test_an_encrypted_connection_goes_on_after_the_turn_of_others() -> None:
    line = Line(encrypted=True)

    def answer(connection: ClientConnection, frame: bytes) -> None:
        call = Waiting(connection, frame)
        line.calls.append(call)
        call.reply(frame, bytes(MIB // 2))
        connection.place(call)

    line.connection._dispatch = answer
    numbers = [b"%d" % number for number in range(20)]
    line.receive(framed(*numbers))
    assert len(line.calls) == 2
    assert not line.transport.reading
    for _ in range(3 * len(numbers)):
        await asyncio.sleep(0)
    assert line.frames == numbers
    assert line.transport.reading
    assert len(b"".join(line.transport.written)) > 10 * MIB


async def test_requests_that_waited_are_not_handled_after_a_reset() -> None:
    line = Line()
    line.connection.throttle()
    line.receive(framed(b"one", b"two"))
    line.connection.unthrottle()
    line.transport.ended = "reset"
    await asyncio.sleep(0)
    assert line.frames == []


# Beginning and end


async def test_nothing_is_known_of_the_client_of_a_new_connection() -> None:
    connection = Line().connection
    assert (connection.client, connection.client_id, connection.members) == (ClientKind.OTHER, "", {})
    assert (connection.check_members_at, connection.has_many_members) == (FEW_MEMBERS, False)
    assert (connection.new_partitions_seen, connection.held_heartbeat, connection.last_heartbeat) == (0, None, None)


async def test_the_broker_learns_of_a_connection_and_of_its_end() -> None:
    line = Line()
    assert (line.opened, line.closed) == (1, 0)
    assert (line.connection.host, line.connection.peer) == ("/10.0.0.7", "10.0.0.7:4711")
    assert line.connection.who == ("/10.0.0.7", "")
    line.receive(framed(b"a", b"b"))
    line.connection.connection_lost(None)
    assert (line.opened, line.closed, line.connection.waiting) == (1, 1, 0)
    assert all(call.abandoned for call in line.calls)
    line.connection.close()
    line.connection.refuse("too late")
    assert line.transport.ended == ""


async def test_a_connection_whose_peer_is_gone_before_it_was_accepted_has_a_name() -> None:
    line = Line(peer=None)
    assert (line.connection.host, line.connection.peer) == ("/unknown", "unknown:0")


async def test_a_connection_that_is_closed_sends_what_is_ready() -> None:
    line = Line()
    line.echoes = True
    line.receive(framed(b"last"))
    line.connection.close()
    assert (line.transport.written, line.transport.ended) == ([b"<last>"], "closed")
    assert line.connection.transport is None
    line.connection.throttle()
    line.connection.unthrottle()
    assert line.transport.reading


async def test_a_peer_that_ends_its_side_is_closed() -> None:
    assert not Line().connection.eof_received()


@pytest.mark.parametrize(("reads", "ended"), [(True, "closed"), (False, "aborted")])
async def test_an_idle_connection_is_aborted_if_its_peer_reads_nothing(reads: bool, ended: str) -> None:
    # Closing it would wait until the peer has read its answers.
    line = Line()
    if not reads:
        line.connection.pause_writing()
    line.connection.throttle()
    line.connection.expire()
    assert line.transport.ended == ended
    assert line.connection.transport is None
    line.transport.ended = ""
    line.connection.expire()
    assert line.transport.ended == ""


async def test_a_connection_is_idle_when_nothing_was_received_or_sent_for_a_time() -> None:
    line = Line()
    opened = line.flushes.loop.time()
    assert not line.connection.is_idle(10, opened + 9)
    assert line.connection.is_idle(10, opened + 11)

    def receive() -> None:
        line.receive(b"\0")

    def send() -> None:
        line.calls.pop().reply(b"x")
        line.flushes.run()

    def resume() -> None:
        line.connection.resume_writing()

    line.receive(framed(b"waits"))
    line.connection.pause_writing()
    for number, busy in enumerate((send, receive, resume), 1):
        now = opened + 100 * number
        assert not line.connection.is_idle(10, now) or number > 1
        assert not line.connection.is_idle(10, now + 10) or number > 1
        assert line.connection.is_idle(10, now + 11)
        busy()
        assert not line.connection.is_idle(10, now + 50), "it is noticed now"
        assert not line.connection.is_idle(10, now + 60)
        assert line.connection.is_idle(10, now + 61)


async def test_a_connection_whose_late_answer_is_about_to_be_sent_is_not_idle() -> None:
    line = Line()
    opened = line.flushes.loop.time()
    line.receive(framed(b"waits"))
    assert not line.connection.is_idle(10, opened)
    line.calls[0].reply(b"late")
    assert not line.connection.is_idle(10, opened + 100), "the answer leaves in this turn"
    assert not line.connection.is_idle(10, opened + 110)
    await line.sent()
    assert not line.connection.is_idle(10, opened + 120)
    assert line.connection.is_idle(10, opened + 131)
