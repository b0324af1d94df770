"""Process of the simulated world, which can be started, killed, stopped and resumed."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from math import inf
from typing import Any

from kohort.sim.environment.loop import Agenda, VirtualLoop
from kohort.sim.environment.network import Network


class Process:
    """Program on a machine of its own. Each start begins a new run with its own loop."""

    def __init__(
        self, name: str, agenda: Agenda, network: Network, failed: Callable[[str, BaseException], None]
    ) -> None:
        """Create the process. `failed` receives exceptions that are not caught in it."""
        self.name = name
        self.loop: VirtualLoop | None = None
        """Loop of the current run; None if the process does not run."""
        self.starts = 0
        self.resumed_at = -inf
        """Time of the agenda at which it was last resumed."""
        self.past: list[VirtualLoop] = []
        """Loops of earlier runs, whose tasks are still in memory."""
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
        return self.loop is not None and self.loop.halted is None

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], rate: float = 1.0) -> VirtualLoop:
        """Start a run with that work."""
        assert self.loop is None, f"{self.name} runs already"
        self.starts += 1
        loop = VirtualLoop(self._agenda, self.name, self._network, lambda problem: self._failed(self.name, problem))
        loop.rate = rate
        self.loop = loop
        loop.call_soon(lambda: loop.create_task(work(), name=self.name))
        return loop

    def kill(self, *, silently: bool = False) -> None:
        """Send SIGKILL; with `silently`, power off its machine, so that its peers are not notified."""
        if self.loop is not None:
            self.loop.die()
            self._network.machine_gone(self.loop, silently=silently)
            self.past.append(self.loop)
            self.loop = None

    def stop(self) -> None:
        """Send SIGSTOP."""
        if self.runs:
            assert self.loop is not None
            self.loop.stop_running()

    def resume(self) -> None:
        """Send SIGCONT."""
        if self.loop is not None:
            if self.loop.halted is not None:
                self.resumed_at = self._agenda.now
            self.loop.resume()
