"""Clients of a world that read and write records, their faults, and the check that all records are read (L7)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Protocol, assert_never

from kohort.model import TopicPartition
from kohort.sim.checks import GroupProgress, Records, TransactionChecks
from kohort.sim.environment import Blocked, FilesDisk, Network, PartitionId, Process
from kohort.sim.plans import COPIES, SOURCE, ApplicationSettings, Plan, copying_of
from kohort.sim.processes.application import Application
from kohort.sim.processes.brokers import Brokers
from kohort.sim.processes.copier import CommittedReader, Copier
from kohort.sim.processes.gateways import Gateways
from kohort.sim.processes.member_copier import MemberCopier
from kohort.sim.processes.reader import LoneReader, Reader
from kohort.sim.processes.writer import Writer
from kohort.sim.steps import (
    BrokerClockJump,
    BrokerForgetFetchSessions,
    ClientBlockIncoming,
    ClientBlockOutgoing,
    ClientDisconnect,
    ClientKill,
    ClientResetConnections,
    ClientSeek,
    ClientSuspend,
    DiskBitFlipInRecords,
    RecordStep,
    TopicDelete,
)  # fmt: skip

Client = LoneReader | Writer | Copier | CommittedReader

_READERS = 2
"""Number of readers of transactional copies."""
_HEALTHY_FOR = 20.0
"""Time in seconds in which a broker detects a timeout and writes markers."""

_PRODUCER_EXPIRATION_S = 86_400.0
"""`producer.id.expiration.ms` of the brokers, which is the default."""


class RecordWorld(Protocol):
    """World as its clients of records use it."""

    plan: Plan
    brokers: Brokers
    gateways: Gateways
    network: Network
    progress: GroupProgress
    applications: list[Application | None]
    resting: bool

    @property
    def now(self) -> float:
        """Time in seconds since the start."""
        ...

    def new_process(self, name: str) -> Process:
        """Return a process that is not started yet."""
        ...

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        """Call a function later, outside of any process."""
        ...

    def block(self, name: str, what: Blocked, seconds: float) -> None:
        """Block the network between that process and all brokers."""
        ...

    def login(self, user: str) -> dict[str, Any]:
        """Return the options with which that user authenticates."""
        ...

    def reset_connections(self, process: Process) -> None:
        """Reset all connections of a process."""
        ...


class RecordClients:
    """Clients outside of groups: first the writers, then the readers."""

    def __init__(self, world: RecordWorld) -> None:
        self._world = world
        self._rng = Random(f"traffic {world.plan.seed}")
        plan = world.plan
        deleted = frozenset(step.topic for step in plan.steps if isinstance(step, TopicDelete))
        self.records = Records(
            lambda: world.brokers.disk.topics,
            deleted,
            lambda: max(world.brokers.clocks) >= _PRODUCER_EXPIRATION_S,
        )
        self.records.errors.now = lambda: world.now
        names = [f"writer-{number}" for number in range(plan.writers)]
        names += [f"reader-{number}" for number in range(len(plan.readers))]
        names += [f"copier-{number}" for number in range(plan.copiers)]
        names += [f"auditor-{number}" for number in range(_READERS if plan.copiers else 0)]
        self.checks = TransactionChecks(plan.transaction_timeout / 1000 + _HEALTHY_FOR) if plan.copiers else None
        """Checks of transactions, if there are any."""
        self._first_copier = plan.writers + len(plan.readers)
        self._looked: tuple[object, ...] = ()
        self.processes = [world.new_process(name) for name in names]
        self._clients: list[Client | None] = [None] * len(names)

    def begin(self) -> None:
        """Start all clients."""
        for number in range(len(self.processes)):
            self.start(number)

    def start(self, number: int) -> None:
        """Start another run of that process."""
        process, plan, bootstrap = self.processes[number], self._world.plan, self._bootstrap(number)
        if process.alive or self._world.resting:
            return
        name = f"{process.name}.{process.starts}"
        login = self._world.login(process.name)
        client: Client
        if number < plan.writers:
            client = Writer(name, bootstrap, self.records, self._rng, login)
        elif self.checks is not None and number >= self._first_copier + plan.copiers:
            client = CommittedReader(name, bootstrap, self.records, self.checks, self._rng, plan.metadata_age, login)
        elif self.checks is not None and number >= self._first_copier:
            copies = copying_of(number - self._first_copier, plan.transactional_ids)
            kind = Copier if plan.copying == "-" else partial(MemberCopier, plan.copying)
            timeout = plan.transaction_timeout
            client = kind(name, copies, bootstrap, timeout, self.records, self.checks, self._rng, login)
        else:
            partitions = plan.readers[number - plan.writers]
            client = LoneReader(name, partitions, bootstrap, plan.metadata_age, self.records, self._rng, login)
        self._clients[number] = client
        self.records.errors.begins(process.start(client.run), client.waits)

    def _bootstrap(self, number: int) -> str:
        way = self._world.plan.client_ways[number] if self._world.plan.client_ways else -1
        return self._world.brokers.bootstrap if way < 0 else self._world.gateways.bootstrap(way)

    def application(self, name: str, settings: ApplicationSettings) -> Application:
        """Return a group member that reads records."""
        world, login = self._world, self._world.login(name.rpartition(".")[0])
        age = world.plan.metadata_age
        return Reader(name, settings, world.brokers.bootstrap, world.progress, age, self.records, self._rng, login)

    # Events

    def produce(self, topic: str, count: int) -> bool:
        """Let a writer write `count` records to each partition; return False if there is none."""
        writers = [client for client in self._clients if isinstance(client, Writer)]
        if not writers:
            return False
        self._rng.choice(writers).produce(topic, count)
        return True

    def execute(self, step: RecordStep) -> bool:
        """Execute a fault; return whether it took effect."""
        match step:
            case BrokerForgetFetchSessions():
                return self._forget_sessions()
            case DiskBitFlipInRecords():
                return self._flip_a_bit()
        world, number = self._world, step.client % len(self.processes)
        process = self.processes[number]
        match step:
            case ClientDisconnect():
                world.block(process.name, Blocked.BOTH, step.seconds)
                return True
            case ClientBlockIncoming():
                world.block(process.name, Blocked.INCOMING, step.seconds)
                return True
            case ClientBlockOutgoing():
                world.block(process.name, Blocked.OUTGOING, step.seconds)
                return True
        if not process.alive:
            return False
        match step:
            case ClientSeek():
                return self._seek(number, step.seconds)
            case ClientKill():
                process.kill()
                self._clients[number] = None
                world.after(step.seconds, partial(self.start, number))
            case ClientSuspend():
                process.stop()
                world.after(step.seconds, process.resume)
            case ClientResetConnections():
                world.reset_connections(process)
            case _:
                assert_never(step)
        return True

    def _seek(self, number: int, seconds: float) -> bool:
        """Let a reader seek to the beginning, and after `seconds` to an offset that it has read."""
        reader = self._clients[number]
        if not isinstance(reader, LoneReader) or not reader.positions:
            return False
        partition = self._rng.choice(sorted(reader.positions))
        offset = self._rng.randint(0, reader.positions[partition])
        reader.seek_to_beginning(partition)
        self._world.after(seconds, partial(self._seek_on, number, reader, partition, offset))
        return True

    def _seek_on(self, number: int, reader: LoneReader, partition: TopicPartition, offset: int) -> None:
        if self._clients[number] is reader and self.processes[number].runs:
            reader.seek(partition, offset)

    def _forget_sessions(self) -> bool:
        """Let the brokers forget all fetch sessions."""
        forgotten = 0
        for broker in self._world.brokers.running.values():
            for session_id in list(broker.fetch_sessions._sessions):
                broker.fetch_sessions.close(session_id)
                forgotten += 1
        return forgotten > 0

    def _flip_a_bit(self) -> bool:
        """Flip a bit of a record on the disk, while a broker runs."""
        disk = self._world.brokers.disk
        flipped = disk.flip_a_bit_in_records(self._rng) if isinstance(disk, FilesDisk) else None
        if flipped is not None:
            self.records.damaged.add(flipped)
        return flipped is not None

    def written(self, partition: PartitionId, topic: str, data: bytes) -> None:
        """Record batches that became durable."""
        if self.checks is not None and topic in COPIES:
            self.checks.logs.written(partition, topic, data)
            self._world.after(0.0, self._check_stable_offsets)  # the broker makes the records readable now
            return
        end = self.records.written(partition, topic, data)
        self._world.progress.produced[partition[0], TopicPartition(topic, partition[1])] = end

    def _check_stable_offsets(self) -> None:
        """Check the last stable offsets of the brokers that serve."""
        if self.checks is None:
            return
        brokers = self._world.brokers
        places = [
            (topic, number)
            for topic in list(brokers.disk.topics.values())
            for number in range(topic.partitions if topic.name in COPIES else 0)
        ]
        for broker in brokers.serving:
            for topic, number in places:
                log = broker.topics.log(topic, number)
                if log is not None and brokers.disk.is_newest((topic.topic_id, number), log.leader_epoch):
                    self.checks.stable_offsets.found((topic.topic_id, number), log.last_stable_offset)

    def look(self) -> None:
        """Check the last stable offsets, and that they do not stand still."""
        brokers, plan, checks = self._world.brokers, self._world.plan, self.checks
        if checks is None:
            return
        self._check_stable_offsets()
        # The start of a transaction is a time of a clock, which may be that of another broker.
        jumps = any(isinstance(step, BrokerClockJump) for step in plan.steps)
        state = brokers.takeovers, brokers.disk.failure, brokers.disk.slowness, brokers.all_serve, brokers.starts
        is_healthy = not jumps and state == self._looked and brokers.disk.failure is None and brokers.all_serve
        self._looked = state
        checks.stable_offsets.look(self._world.now, is_healthy=is_healthy)

    # The end

    def end_faults(self) -> None:
        """End all faults: killed processes are restarted, and only one process has each transactional id."""
        plan = self._world.plan
        for number, process in enumerate(self.processes):
            process.resume()
            if self._first_copier + plan.transactional_ids <= number < self._first_copier + plan.copiers:
                process.kill()
                self._clients[number] = None
                continue
            self.start(number)
            client = self._clients[number]
            if isinstance(client, Copier):
                client.calm = True

    def uncopied(self) -> str:
        """Return a description of a record that has no visible copy, or of a commit that is not complete, or ""."""
        if self.checks is None:
            return ""
        ids = {place for place, name in self.records.names.items() if name == SOURCE}
        values = [value for place, log in self.records.logs.items() if place[0] in ids for value in log]
        return self.checks.copies.missing(COPIES, values) or self.checks.atomicity.incomplete()

    def unstable(self) -> str:
        """Return a description of a transaction that is still open, or ""."""
        return "" if self.checks is None else self.checks.stable_offsets.open()

    def unread(self) -> str:
        """Return a description of a readable record that a reader has not read, or ""."""
        reads = [
            (client.name, client.positions, client.partitions)
            for client in self._clients
            if isinstance(client, LoneReader)
        ]
        members = [application for application in self._world.applications if application is not None]
        reads += [(member.name, member.positions, tuple(member.positions)) for member in members]
        for name, positions, partitions in reads:
            for partition in partitions:
                end = self.records.end_of(partition)
                if end is not None and positions.get(partition) != end:
                    return f"{name} has read {partition} up to {positions.get(partition)}, not to its end {end}"
        audits = [client.reading.unread() for client in self._clients if isinstance(client, CommittedReader)]
        return next(filter(None, audits), "")

    def audit_takes(self) -> float:
        """Return how long a read_committed reader may take for the rest, in seconds, because its fetches are tiny."""
        return max((client.rest_takes() for client in self._clients if isinstance(client, CommittedReader)), default=0)

    def leave(self) -> None:
        """End all clients."""
        for client in self._clients:
            if isinstance(client, Writer):
                client.leave()
            elif client is not None:
                client.leaves = True

    def remaining(self) -> str:
        """Return a description of a client that has not ended yet, or ""."""
        for number, client in enumerate(self._clients):
            if client is not None and not client.left:
                return f"{client.name} does not end"
            self.processes[number].kill()
            self._clients[number] = None
        for broker in self._world.brokers.running.values():
            if broker.waiting_fetches.count:
                return f"{broker.waiting_fetches.count} fetches are still parked"
        return ""
