"""A broker in virtual time: what takes minutes passes in an instant, and no test waits for a real clock."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from kohort.broker import Broker, BrokerOptions, Clock
from kohort.log import LogStore
from kohort.model import Millis
from kohort.sim.environment.loop import Agenda, VirtualLoop
from kohort.sim.environment.network import Network
from tests.broker.peer import Peer, connected

_T = TypeVar("_T")

START_S = 1_800_000_000.0
"""In 2027: records with times of the past are taken."""
PATIENCE_S = 3_600.0
"""Virtual seconds that one step of a test may take."""
PORT = 9_092


class VirtualBroker:
    """A broker in memory, or over a store of the test's own, and its network. `settings` are Kafka's."""

    def __init__(
        self,
        settings: dict[str, str] | None = None,
        store: LogStore | None = None,
        *,
        host: str = "127.0.0.1",
        network: type[Network] = Network,
    ) -> None:
        self.agenda = Agenda(START_S)
        self.network = network(self.agenda, Random(1), lambda end, data: None)
        self.loop = VirtualLoop(self.agenda, "broker", self.network)
        self.broker = Broker(BrokerOptions(host=host, port=PORT, settings=settings or {}), store, Clock(self.now))
        self.play(self.broker.start())

    def now(self) -> Millis:
        """Return the time of the loop."""
        return Millis(self.loop.time() * 1000)

    def play(self, steps: Coroutine[Any, Any, _T]) -> _T:
        """Run the coroutine to its end, in as many virtual seconds as it takes."""
        task = self.loop.create_task(steps)
        task.add_done_callback(lambda _: self._halt())
        self.agenda.run(self.agenda.now + PATIENCE_S)
        assert self.agenda.halted, f"not done after {PATIENCE_S:.0f} virtual seconds"
        self.agenda.halted = False
        return task.result()

    def let_pass(self, seconds: float) -> None:
        """Let that much time go by."""
        self.agenda.run(self.agenda.now + seconds)

    def _halt(self) -> None:
        self.agenda.halted = True


async def eventually(reached: Callable[[], bool]) -> None:
    """Let virtual time pass until something inside the broker is so."""
    async with asyncio.timeout(60):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def in_virtual_time(
    steps: Callable[[VirtualBroker, Peer], Coroutine[Any, Any, _T]],
    settings: dict[str, str] | None = None,
    store: LogStore | None = None,
) -> _T:
    """Play a test with one peer, then stop the broker; return what the test returns."""
    world = VirtualBroker(settings, store)

    async def run() -> _T:
        async with connected(f"127.0.0.1:{PORT}") as peer:
            return await steps(world, peer)

    result = world.play(run())
    world.play(world.broker.stop())
    return result
