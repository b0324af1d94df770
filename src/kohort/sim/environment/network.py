"""Network between the processes: bytes arrive in order on each connection.

The seed decides which are delayed and which connections break. The two ends of a connection are
asyncio transports, so the protocols on both sides are production's. Bytes may arrive late, in
pieces, or never. A blocked path holds what is sent on it, like TCP with its retransmissions, until
it heals or the connection is reset. A machine that is back resets connections from before.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import inf
from random import Random

from kohort.sim.environment.loop import Agenda, Halted, Handle, VirtualLoop
from kohort.sim.environment.message_faults import MessageFaults, api_key
from kohort.sim.environment.transport import Transport
from kohort.wire.api import APIS

Watcher = Callable[[Transport, bytes], None]
ProtocolFactory = Callable[[], asyncio.BaseProtocol]

_USUAL_SPREAD = 0.001
_SLOW = 0.25
"""Transit time, in seconds, from which on a client may need more than a second to connect and send a request."""

_FIRST_REQUESTS = ("ApiVersions", "SaslHandshake", "SaslAuthenticate", "FindCoordinator")
"""Requests without whose answers a client cannot reach its coordinator again."""
_LOOKUPS = frozenset(key for key, api in APIS.items() if api.name in _FIRST_REQUESTS)


@dataclass(slots=True)
class NetworkConditions:
    """Current conditions of the network; times are in seconds."""

    delay: float = 0.0005
    """Minimum transit time in one direction."""
    spread: float = _USUAL_SPREAD
    """Maximum additional transit time, drawn for each piece."""
    pieces: float = 0.0
    """Probability that a write arrives in two pieces."""


class Blocked(Enum):
    """Directions of a blocked path, from the view of one process."""

    INCOMING = "incoming"
    OUTGOING = "outgoing"
    BOTH = "both"


class Network:
    """Listening ports, connections, and blocked paths."""

    def __init__(self, agenda: Agenda, rng: Random, watch: Watcher) -> None:
        """Create the network. `watch` sees all bytes as they arrive."""
        self.conditions = NetworkConditions()
        self.message_faults = MessageFaults()
        self.ends: dict[int, Transport] = {}
        """Open ends of connections by number: even for the connecting side, odd for the accepting side."""
        self.deliveries = 0
        self.gone = False
        """Whether the world has ended: no connection is possible."""
        self._agenda = agenda
        self._rng = rng
        self._watch = watch
        self._listening: dict[int, tuple[VirtualLoop, ProtocolFactory]] = {}
        self._blocked: set[tuple[str, str]] = set()
        self._healed_at: dict[str, float] = {}
        """Time at which a path from or to each process was unblocked last."""
        self._asked_at: dict[int, float] = {}
        """When one of `_LOOKUPS` was sent that is not answered, by the connecting end."""
        self._fast_since = -inf
        """Time at which messages stopped to take long."""
        self._late_until: dict[str, float] = {}
        """Time at which the last delayed message from or to each connecting process arrives."""
        self._held: list[tuple[Transport, bytes | Exception | None]] = []
        self._last_number = 0
        self._unaware: set[int] = set()
        """Ends of connections whose peers lost their power."""
        self._servers: set[str] = set()
        """Processes that have accepted connections since their machines had power. They may be dead."""

    # Interface for the loops

    def listen(self, loop: VirtualLoop, factory: ProtocolFactory, host: str, port: int) -> Listener:
        """Accept connections to that port while the process lives."""
        if port in self._listening and self._listening[port][0].halted != Halted.DEAD:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        self._listening[port] = loop, factory
        self._servers.add(loop.name)
        return Listener(self, host, port)

    def unlisten(self, port: int) -> None:
        """Stop accepting connections."""
        self._listening.pop(port, None)

    async def connect(
        self, loop: VirtualLoop, factory: ProtocolFactory, host: str, port: int
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Connect to a port. The connection is refused if no process listens, and waits while the path is blocked."""
        patience = 1.0
        while True:
            if self.gone:
                raise ConnectionRefusedError(errno.ECONNREFUSED, "the world is over")
            await asyncio.sleep(2 * self._travel())
            found = self._listening.get(port)
            if found is None or found[0].halted == Halted.DEAD:
                raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
            there, accept = found
            if (loop.name, there.name) not in self._blocked and (there.name, loop.name) not in self._blocked:
                break
            await asyncio.sleep(patience)  # the kernel retries with growing intervals
            patience *= 2
        self._last_number += 2
        number = self._last_number
        near = Transport(self, loop, factory(), number, (host, port))
        far = Transport(self, there, accept(), number + 1, (host, 40_000 + number % 20_000))
        near.other, far.other = far, near
        self.ends[number], self.ends[number + 1] = near, far
        there.call_soon(far.begin)
        near.begin()
        return near, near.protocol

    # Faults

    def slow_down(self, spread: float) -> None:
        """Let each message take up to that many seconds."""
        self.conditions.spread = spread

    def speed_up(self) -> None:
        """Let messages take as long as usual."""
        self.conditions.spread, self._fast_since = _USUAL_SPREAD, self._agenda.now

    def block(self, sender: str, receiver: str) -> None:
        """Block that path until it heals."""
        self._blocked.add((sender, receiver))

    def hindered_at(self, name: str) -> float:
        """Return when that process could last not reach its coordinator soon; -inf if it always could.

        A path from or to it was blocked, messages took long, or a broker did not answer one of `_LOOKUPS`. A client
        that was hindered also waits before it tries to connect again.
        """
        if self.conditions.delay + self.conditions.spread > _SLOW or any(name in path for path in self._blocked):
            return self._agenda.now
        if any(self._waits_long(number) for number in self._asked_at if self.ends[number].loop.name == name):
            return self._agenda.now
        return max(self._healed_at.get(name, -inf), self._fast_since)

    def held_up_at(self, name: str) -> float:
        """Return when the network last held what that process sends or gets: it was hindered, or a message was late."""
        return max(self.hindered_at(name), self._late_until.get(name, -inf))

    def _waits_long(self, number: int) -> bool:
        return self._agenda.now - self._asked_at[number] > _SLOW

    def _no_longer_waits(self, end: Transport) -> None:
        """Note that a connecting end got an answer, or is closed."""
        if end.number in self._asked_at:
            if self._waits_long(end.number):
                self._healed_at[end.loop.name] = self._agenda.now
            del self._asked_at[end.number]

    def heal(self, sender: str, receiver: str) -> None:
        """Unblock a path and deliver what was held for it; data of other blocked paths is held again."""
        if (sender, receiver) in self._blocked:
            self._blocked.remove((sender, receiver))
            self._healed_at |= dict.fromkeys((sender, receiver), self._agenda.now)
        held, self._held = self._held, []
        for end, what in held:
            self._agenda.ready.append(Handle((end.loop, self._arrive, (end, what))))

    def heal_all(self) -> None:
        """Unblock all paths."""
        for way in sorted(self._blocked):
            self.heal(*way)

    def connections(self) -> list[Transport]:
        """Return the connecting ends of all connections."""
        return [end for number, end in self.ends.items() if not number % 2]

    def reset(self, end: Transport) -> None:
        """Reset a connection: both sides lose it, and data in transit is lost."""
        for side in (end, end.other):
            self._no_longer_waits(side)
            if self.ends.pop(side.number, None) is not None:
                side.lost(_reset())

    def machine_gone(self, loop: VirtualLoop, *, silently: bool) -> None:
        """Close the connections of a dead process, as its kernel does.

        If the machine is gone, too (`silently`), its peers are not notified.
        """
        if silently:
            self._servers.discard(loop.name)
        for end in [end for end in self.ends.values() if end.loop is loop]:
            self._no_longer_waits(end)
            del self.ends[end.number]
            if silently:
                self._unaware.add(end.other.number)
            else:
                self._deliver(end.other, _reset())

    # Traffic

    def carry(self, end: Transport, data: bytes) -> None:
        """Deliver bytes written at `end` to the other end."""
        if end.number in self.ends and end.number % 2 == 0 and api_key(data) in _LOOKUPS:
            self._asked_at.setdefault(end.number, self._agenda.now)
        if not self.message_faults.is_idle and self._strikes(end, data):
            return
        if self.conditions.pieces and len(data) > 1 and self._rng.random() < self.conditions.pieces:
            cut = self._rng.randrange(1, len(data))
            self._deliver(end.other, data[:cut])
            data = data[cut:]
        self._deliver(end.other, data)
        if end.number in self._unaware and self._is_back(end.loop.name, end.other.loop.name):
            self._deliver(end, _reset())

    def _is_back(self, sender: str, name: str) -> bool:
        """Return whether the machine of that server gets what the sender sends, since the server was started again.

        It may have been killed since: it is the machine that resets connections.
        """
        return name in self._servers and (sender, name) not in self._blocked

    def _strikes(self, end: Transport, data: bytes) -> bool:
        """Delay a message that a fault is aimed at; return whether that is all that happens to it."""
        if end.number % 2:
            late, is_outdated = self.message_faults.response(end.number), False
        else:
            late, is_outdated = self.message_faults.request(end.other.number, data)
        if late < 0:
            self.reset(end)
            return True
        if late:
            end.other.arrives = max(self._agenda.now + late, end.other.arrives)
            client = end.other if end.number % 2 else end
            self._late_until[client.loop.name] = max(end.other.arrives, self._late_until.get(client.loop.name, -inf))
        if is_outdated and end.number in self.ends:
            self._no_longer_waits(end)
            del self.ends[end.number]
            # The other end cannot know: what was sent before still arrives, in order, and then the end of it.
            self._deliver(end.other, data)
            self._deliver(end.other, None)
            end.lost(_reset())
            return True
        return False

    def close(self, end: Transport, *, at_once: bool) -> None:
        """Close an end: the other end sees it after the data sent before, or, for a reset, at once."""
        self._no_longer_waits(end)
        if self.ends.pop(end.number, None) is not None:
            self._deliver(end.other, _reset() if at_once else None)

    def _deliver(self, end: Transport, what: bytes | Exception | None) -> None:
        at = end.arrives = max(self._agenda.now + self._travel(), end.arrives)
        self._agenda.later(at, Handle((end.loop, self._arrive, (end, what))))

    def _arrive(self, end: Transport, what: bytes | Exception | None) -> None:
        if self._blocked and (end.other.loop.name, end.loop.name) in self._blocked:
            self._held.append((end, what))
        elif end.number not in self.ends:
            if isinstance(what, bytes) and end.other.number in self.ends:
                self._deliver(end.other, _reset())
        elif isinstance(what, bytes):
            self.deliveries += 1
            self._no_longer_waits(end)
            self._watch(end, what)
            end.received(what)
        else:
            self._no_longer_waits(end)
            del self.ends[end.number]
            end.lost(what)

    def _travel(self) -> float:
        return self.conditions.delay + self.conditions.spread * self._rng.random()


def _reset() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")


class Listener:
    """Server that `create_server` returns."""

    def __init__(self, network: Network, host: str, port: int) -> None:
        self._network = network
        self._address = host, port

    @property
    def sockets(self) -> list[Listener]:
        """Itself: a broker only reads its address."""
        return [self]

    def getsockname(self) -> tuple[str, int]:
        """Return host and port."""
        return self._address

    def close(self) -> None:
        """Stop accepting connections."""
        self._network.unlisten(self._address[1])

    async def wait_closed(self) -> None:
        """Return at once: closing takes no time here."""
