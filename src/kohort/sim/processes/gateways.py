"""Gateways of a world: production's, in front of the brokers. Members that use one know no other address."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from kohort.coordinator import HeldHeartbeat
from kohort.gateway import Address, Gateway, GatewayOptions, Link
from kohort.sim.environment import Agenda, Network, Process, Transport
from kohort.sim.processes.brokers import FIRST_PORT
from kohort.sim.processes.killable_clients import KillableAdmin

_FIRST_PORT, _PORTS = 9_201, 50
_HOLD_MS = 15_000
_SLACK_MS = 500
"""Time by which a hold may end late: a probe may be under way."""


class _Bound:
    """Socket that listens at an address of the simulated network."""

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def setblocking(self, flag: bool) -> None:
        """Do nothing: it never blocks."""


class SimulatedGateway(Gateway):
    """Production's gateway on the simulated network."""

    admin = KillableAdmin

    def bind(self, host: str | None, port: int) -> Any:
        return _Bound(host or "127.0.0.1", port)


class Gateways:
    """All gateways of a world."""

    def __init__(
        self,
        agenda: Agenda,
        network: Network,
        brokers: int,
        rates: Sequence[float],
        failed: Callable[[str, BaseException], None],
    ) -> None:
        self._rates = rates
        self._network = network
        self._brokers = brokers
        self.processes = [Process(f"gateway-{number + 1}", agenda, network, failed) for number in range(len(rates))]
        self.running: dict[int, SimulatedGateway] = {}
        self._late: list[tuple[str, HeldHeartbeat]] = []

    def bootstrap(self, number: int) -> str:
        """Return the address that members of that gateway know."""
        return f"127.0.0.1:{_port(number)}"

    def begin(self) -> None:
        """Start all gateways that do not run."""
        for number in range(len(self.processes)):
            self.start(number)

    def start(self, number: int) -> None:
        """Start a gateway, unless it runs."""
        process = self.processes[number]
        if not process.alive:
            process.start(partial(self._serve, number), self._rates[number])

    async def _serve(self, number: int) -> None:
        nodes = range(1, self._brokers + 1)
        gateway = SimulatedGateway(
            GatewayOptions(
                upstream=[Address("127.0.0.1", FIRST_PORT + node - 1) for node in nodes],
                listen=Address("127.0.0.1", _port(number)),
                node_ids=nodes,
                hold_ms=_HOLD_MS,
            )
        )
        await gateway.start()
        self.running[number] = gateway

    def terminate(self, number: int) -> None:
        """Send SIGTERM: the gateway passes on what arrives soon, and exits."""
        gateway, process = self.running.get(number), self.processes[number]
        if gateway is not None and process.runs:
            assert process.loop is not None
            process.loop.create_task(self._end(number, gateway))

    async def _end(self, number: int, gateway: SimulatedGateway) -> None:
        await gateway.stop()
        self.kill(number)

    def kill(self, number: int, *, silently: bool = False) -> None:
        """Send SIGKILL, or end its machine."""
        self.running.pop(number, None)
        self.processes[number].kill(silently=silently)

    def end_faults(self) -> None:
        """Let all gateways run."""
        for process in self.processes:
            process.resume()
        self.begin()

    def serving(self) -> Iterator[tuple[str, SimulatedGateway]]:
        """Yield the gateways whose processes run, with their names."""
        for number, gateway in sorted(self.running.items()):
            if self.processes[number].runs:
                yield self.processes[number].name, gateway

    def late(self) -> str:
        """Return a heartbeat that a gateway holds for too long, or "".

        It was late at the previous call, too: a gateway that was just resumed may not have answered it yet.
        """
        before, self._late = self._late, []
        for name, gateway in self.serving():
            now = gateway.groups.now()
            self._late += [(name, held) for held in gateway.groups.all_held if held.due_at + _SLACK_MS < now]
        for name, held in self._late:
            if any(held is other for _, other in before):
                return f"{name} holds a heartbeat of {held.request.member_id} of {held.request.group_id} for too long"
        return ""

    def left(self) -> str:
        """Return what a gateway still has for members that have left, or ""."""
        for name, gateway in self.serving():
            if gateway.held or gateway.groups.lost_members:
                return f"{name} holds {gateway.held} heartbeats, and keeps {gateway.groups.lost_members} lost members"
            # A machine that ended without notice leaves its connections open.
            links = [link for link in gateway.links if not link.client.is_open or self._has_peer(link)]
            if links:
                return f"{name} has {len(links)} connections"
        return ""

    def _has_peer(self, link: Link) -> bool:
        transport = link.client.transport
        assert isinstance(transport, Transport)
        return transport.other.number in self._network.ends


def _port(number: int) -> int:
    return _FIRST_PORT + _PORTS * number
