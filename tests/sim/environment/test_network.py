"""Connections to a machine that loses its power: its peers learn of that only if it is back and can be reached."""

from __future__ import annotations

import asyncio
from math import inf
from random import Random

import pytest

from kohort.sim.environment import Agenda, Network, Process

FETCH, FIND_COORDINATOR = 1, 10


class Peer(asyncio.Protocol):
    """End of a connection."""

    def __init__(self) -> None:
        self.lost_by: Exception | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost_by = exc


async def listen() -> None:
    await asyncio.get_running_loop().create_server(Peer, "127.0.0.1", 9092)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_machine_resets_connections_from_before_it_lost_its_power_when_it_is_back(*, is_killed: bool) -> None:
    agenda = Agenda(0.0)
    network = Network(agenda, Random(1), lambda end, data: None)
    broker, client = (Process(name, agenda, network, lambda _, problem: None) for name in ("broker", "client"))
    peer = Peer()

    async def connect() -> None:
        await asyncio.get_running_loop().create_connection(lambda: peer, "127.0.0.1", 9092)

    def send() -> None:
        end.write(b"x")
        agenda.run(agenda.now + 1.0)

    broker.start(listen)
    agenda.run(1.0)
    client.start(connect)
    agenda.run(2.0)
    (end,) = network.connections()
    broker.kill(silently=True)
    send()
    assert peer.lost_by is None  # nobody answers
    broker.start(listen)
    network.block("client", "broker")
    send()
    assert peer.lost_by is None  # it gets nothing
    network.heal_all()
    if is_killed:
        broker.kill()  # its machine runs
    send()
    assert isinstance(peer.lost_by, ConnectionResetError)


def test_who_was_hindered_is_known_until_the_path_heals_and_not_again_when_it_is_healed_once_more() -> None:
    agenda = Agenda(0.0)
    network = Network(agenda, Random(1), lambda end, data: None)
    network.heal("client", "broker")
    assert network.hindered_at("client") == -inf
    network.block("client", "broker")
    agenda.now = 5.0
    assert (network.hindered_at("client"), network.hindered_at("another")) == (5.0, -inf)
    network.heal("client", "broker")
    agenda.now = 8.0
    network.heal("client", "broker")
    assert network.hindered_at("client") == 5.0


@pytest.mark.parametrize("end_of_wait", ["an answer", "a reset"])
def test_who_waits_long_to_learn_its_coordinator_is_hindered_and_nobody_else(end_of_wait: str) -> None:
    agenda = Agenda(0.0)
    network = Network(agenda, Random(1), lambda end, data: None)
    broker, client = (Process(name, agenda, network, lambda _, problem: None) for name in ("broker", "client"))

    async def connect() -> None:
        await asyncio.get_running_loop().create_connection(Peer, "127.0.0.1", 9092)

    broker.start(listen)
    agenda.run(1.0)
    client.start(connect)
    agenda.run(2.0)
    (end,) = network.connections()
    end.write(request(FETCH))
    agenda.run(3.0)
    assert network.hindered_at("client") == -inf  # a broker may hold it
    end.write(request(FIND_COORDINATOR))
    agenda.run(3.2)
    assert network.hindered_at("client") == -inf
    agenda.run(4.0)
    assert (network.hindered_at("client"), network.hindered_at("broker")) == (4.0, -inf)
    if end_of_wait == "an answer":
        end.other.write(b"x")
    else:
        network.reset(end)
    agenda.run(6.0)
    assert 4.0 <= network.hindered_at("client") < 4.1


def request(key: int) -> bytes:
    """Return the begin of a request as it is sent: its size and its API key."""
    return b"\0\0\0\2" + key.to_bytes(2, "big")
