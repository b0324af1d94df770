"""Connections to a machine that loses its power: its peers learn of that only if it is back and can be reached."""

from __future__ import annotations

import asyncio
from math import inf
from random import Random

from kohort.sim.environment import Agenda, Network, Process


class Peer(asyncio.Protocol):
    """End of a connection."""

    def __init__(self) -> None:
        self.lost_by: Exception | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost_by = exc


async def listen() -> None:
    await asyncio.get_running_loop().create_server(Peer, "127.0.0.1", 9092)


def test_a_machine_resets_connections_from_before_it_lost_its_power_when_it_is_back() -> None:
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
