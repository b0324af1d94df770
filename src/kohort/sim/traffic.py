"""The clients of a world that read and write records: what happens to them, and whether all is read (L7)."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from kohort.model import TopicPartition
from kohort.sim.application import Application, Habits
from kohort.sim.disk import PartitionId
from kohort.sim.files import FilesDisk
from kohort.sim.plan import Step
from kohort.sim.process import Process
from kohort.sim.reader import LoneReader, Reader
from kohort.sim.records import Records
from kohort.sim.writer import Writer

if TYPE_CHECKING:
    from kohort.sim.world import World

Client = LoneReader | Writer


class Traffic:
    """Clients of a world that are no members of groups: writers first, then readers of their own."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._dice = Random(f"traffic {world.plan.seed}")
        plan = world.plan
        deleted = frozenset(step.value.split()[0] for step in plan.steps if step.what == "delete")
        self.records = Records(lambda: world.site.disk.topics, deleted)
        names = [f"writer-{number}" for number in range(plan.writers)]
        names += [f"reader-{number}" for number in range(len(plan.readers))]
        self.processes = [world.new_process(name) for name in names]
        self._clients: list[Client | None] = [None] * len(names)

    def begin(self) -> None:
        """Start them all."""
        for number in range(len(self.processes)):
            self.start(number)

    def start(self, number: int) -> None:
        """Begin another life of that process."""
        process, plan, bootstrap = self.processes[number], self._world.plan, self._world.site.bootstrap
        if process.alive or self._world.resting:
            return
        name = f"{process.name}.{process.lives}"
        client: Client
        if number < plan.writers:
            client = Writer(name, bootstrap, self.records, self._dice)
        else:
            partitions = plan.readers[number - plan.writers]
            client = LoneReader(name, partitions, bootstrap, plan.metadata_age, self.records, self._dice)
        self._clients[number] = client
        process.start(client.run)

    def application(self, name: str, habits: Habits) -> Application:
        """A member of a group that reads records."""
        world = self._world
        return Reader(
            name, habits, world.site.bootstrap, world.ledger, world.plan.metadata_age, self.records, self._dice
        )

    # What happens

    def produce(self, topic: str, count: int) -> bool:
        """Have some writer write so many records to each partition."""
        writers = [one for one in self._clients if isinstance(one, Writer)]
        if not writers:
            return False
        self._dice.choice(writers).produce(topic, count)
        return True

    def process(self, step: Step) -> Process:
        """The one that a step means."""
        return self.processes[step.who % len(self.processes)]

    def step(self, step: Step) -> bool:
        """An accident of one of the processes."""
        number = step.who % len(self.processes)
        process, world = self.process(step), self._world
        if not process.alive:
            return False
        match step.what:
            case "client-kill":
                process.kill()
                self._clients[number] = None
                world.after(float(step.value), partial(self.start, number))
            case "client-stop":
                process.stop()
                world.after(float(step.value), process.go_on)
            case "client-reset":
                for end in [end for end in world.network.connections() if end.loop is process.loop]:
                    world.network.reset(end)
            case _:
                raise ValueError(f"no step is called {step.what!r}")
        return True

    def forget_sessions(self) -> bool:
        """Brokers forget all fetch sessions."""
        forgotten = 0
        for broker in self._world.site.running.values():
            for session_id in list(broker.fetch_sessions._sessions):
                broker.fetch_sessions.close(session_id)
                forgotten += 1
        return forgotten > 0

    def spoil(self) -> bool:
        """A bit of some record flips on the disk, under a broker that runs."""
        disk = self._world.site.disk
        spoiled = disk.spoil(self._dice) if isinstance(disk, FilesDisk) else None
        if spoiled is not None:
            self.records.damaged.add(spoiled)
        return spoiled is not None

    def written(self, partition: PartitionId, topic: str, data: bytes) -> None:
        """These batches are durable."""
        end = self.records.written(partition, topic, data)
        self._world.ledger.produced[partition[0], TopicPartition(topic, partition[1])] = end

    # The end

    def be_calm(self) -> None:
        """No more accidents: what was killed runs again."""
        for number, process in enumerate(self.processes):
            process.go_on()
            self.start(number)

    def unread(self) -> str:
        """What a reader has not read though it can be read; "" for nothing."""
        reads = [(one.name, one.positions, one.partitions) for one in self._clients if isinstance(one, LoneReader)]
        members = [one for one in self._world.applications if one is not None]
        reads += [(one.name, one.positions, tuple(one.positions)) for one in members]
        for name, positions, partitions in reads:
            for partition in partitions:
                end = self.records.end_of(partition)
                if end is not None and positions.get(partition) != end:
                    return f"{name} is at {positions.get(partition)} of {end} in {partition}"
        return ""

    def leave(self) -> None:
        """All of them end."""
        for client in self._clients:
            if isinstance(client, Writer):
                client.leave()
            elif client is not None:
                client.leaves = True

    def remaining(self) -> str:
        """Who has not ended yet; "" for nobody."""
        for number, client in enumerate(self._clients):
            if client is not None and not client.left:
                return f"{client.name} does not end"
            self.processes[number].kill()
            self._clients[number] = None
        for broker in self._world.site.running.values():
            if broker.parked_fetches.count:
                return f"{broker.parked_fetches.count} fetches are still parked"
        return ""
