"""Brokers of a world that form a cluster: all serve at once, and production's code decides on leadership.

A broker that exits is restarted after a while. The others end a suspended broker, as they would end
its process.
"""

from __future__ import annotations

from kohort.sim.processes.brokers import Brokers, SimulatedBroker


class ClusterBrokers(Brokers):
    """Set of brokers over one directory."""

    @property
    def active(self) -> SimulatedBroker | None:
        running = [number for number, process in enumerate(self.processes) if process.runs and number in self.running]
        return self.running[running[0]] if running else None

    @property
    def serving(self) -> list[SimulatedBroker]:
        return [broker for number, broker in self.running.items() if self.processes[number].runs]

    @property
    def all_serve(self) -> bool:
        return len(self.serving) == len(self.processes)

    @property
    def victim(self) -> int | None:
        running = [number for number, process in enumerate(self.processes) if process.runs]
        return self._rng.choice(running) if running else None

    def begin(self) -> None:
        for number in range(len(self.processes)):
            self.start(number)

    def start(self, number: int) -> None:
        if not self.processes[number].alive:
            self._begin(number)

    def serves(self, number: int) -> bool:
        return True

    def fails(self, number: int, seconds: float) -> None:
        self._back_at[number] = self._agenda.now + seconds

    def supervise(self, now: float) -> None:
        for number, process in enumerate(self.processes):
            store = self._stores.get(number)
            if process.runs and store is not None and store.stopped:
                self.kill(number)
            elif not process.alive and self.wanted and self._agenda.now >= self._back_at.get(number, 0.0):
                self.start(number)

    def end_faults(self) -> None:
        self._back_at.clear()
        super().end_faults()
