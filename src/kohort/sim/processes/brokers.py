"""Brokers of the world: one of them owns the single disk, and the others are ready to take it over.

They are production's brokers. This module replaces the cluster's decisions on leadership (a lease,
an epoch): a broker that starts gets the disk at the next epoch, and the previous owner can no
longer write.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

from kohort.broker import BrokerOptions
from kohort.broker.cluster import DirectoryCluster
from kohort.broker.logs import Leadership
from kohort.coordinator import GroupShard
from kohort.log.cluster import ProcessIdentity
from kohort.model import Millis
from kohort.sim.environment import Agenda, DatabaseStore, Disk, Network, Process, SimulatedStore
from kohort.testing import ControlledClock, Observer, TappedBroker

FIRST_PORT = 9001
SHARDS = 3
LOOK_EVERY = 0.5
"""Interval in seconds at which a broker checks its cluster.

With production's 20 ms, most events would be such checks.
"""
LEASE = 3.0
"""Time in seconds after which a broker that does not respond loses the disk to another."""

Observations = Callable[[GroupShard, int, Callable[[], bool]], GroupShard]
"""Function that wraps the coordinator of a partition for observation.

The last argument returns whether its broker still owns the partition.
"""


Observers = Callable[[str, Callable[[], bool]], Observer]
"""Function that returns the observer of a broker that starts, from its name and whether it still owns the log."""


class SimulatedBroker(TappedBroker):
    """Production's broker with the world's time and ids, with observed coordinators and connections."""

    observations: Observations
    controlled: ControlledClock
    owns: Callable[[], bool]
    kill: Callable[[ProcessIdentity], None]
    """Callback that kills the process of another broker."""

    def new_group_shard(self, partition: int) -> GroupShard:
        return self.observations(super().new_group_shard(partition), partition, self.owns)

    def _new_leadership(self) -> Leadership:
        leadership = super()._new_leadership()
        if isinstance(leadership, DirectoryCluster):
            leadership.clock, leadership.kill, leadership.look_every_s = self._loop.time, self.kill, LOOK_EVERY
        return leadership


class Brokers:
    """Set of all brokers. At most one owns the disk; `owner` is the one that took it last."""

    def __init__(
        self,
        agenda: Agenda,
        network: Network,
        rng: Random,
        settings: dict[str, str],
        brokers: int,
        disk: Disk,
        failed: Callable[[str, BaseException], None],
        observations: Observations,
    ) -> None:
        self.disk = disk
        self.owner: int | None = None
        self.wanted = True
        """Whether a broker should run; one that exits is then restarted."""
        self.running: dict[int, SimulatedBroker] = {}
        self.processes = [Process(f"broker-{number + 1}", agenda, network, failed) for number in range(brokers)]
        self.clocks = [0.0] * brokers
        """Error of each machine's clock in seconds; a broker reads it once, when it starts."""
        self.ahead: Millis = 0
        """Time that was skipped on the clocks of all brokers."""
        self.takeovers = 0
        self.restart_delay = 0.0
        """Time in seconds without a broker after which one is started."""
        self.observer: Observers = lambda name, owns: lambda event: None
        self.starting: Callable[[], None] = lambda: None
        """Callback for each start of a broker."""
        self._idle_since: float | None = None
        self._back_at: dict[int, float] = {}
        """Time at which each failed broker should start again; used only if all brokers serve together."""
        self._stores: dict[int, SimulatedStore] = {}
        self._agenda = agenda
        self._rng = rng
        self._settings = {"offsets.topic.num.partitions": str(SHARDS), **settings}
        self._observations = observations

    @property
    def bootstrap(self) -> str:
        """Bootstrap addresses for clients."""
        return ",".join(f"127.0.0.1:{FIRST_PORT + number}" for number in range(len(self.processes)))

    @property
    def active(self) -> SimulatedBroker | None:
        """Running broker that owns the disk."""
        if self.owner is None or not self.processes[self.owner].runs or self.disk.has_lapsed:
            return None
        return self.running.get(self.owner)

    @property
    def serving(self) -> list[SimulatedBroker]:
        """All brokers that serve now."""
        return [] if self.active is None else [self.active]

    @property
    def all_serve(self) -> bool:
        """Whether each broker serves that should."""
        return self.active is not None

    @property
    def starts(self) -> int:
        """Number of times that a broker has been started."""
        return sum(process.starts for process in self.processes)

    @property
    def victim(self) -> int | None:
        """Broker whose failure affects groups."""
        return self.owner

    def begin(self) -> None:
        """Start the brokers at the start of the world."""
        self.start(0)

    def supervise(self, now: float) -> None:
        """Act as the operator: kill a broker whose disk has stopped partitions, and start one if none serves."""
        if self.active is not None and self.owner is not None and self._stores[self.owner].stopped:
            self.kill(self.owner)
        if self.wanted and self.active is None:
            # The time counts from the first outage on: later outages are shorter, so more of them fit.
            self._idle_since = now if self._idle_since is None else self._idle_since
            if now - self._idle_since > self.restart_delay:
                self.take_over()

    def serves(self, number: int) -> bool:
        """Return False for a broker that has lost the disk and has not detected it yet."""
        return number == self.owner

    def fails(self, number: int, seconds: float) -> None:
        """Prepare for the failure of that broker, or its suspension: no other replaces it within `seconds`."""
        self.restart_delay = seconds

    def end_faults(self) -> None:
        """End all faults, and kill brokers that still run without owning the disk."""
        self.restart_delay = 0.0
        for number, process in enumerate(self.processes):
            process.resume()
            if process.alive and not self.serves(number):
                self.kill(number)

    def start(self, number: int) -> None:
        """Start that broker, which takes the disk; the previous owner detects that when it writes."""
        process = self.processes[number]
        if process.alive:
            return
        if self.disk.is_exclusive:
            for other in [other for other, process in enumerate(self.processes) if process.alive]:
                self.kill(other)
        self.owner = number
        self.takeovers += 1
        self.starting()
        self._begin(number)

    def _begin(self, number: int) -> None:
        self.processes[number].start(partial(self._serve, number)).blocking = partial(self._blocking, number)

    async def _serve(self, number: int) -> None:
        loop = self.processes[number].loop
        assert loop is not None
        store = self._stores[number] = self.disk.open(self._rng, number + 1, loop.time)
        wrong = self.clocks[number]
        clock = ControlledClock(lambda: Millis((loop.time() + wrong) * 1000))
        if self.ahead:
            clock.jump(self.ahead)
        broker = SimulatedBroker(
            BrokerOptions(port=FIRST_PORT + number, node_id=number + 1, settings=self._settings),
            store,
            clock,
            observers=[self.observer(self.processes[number].name, partial(self._owns, number, store))],
        )
        broker.controlled = clock
        broker.owns = partial(self._owns, number, store)
        if not isinstance(store, DatabaseStore):  # that one checks its own lease
            # A broker that has lost its lease must not answer, because its state may be outdated.
            broker.fenced = lambda: not self._owns(number, store)
        broker.kill = lambda process: self.kill(process.process_id - 1)
        broker.fresh_id = lambda: UUID(int=self._rng.getrandbits(128))
        broker.observations = self._observations
        if isinstance(store, DatabaseStore):
            loop.create_task(store.keep(broker, partial(self.kill, number)))
        await broker.start()
        self.running[number] = broker

    def _owns(self, number: int, store: SimulatedStore) -> bool:
        """Return whether writes of that run of the broker count."""
        return self._stores.get(number) is store and self.serves(number)

    def _blocking(self, number: int, work: Callable[[], Any]) -> tuple[float, Callable[[], Any]]:
        """Delay work in the broker's threads by the latency of the disk."""
        return self._rng.random() * self.disk.slowness, work

    def stop(self, number: int) -> None:
        """Send SIGTERM: the broker answers waiting requests, syncs, and exits."""
        broker, process = self.running.get(number), self.processes[number]
        if broker is not None and process.runs:
            assert process.loop is not None
            process.loop.create_task(self._end(number, broker))

    async def _end(self, number: int, broker: SimulatedBroker) -> None:
        try:
            await broker.stop()
        except OSError as problem:
            if problem.errno not in (errno.ESTALE, self.disk.failure):
                raise
        if self.owner == number:
            self.disk.left()
        self.kill(number)

    def kill(self, number: int, *, silently: bool = False) -> None:
        """Send SIGKILL; a sync in progress may be on the disk partially."""
        self.running.pop(number, None)
        store = self._stores.pop(number, None)
        if store is not None:
            store.power_lost()
        self.processes[number].kill(silently=silently)
        if self.owner == number:
            self.owner = None

    def release_files(self) -> None:
        """Close the files of the brokers that still run, because the world has ended."""
        for store in self._stores.values():
            store.power_lost()
        self._stores.clear()

    def cut_off(self, number: int) -> Callable[[], None] | None:
        """Disconnect that broker from the database.

        Returns a function that reconnects it, or None if there is no database.
        """
        store = self._stores.get(number)
        if not isinstance(store, DatabaseStore):
            return None
        store.cut_off = True
        return partial(setattr, store, "cut_off", False)

    def heal(self) -> None:
        """Reconnect every broker with the database."""
        for store in self._stores.values():
            if isinstance(store, DatabaseStore):
                store.cut_off = False

    def take_over(self) -> None:
        """Start a broker if none serves; a suspended broker has lost its lease by now."""
        if not self.wanted or self.active is not None or not self.disk.is_free:
            return
        free = [number for number, process in enumerate(self.processes) if not process.alive]
        if free:
            self.start(self._rng.choice(free))
        elif self.owner is not None and not self.processes[self.owner].runs:
            self.kill(self.owner)  # there is no other broker: its supervisor restarts it
            self.take_over()
