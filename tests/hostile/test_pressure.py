"""Peers that take without giving: memory stays bounded and the neighbours are served meanwhile."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.peer import API_VERSIONS, JOIN_GROUP, METADATA, Batch, Peer, fetch, open_sockets, request, string
from tests.interop.broker import Broker
from tests.interop.crowd import SUBSCRIPTION
from tests.interop.kohort import KohortBroker, running_kohort
from tests.interop.process import until

MIB = 1 << 20


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[KohortBroker]:
    """A broker on files that no other test has grown."""
    with running_kohort("--data", str(tmp_path / "data"), frame_read_timeout_ms="700") as broker:
        yield broker


def test_a_thousand_pipelined_requests_are_answered_in_order(any_broker: Broker) -> None:
    with Peer(any_broker.bootstrap) as peer:
        none = struct.pack(">i", 0)
        peer.send(
            b"".join(
                request(METADATA, 1, none, correlation_id=n) if n % 3 else request(API_VERSIONS, 0, correlation_id=n)
                for n in range(1_000)
            )
        )
        assert [peer.answer()[0] for _ in range(1_000)] == list(range(1_000))


def test_an_incomplete_frame_does_not_disturb_others(any_broker: Broker) -> None:
    with Peer(any_broker.bootstrap) as hostile, Peer(any_broker.bootstrap) as neighbour:
        whole = request(METADATA, 1, struct.pack(">i", 0), correlation_id=3)
        hostile.send(whole[:9])
        neighbour.ping()
        # It was only slow: the rest completes the request.
        hostile.send(whole[9:])
        assert hostile.answer()[0] == 3


def test_a_frame_that_never_ends_is_given_up(own_broker: KohortBroker) -> None:
    with Peer(own_broker.bootstrap) as hostile, Peer(own_broker.bootstrap) as neighbour:
        hostile.send(struct.pack(">i", 1_000) + b"half")
        assert hostile.is_closed()
        neighbour.ping()


def test_a_size_that_is_claimed_costs_nothing_until_it_is_sent(own_broker: KohortBroker) -> None:
    with contextlib.ExitStack() as connections, Peer(own_broker.bootstrap) as neighbour:
        neighbour.ping()
        before = own_broker.process.rss_bytes()
        for _ in range(20):
            hostile = connections.enter_context(Peer(own_broker.bootstrap))
            hostile.send(struct.pack(">i", 100_000_000) + b"x")
        neighbour.ping()
        assert own_broker.process.rss_bytes() - before < 40 * MIB


def test_a_reader_that_does_not_read_holds_little_memory(own_broker: KohortBroker) -> None:
    with Peer(own_broker.bootstrap) as hostile, Peer(own_broker.bootstrap) as neighbour:
        neighbour.create_topic("heavy")
        for _ in range(16):
            assert neighbour.produce("heavy", bytes(Batch(values=(b"x" * 900_000,))))[0] == 0
        before = own_broker.process.rss_bytes()

        hostile.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        hostile.socket.settimeout(1.0)
        asked = 0
        # 3,000 answers of 10 MB were never going to fit: the broker stops reading, and then our sends block.
        with contextlib.suppress(TimeoutError):
            for asked in range(1, 3_001):
                hostile.send(fetch("heavy", 10 * MIB, correlation_id=asked))

        # The neighbour is served all the while.
        slowest = 0.0
        for _ in range(50):
            started = time.monotonic()
            neighbour.ping()
            slowest = max(slowest, time.monotonic() - started)
        assert slowest < 1.0
        assert own_broker.process.rss_bytes() - before < 100 * MIB, f"after {asked} requests"


def test_answers_wait_for_a_reader_that_comes_back(own_broker: KohortBroker) -> None:
    with Peer(own_broker.bootstrap) as peer:
        peer.create_topic("late")
        for _ in range(4):
            assert peer.produce("late", bytes(Batch(values=(b"x" * 500_000,))))[0] == 0
        for number in range(100):
            peer.send(fetch("late", 4 * MIB, correlation_id=number))
        answers = [peer.answer() for _ in range(100)]
        assert [correlation_id for correlation_id, _ in answers] == list(range(100))
        assert len({body for _, body in answers}) == 1
        assert len(answers[0][1]) > 2_000_000


def test_many_connections_that_come_and_go_leave_nothing(own_broker: KohortBroker) -> None:
    descriptors = Path(f"/proc/{own_broker.pid}/fd")
    with Peer(own_broker.bootstrap) as neighbour:
        neighbour.ping()
        before = len(list(descriptors.iterdir()))
        for _ in range(300):
            with Peer(own_broker.bootstrap) as passing:
                passing.send(b"\0")
        neighbour.ping()
        until(5.0, "the descriptors are closed", lambda: len(list(descriptors.iterdir())) <= before)


def test_a_peer_that_resets_its_connection_with_answers_under_way_is_forgotten(own_broker: KohortBroker) -> None:
    with Peer(own_broker.bootstrap) as neighbour:
        neighbour.create_topic("reset")
        neighbour.produce("reset", bytes(Batch(values=(b"x" * 900_000,))))
        for _ in range(20):
            with Peer(own_broker.bootstrap) as hostile:
                hostile.send(b"".join(fetch("reset", MIB, correlation_id=n) for n in range(50)))
                # Linger 0: the kernel answers the broker's next segment with a reset.
                hostile.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        neighbour.ping()
    assert not any("Traceback" in line for line in own_broker.process.stderr), "\n".join(own_broker.process.stderr)


def test_a_peer_that_never_reads_is_given_up_when_it_was_silent_for_too_long(tmp_path: Path) -> None:
    with running_kohort("--data", str(tmp_path / "data"), connections_max_idle_ms="1500") as broker:
        before = open_sockets(broker.pid)
        with Peer(broker.bootstrap) as of_files:
            of_files.create_topic("unread")
            for _ in range(8):
                assert of_files.produce("unread", bytes(Batch(values=(b"x" * 900_000,))))[0] == 0
            for number in range(20):
                of_files.send(fetch("unread", 10 * MIB, correlation_id=number))
            of_memory = Peer(broker.bootstrap, timeout=1.0)
            with contextlib.suppress(TimeoutError):
                for _ in range(2_000):
                    of_memory.send(request(METADATA, 1, struct.pack(">i", -1)) * 100)
            # Closing them is not enough: their unread data would wait for them forever.
            until(15.0, "both are closed", lambda: open_sockets(broker.pid) == before)
            of_memory.socket.close()


def test_a_connection_whose_answer_came_late_was_not_silent(tmp_path: Path) -> None:
    settings = {"connections_max_idle_ms": "5000", "group_initial_rebalance_delay_ms": "6000"}
    with running_kohort("--data", str(tmp_path / "data"), **settings) as broker, Peer(broker.bootstrap, 30) as peer:
        protocols = struct.pack(">i", 1) + string("range") + struct.pack(">i", len(SUBSCRIPTION)) + SUBSCRIPTION
        body = string("g") + struct.pack(">ii", 10_000, 10_000) + string("") + string("consumer") + protocols
        began = time.monotonic()
        assert peer.ask(JOIN_GROUP, 2, body)[4:6] == b"\0\0"  # behind the throttle time, the error code
        assert time.monotonic() - began > 5.5
        # The broker looks once a second. Whoever waited six for this answer may now think about it for another.
        time.sleep(1.2)
        peer.ping()
