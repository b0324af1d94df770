"""A process of the simulated world: it can be started, killed, stopped and let go on."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from kohort.sim.loop import Agenda, VirtualLoop
from kohort.sim.network import Network


class Process:
    """One program on a machine of its own. Each start is a new life with a loop of its own."""

    def __init__(
        self, name: str, agenda: Agenda, network: Network, failed: Callable[[str, BaseException], None]
    ) -> None:
        """`failed` is told what nobody caught in it."""
        self.name = name
        self.loop: VirtualLoop | None = None
        """The present life's; None between lives."""
        self.lives = 0
        self.past: list[VirtualLoop] = []
        """Those of earlier lives, whose tasks still hang in memory."""
        self._agenda = agenda
        self._network = network
        self._failed = failed

    @property
    def alive(self) -> bool:
        """Whether it exists, even if it is stopped."""
        return self.loop is not None

    @property
    def runs(self) -> bool:
        """Whether it exists and is not stopped."""
        return self.loop is not None and self.loop.stands is None

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], rate: float = 1.0) -> VirtualLoop:
        """Begin a life with that work."""
        assert self.loop is None, f"{self.name} runs already"
        self.lives += 1
        loop = VirtualLoop(self._agenda, self.name, self._network, lambda problem: self._failed(self.name, problem))
        loop.rate = rate
        self.loop = loop
        loop.call_soon(lambda: loop.create_task(work(), name=self.name))
        return loop

    def kill(self, *, silently: bool = False) -> None:
        """SIGKILL, or with `silently` the power of its machine: nothing tells its peers."""
        if self.loop is not None:
            self.loop.die()
            self._network.machine_gone(self.loop, silently=silently)
            self.past.append(self.loop)
            self.loop = None

    def stop(self) -> None:
        """SIGSTOP."""
        if self.runs:
            assert self.loop is not None
            self.loop.stop_running()

    def go_on(self) -> None:
        """SIGCONT."""
        if self.loop is not None:
            self.loop.go_on()
