"""The network between the processes: bytes in order on each connection, late or broken as the seed has it.

A connection's two ends are asyncio transports, so the protocols on both sides are production's. Bytes may come late, in
pieces, or never: a way that is blocked holds what is sent on it, like TCP which sends again, until it heals or the
connection is reset.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from kohort.sim.aims import Aims
from kohort.sim.end import End
from kohort.sim.loop import Agenda, Handle, VirtualLoop

Watcher = Callable[[End, bytes], None]
ProtocolFactory = Callable[[], asyncio.BaseProtocol]


@dataclass(slots=True)
class Weather:
    """How the network behaves at the moment; times in seconds."""

    delay: float = 0.0005
    """The least that anything takes one way."""
    spread: float = 0.001
    """Up to so much more, drawn for each piece."""
    pieces: float = 0.0
    """How likely a write arrives in two pieces."""


class Network:
    """Who listens where, which connections there are, which ways are blocked."""

    def __init__(self, agenda: Agenda, dice: Random, watch: Watcher) -> None:
        """`watch` sees all bytes as they arrive."""
        self.weather = Weather()
        self.aims = Aims()
        self.ends: dict[int, End] = {}
        """The open ends of connections, by number: even for who asked, odd for who accepted."""
        self.deliveries = 0
        self.gone = False
        """The world ends: nobody reaches anybody."""
        self._agenda = agenda
        self._dice = dice
        self._watch = watch
        self._listening: dict[int, tuple[VirtualLoop, ProtocolFactory]] = {}
        self._blocked: set[tuple[str, str]] = set()
        self._held: list[tuple[End, bytes | Exception | None]] = []
        self._last_number = 0

    # What the loops ask for

    def listen(self, loop: VirtualLoop, factory: ProtocolFactory, host: str, port: int) -> Listener:
        """Accept connections to that port, as long as the process lives."""
        if port in self._listening and self._listening[port][0].stands != "dead":
            raise OSError(errno.EADDRINUSE, "Address already in use")
        self._listening[port] = loop, factory
        return Listener(self, host, port)

    def unlisten(self, port: int) -> None:
        """Accept no more."""
        self._listening.pop(port, None)

    async def connect(
        self, loop: VirtualLoop, factory: ProtocolFactory, host: str, port: int
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """A connection to whoever listens on that port; refused where nobody does, for ever where no way leads."""
        patience = 1.0
        while True:
            if self.gone:
                raise ConnectionRefusedError(errno.ECONNREFUSED, "the world is over")
            await asyncio.sleep(2 * self._travel())
            found = self._listening.get(port)
            if found is None or found[0].stands == "dead":
                raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
            there, accept = found
            if (loop.name, there.name) not in self._blocked and (there.name, loop.name) not in self._blocked:
                break
            await asyncio.sleep(patience)  # the kernel asks again, ever more rarely
            patience *= 2
        self._last_number += 2
        number = self._last_number
        near = End(self, loop, factory(), number, (host, port))
        far = End(self, there, accept(), number + 1, (host, 40_000 + number % 20_000))
        near.other, far.other = far, near
        self.ends[number], self.ends[number + 1] = near, far
        there.call_soon(far.begin)
        near.begin()
        return near, near.protocol

    # Faults

    def block(self, sender: str, receiver: str) -> None:
        """Nothing arrives that way until it heals."""
        self._blocked.add((sender, receiver))

    def heal(self, sender: str, receiver: str) -> None:
        """The way is free again: what was held arrives."""
        self._blocked.discard((sender, receiver))
        held, self._held = self._held, []
        for end, what in held:
            self._agenda.ready.append(Handle((end.loop, self._arrive, (end, what))))

    def heal_all(self) -> None:
        """Every way is free."""
        for way in sorted(self._blocked):
            self.heal(*way)

    def connections(self) -> list[End]:
        """The ends of those that asked for a connection."""
        return [end for number, end in self.ends.items() if not number % 2]

    def reset(self, end: End) -> None:
        """Both sides lose the connection, and what is under way on it."""
        for one in (end, end.other):
            if self.ends.pop(one.number, None) is not None:
                one.lost(_reset())

    def machine_gone(self, loop: VirtualLoop, *, silently: bool) -> None:
        """The process is dead. Its kernel closes its connections; if that is gone too, nobody tells the others."""
        for end in [end for end in self.ends.values() if end.loop is loop]:
            del self.ends[end.number]
            if not silently:
                self._deliver(end.other, _reset())

    # Traffic

    def carry(self, end: End, data: bytes) -> None:
        """Bytes written at `end` travel to the other one."""
        if not self.aims.is_idle and self._strikes(end, data):
            return
        if self.weather.pieces and len(data) > 1 and self._dice.random() < self.weather.pieces:
            cut = self._dice.randrange(1, len(data))
            self._deliver(end.other, data[:cut])
            data = data[cut:]
        self._deliver(end.other, data)

    def _strikes(self, end: End, data: bytes) -> bool:
        """Delay what is aimed at; whether it is lost, and the connection with it."""
        late = self.aims.answer(end.number) if end.number % 2 else self.aims.request(end.other.number, data)
        if late < 0:
            self.reset(end)
            return True
        if late:
            end.other.arrives = max(self._agenda.now + late, end.other.arrives)
        return False

    def close(self, end: End, *, at_once: bool) -> None:
        """That side is done: the other sees it behind what was sent, or at once what a reset is."""
        if self.ends.pop(end.number, None) is not None:
            self._deliver(end.other, _reset() if at_once else None)

    def _deliver(self, end: End, what: bytes | Exception | None) -> None:
        at = end.arrives = max(self._agenda.now + self._travel(), end.arrives)
        self._agenda.later(at, Handle((end.loop, self._arrive, (end, what))))

    def _arrive(self, end: End, what: bytes | Exception | None) -> None:
        if self._blocked and (end.other.loop.name, end.loop.name) in self._blocked:
            self._held.append((end, what))
        elif end.number not in self.ends:
            if isinstance(what, bytes) and end.other.number in self.ends:
                self._deliver(end.other, _reset())
        elif isinstance(what, bytes):
            self.deliveries += 1
            self._watch(end, what)
            end.received(what)
        else:
            del self.ends[end.number]
            end.lost(what)

    def _travel(self) -> float:
        return self.weather.delay + self.weather.spread * self._dice.random()


def _reset() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")


class Listener:
    """What `create_server` returns."""

    def __init__(self, network: Network, host: str, port: int) -> None:
        self._network = network
        self._address = host, port

    @property
    def sockets(self) -> list[Listener]:
        """Itself: a broker asks it for its address only."""
        return [self]

    def getsockname(self) -> tuple[str, int]:
        """Host and port."""
        return self._address

    def close(self) -> None:
        """Accept no more."""
        self._network.unlisten(self._address[1])

    async def wait_closed(self) -> None:
        """Nothing takes time here."""
