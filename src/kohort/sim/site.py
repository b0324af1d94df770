"""The brokers of the world: one disk, which one of them owns, and others that stand by to take it over.

They are production's brokers. What a cluster of them will decide about leadership (a lease, an epoch) is decided here:
who starts gets the disk at the next epoch, and whoever had it before can write no more.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

from kohort.broker.leadership import Leadership
from kohort.broker.server import Broker, BrokerOptions
from kohort.broker.shared import Shared
from kohort.coordinator import GroupShard
from kohort.log.cluster.processes import ProcessIdentity
from kohort.model import Millis
from kohort.sim.database import DatabaseStore
from kohort.sim.disk import Disk, SimulatedStore
from kohort.sim.loop import Agenda
from kohort.sim.network import Network
from kohort.sim.process import Process

FIRST_PORT = 9001
SHARDS = 3
LOOK_EVERY = 0.5
"""Seconds between two looks of a broker at its cluster: production's 20 ms would be most of what happens here."""
LEASE = 3.0
"""Seconds after which a broker that is not heard of loses the disk to another."""

Watch = Callable[[GroupShard, int, Callable[[], bool]], GroupShard]
"""Makes a coordinator of that partition that is looked at; the last argument says whether its broker still owns it."""


class SimulatedBroker(Broker):
    """Production's broker with the world's time and ids, and coordinators that are watched."""

    watch: Watch
    owns: Callable[[], bool]
    kill: Callable[[ProcessIdentity], None]
    """Ends the process of another broker."""

    def new_group_shard(self, partition: int) -> GroupShard:
        return self.watch(super().new_group_shard(partition), partition, self.owns)

    def _new_leadership(self) -> Leadership:
        leadership = super()._new_leadership()
        if isinstance(leadership, Shared):
            leadership.clock, leadership.kill, leadership.look_every_s = self._loop.time, self.kill, LOOK_EVERY
        return leadership


class Site:
    """All brokers. At most one owns the disk; `owner` is the one that took it last."""

    def __init__(
        self,
        agenda: Agenda,
        network: Network,
        dice: Random,
        settings: dict[str, str],
        brokers: int,
        disk: Disk,
        failed: Callable[[str, BaseException], None],
        watch: Watch,
    ) -> None:
        self.disk = disk
        self.owner: int | None = None
        self.wanted = True
        """Whether there shall be a broker; it is started again when it ends by itself."""
        self.running: dict[int, SimulatedBroker] = {}
        self.processes = [Process(f"broker-{number + 1}", agenda, network, failed) for number in range(brokers)]
        self.clocks = [0.0] * brokers
        """By how many seconds each machine's clock is wrong; a broker reads it once, when it starts."""
        self.takeovers = 0
        self.patience = 0.0
        """Seconds without a broker after which one is started."""
        self.starting: Callable[[], None] = lambda: None
        """Called when a broker begins a life."""
        self._idle_since: float | None = None
        self._back_at: dict[int, float] = {}
        """When each broker that ended shall begin again; only of those that serve together."""
        self._stores: dict[int, SimulatedStore] = {}
        self._agenda = agenda
        self._dice = dice
        self._settings = {"offsets.topic.num.partitions": str(SHARDS), **settings}
        self._watch = watch

    @property
    def bootstrap(self) -> str:
        """Where clients look for brokers."""
        return ",".join(f"127.0.0.1:{FIRST_PORT + number}" for number in range(len(self.processes)))

    @property
    def active(self) -> SimulatedBroker | None:
        """The broker that owns the disk and runs."""
        if self.owner is None or not self.processes[self.owner].runs or self.disk.has_lapsed:
            return None
        return self.running.get(self.owner)

    @property
    def victim(self) -> int | None:
        """The broker whose end groups notice."""
        return self.owner

    def begin(self) -> None:
        """The world starts."""
        self.start(0)

    def look_after(self, now: float) -> None:
        """What an operator does, now and then: partitions of a broker were stopped by their disk, or none serves."""
        if self.active is not None and self.owner is not None and self._stores[self.owner].stopped:
            self.kill(self.owner)
        if self.wanted and self.active is None:
            # From the first outage on: later ones are short, and so there are more of them.
            self._idle_since = now if self._idle_since is None else self._idle_since
            if now - self._idle_since > self.patience:
                self.take_over()

    def serves(self, number: int) -> bool:
        """Whether that broker is not one that merely has not noticed yet that it is over."""
        return number == self.owner

    def fails(self, number: int, seconds: float) -> None:
        """That broker is about to end, or to stand still; nobody replaces it for so long."""
        self.patience = seconds

    def be_calm(self) -> None:
        """No more faults: whoever still believes to serve ends."""
        self.patience = 0.0
        for number, process in enumerate(self.processes):
            process.go_on()
            if process.alive and not self.serves(number):
                self.kill(number)

    def start(self, number: int) -> None:
        """That broker takes the disk; whoever had it finds out when it writes."""
        process = self.processes[number]
        if process.alive:
            return
        if self.disk.is_exclusive:
            for other in [other for other, one in enumerate(self.processes) if one.alive]:
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
        store = self._stores[number] = self.disk.open(self._dice, number + 1, loop.time)
        wrong = self.clocks[number]
        broker = SimulatedBroker(
            BrokerOptions(port=FIRST_PORT + number, node_id=number + 1, settings=self._settings), store
        )
        broker.owns = partial(self._owns, number, store)
        if not isinstance(store, DatabaseStore):  # that one sees to it itself
            # What has lost its lease answers nobody: else it would tell what is no longer true.
            broker.fenced = lambda: not self._owns(number, store)
        broker.kill = lambda process: self.kill(process.process_id - 1)
        broker.now = lambda: Millis((loop.time() + wrong) * 1000)
        broker.fresh_id = lambda: UUID(int=self._dice.getrandbits(128))
        broker.watch = self._watch
        if isinstance(store, DatabaseStore):
            loop.create_task(store.keep(broker, partial(self.kill, number)))
        await broker.start()
        self.running[number] = broker

    def _owns(self, number: int, store: SimulatedStore) -> bool:
        """Whether what that life of the broker writes counts."""
        return self._stores.get(number) is store and self.serves(number)

    def _blocking(self, number: int, work: Callable[[], Any]) -> tuple[float, Callable[[], Any]]:
        """What the broker's threads do takes the disk's time."""
        return self._dice.random() * self.disk.slowness, work

    def stop(self, number: int) -> None:
        """SIGTERM: it tells whoever waits, syncs, and ends."""
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
        """SIGKILL; a sync that is under way may be half on the disk."""
        self.running.pop(number, None)
        store = self._stores.pop(number, None)
        if store is not None:
            store.power_lost()
        self.processes[number].kill(silently=silently)
        if self.owner == number:
            self.owner = None

    def cut_off(self, number: int) -> Callable[[], None] | None:
        """Let nothing pass between that broker and the database; returns what ends that. None where there is none."""
        store = self._stores.get(number)
        if not isinstance(store, DatabaseStore):
            return None
        store.cut_off = True
        return partial(setattr, store, "cut_off", False)

    def heal(self) -> None:
        """Every broker reaches the database."""
        for store in self._stores.values():
            if isinstance(store, DatabaseStore):
                store.cut_off = False

    def take_over(self) -> None:
        """If no broker serves, some broker starts; one that only stands still has lost its lease by now."""
        if not self.wanted or self.active is not None or not self.disk.is_free:
            return
        free = [number for number, process in enumerate(self.processes) if not process.alive]
        if free:
            self.start(self._dice.choice(free))
        elif self.owner is not None and not self.processes[self.owner].runs:
            self.kill(self.owner)  # nobody else is there: whoever watches it starts it anew
            self.take_over()
