"""State of one world, and the operations on it that faults and checks share.

All randomness comes from the plan's seed, and all time from the agenda.
"""

from __future__ import annotations

import random
import traceback
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from zlib import crc32

from kohort.errors import ErrorCode
from kohort.log import Topic
from kohort.log.cluster import OFFSETS_TOPIC
from kohort.model import UUID, TopicPartition
from kohort.sim.checks import AccessChecks, Answers, GroupProgress, Observations, WireChecks, pairs_of
from kohort.sim.environment import (
    Agenda,
    Blocked,
    ClusterDisk,
    Database,
    Disk,
    FilesDisk,
    Network,
    Process,
    Transport,
    VirtualLoop,
)
from kohort.sim.plans import ApplicationSettings, Plan, is_faultless
from kohort.sim.processes.application import Application
from kohort.sim.processes.brokers import SHARDS, Brokers
from kohort.sim.processes.cluster_brokers import ClusterBrokers
from kohort.sim.processes.gateways import Gateways
from kohort.sim.processes.record_clients import RecordClients
from kohort.sim.processes.security import OPERATOR, SETTINGS, Security
from kohort.sim.violation import Violation
from kohort.wire.messages.group_records import OffsetCommitKey

START = 1_000_000.0
"""Start of the world in seconds; clocks show about January 12th, 1970."""
_HISTORY = 400
_RIGHTS_WITHIN = 30.0
"""Maximum time in seconds until a broker of a cluster has rights that another one stored; it may be suspended."""


class WorldState:
    """Brokers, applications, operators and observers of a world. `now` is in seconds since the start."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.violation: Violation | None = None
        self.trace = 0
        self.arrivals: deque[tuple[float, Transport | str, bytes]] = deque(maxlen=_HISTORY)
        self.answers = Answers(lambda problem: self._failed("network", problem), lambda: self.now)
        self.agenda = Agenda(START)
        rng = random.Random(f"world {plan.seed}")
        self.rng = rng
        self.network = Network(self.agenda, random.Random(f"network {plan.seed}"), self._arrived)
        self.network.conditions.pieces = plan.pieces
        self.progress = GroupProgress()
        self.observations = Observations(self.progress, SHARDS, self.note)
        disk, settings = self._disk(), plan.settings | (SETTINGS if plan.secured else {})
        self.brokers = (ClusterBrokers if plan.cluster else Brokers)(
            self.agenda, self.network, rng, settings, plan.brokers, disk, self._failed, self.observations.observed
        )
        self.gateways = Gateways(self.agenda, self.network, plan.brokers, plan.gateway_rates, self._failed)
        self.brokers.starting = self.observations.live.clear
        self.wire_checks = WireChecks(
            self._failed,
            lambda: self.now,
            has_records=plan.records,
            shared_instances=plan.shared_instances,
            groups_of_replaced_topics=plan.groups_of_replaced_topics,
            through_gateways=bool(plan.gateway_rates),
            could_act=self._could_act,
        )
        self.brokers.observer = self.wire_checks.observer
        self.observations.names = lambda: {topic.topic_id: topic.name for topic in self.brokers.disk.topics.values()}
        disk.written, disk.deleted = self._written, self._note_size
        if isinstance(disk, FilesDisk):
            disk.damaged = self._damaged
            disk.watches = frozenset() if plan.records else disk.watches
        for name, partitions in sorted(plan.topics.items()):
            topic = Topic(UUID(int=rng.getrandbits(128)), name, partitions)
            self.brokers.disk.topics[topic.topic_id] = topic
        self.processes = [self.new_process(f"member-{number}") for number in range(len(plan.members))]
        self.applications: list[Application | None] = [None] * len(plan.members)
        self.operator = self.new_process("operator")
        self.bad_client = self.new_process("bad-client")
        self.security: Security | None = None
        """Passwords and rights; None if all clients may do everything."""
        self.record_clients = RecordClients(self) if plan.records else None
        if plan.secured:
            self._secure()
        self.answers.errors = None if self.record_clients is None else self.record_clients.records.errors
        self.member_settings = [replace(settings) for settings in plan.members]
        """Settings with which each member starts its next run."""
        self.wanted = [False] * len(plan.members)
        """Whether each member should run."""
        self.found: set[str] = set()
        """Groups whose coordinator was found after the faults."""
        self.planned_kills = 0
        """Number of times that a broker is still to be killed right after a join phase."""
        self.interrupt: Callable[[], object] = lambda: None
        """Function that is called when a join phase is over."""
        self.resting = False
        """Whether the faults are over, so that no process is started any more."""
        self.generations: dict[str, float] = {}
        """Start of each classic group's current generation."""
        self.topic_changes: list[float] = []
        """Times at which created, extended or deleted topics were detected."""
        self._most: Counter[str] = Counter()
        """Maximum partition count of each topic so far, by name."""
        self.ended: dict[int, ErrorCode] = {}
        """Errors with which members ended for good."""
        self.progress.peers = lambda: [application for application in self.applications if application is not None]
        self.observations.now = lambda: self.now
        self.observations.lives = self._lives
        self.observations.most = lambda topic: self._most.get(topic, 0)
        self.progress.counts = self.observations.counts
        self.progress.overtaken = self.answers.overtaken
        self.progress.exists = lambda topic_id: topic_id in self.brokers.disk.topics
        self.progress.id_of = self._id_of
        self.progress.expects_exactly_once = is_faultless(plan)
        self._director = VirtualLoop(self.agenda, "director", None, lambda problem: self._failed("director", problem))

    def new_process(self, name: str) -> Process:
        """Return a process that is not started yet."""
        return Process(name, self.agenda, self.network, self._failed)

    def _secure(self) -> None:
        clients = [] if self.record_clients is None else self.record_clients.processes
        self.security = Security(self, [process.name for process in (*self.processes, *clients)])
        self.answers.access = AccessChecks(
            self.security,
            lambda: self.now,
            lambda: {topic.topic_id: topic.name for topic in self.brokers.disk.topics.values()},
            self._knows_rights,
            _RIGHTS_WITHIN if self.plan.cluster else 0.0,
            is_faultless=is_faultless(self.plan),
        )

    def _knows_rights(self, broker: str, user: str) -> bool:
        """Return whether that broker has the latest rights of a user: in a cluster, others learn of them later."""
        if not self.plan.cluster:
            return True
        running = {process.name: number for number, process in enumerate(self.brokers.processes)}
        found = self.brokers.running.get(running.get(broker, -1))
        return found is not None and self.security is not None and self.security.is_stored(found, user)

    def login(self, user: str) -> dict[str, Any]:
        """Return the options with which that user authenticates; none if all clients may do everything."""
        return {} if self.security is None else self.security.login(user)

    def operator_login(self) -> dict[str, Any]:
        """Return the options with which an operator authenticates, who may do everything."""
        return self.login(OPERATOR)

    def _disk(self) -> Disk:
        if self.plan.cluster:
            return ClusterDisk()
        if self.plan.files:
            return FilesDisk()
        return Database(lambda: self.agenda.now) if self.plan.database else Disk()

    @property
    def now(self) -> float:
        return self.agenda.now - START

    def pass_time(self, seconds: float) -> None:
        """Let time pass, unless an invariant is violated."""
        self.agenda.run(self.agenda.now + seconds)

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        """Call a function later, outside of any process."""
        self._director.call_later(seconds, call)

    def partitions(self) -> set[TopicPartition]:
        """Return all existing partitions of topics that applications may subscribe to."""
        topics = [topic for topic in self.brokers.disk.topics.values() if not topic.name.startswith("__")]
        return {TopicPartition(topic.name, number) for topic in topics for number in range(topic.partitions)}

    def _lives(self, client_id: str, member_id: str, since: float) -> bool:
        """Return whether a member's process runs, and could always connect `since` that time of the world."""
        return any(
            application is not None
            and application.name == client_id
            and process.runs
            and self.network.hindered_at(process.name) - START < since
            and application.stays(member_id)
            for process, application in zip(self.processes, self.applications, strict=True)
        )

    def _could_act(self, client_id: str, since: float) -> bool:
        """Return whether a member's process has run since that time, and what it sends and gets was not held."""
        for number, application in enumerate(self.applications):
            if application is not None and application.name == client_id:
                way = self.plan.ways[number] if self.plan.ways else -1
                passed = [self.processes[number], *([self.gateways.processes[way]] if way >= 0 else [])]
                return all(
                    process.runs and max(process.resumed_at, self.network.held_up_at(process.name)) - START < since
                    for process in passed
                )
        return False

    def _id_of(self, name: str) -> UUID | None:
        return next((topic.topic_id for topic in self.brokers.disk.topics.values() if topic.name == name), None)

    # Members

    def start_member(self, number: int, *, was_refused: bool = False) -> None:
        """Start another run of that member's process; after the faults only if its last one `was_refused`."""
        process = self.processes[number]
        if process.alive or (self.resting and not was_refused) or (was_refused and not self.wanted[number]):
            return
        self.wanted[number] = True
        member_settings = replace(self.member_settings[number])
        bootstrap = self.brokers.bootstrap
        if self.plan.ways and self.plan.ways[number] >= 0:
            bootstrap = self.gateways.bootstrap(self.plan.ways[number])
        application = self._application(f"{process.name}.{process.starts}", member_settings, bootstrap)
        application.started = self.now
        if self.plan.is_calm:
            application.backs_off = 20_000
        self.applications[number] = application
        loop = process.start(application.run, self.plan.rates[number])
        if self.record_clients is not None:
            self.record_clients.records.errors.begins(loop, application.waits)

    def _application(self, name: str, member_settings: ApplicationSettings, bootstrap: str) -> Application:
        if self.record_clients is not None:
            return self.record_clients.application(name, member_settings)
        login = self.login(name.rpartition(".")[0])
        return Application(name, member_settings, bootstrap, self.progress, self.plan.metadata_age, login)

    def end_member(self, number: int, *, silently: bool = False) -> None:
        """Kill that member's process."""
        self.processes[number].kill(silently=silently)
        self.applications[number] = None

    # Network

    def block(self, name: str, what: Blocked, seconds: float) -> None:
        """Block the network between that process and all brokers, and gateways if it is none."""
        gateways = self.gateways.processes
        others = [] if any(gateway.name == name for gateway in gateways) else gateways
        for peer in (*self.brokers.processes, *others):
            paths = [(name, peer.name)] if what is not Blocked.INCOMING else []
            paths += [(peer.name, name)] if what is not Blocked.OUTGOING else []
            for path in paths:
                self.network.block(*path)
                self.after(seconds, partial(self.network.heal, *path))

    def reset_connections(self, process: Process) -> None:
        """Reset all connections of a process."""
        for end in [end for end in self.network.connections() if end.loop is process.loop]:
            self.network.reset(end)

    # Observations

    def note(self, text: str) -> None:
        """Add an event to the history."""
        self.arrivals.append((self.now, text, b""))

    def _arrived(self, end: Transport, data: bytes) -> None:
        self.answers.take(end, data)
        self.trace = crc32(data, self.trace ^ int(self.agenda.now * 1e6) & 0xFFFFFFFF)
        self.arrivals.append((self.agenda.now - START, end, data))

    def _written(self, partition: tuple[UUID, int], data: bytes, epoch: int) -> None:
        disk = self.brokers.disk
        if epoch != (newest := disk.newest(partition)):
            raise Violation("S9", f"a broker with epoch {epoch} wrote to a log with epoch {newest}")
        topic = disk.topics.get(partition[0])
        if topic is not None and topic.name == OFFSETS_TOPIC:
            self._note_sizes()
            self.observations.written(partition[1], data)
            if self.record_clients is not None and self.record_clients.checks is not None:
                self.record_clients.checks.logs.offsets_written(partition[1], data)
        elif self.record_clients is not None:
            # Another broker may have just deleted the topic; its leader serves it until it learns of that.
            name = self.record_clients.records.names.get(partition[0], "__") if topic is None else topic.name
            if not name.startswith("__"):
                self.record_clients.written(partition, name, data)

    def _note_sizes(self) -> None:
        for topic in self.brokers.disk.topics.values():
            self._note_size(topic)

    def _note_size(self, topic: Topic) -> None:
        self._most[topic.name] = max(self._most[topic.name], topic.partitions)

    def _damaged(self, partition: tuple[UUID, int], data: bytes) -> None:
        topic, number = self.brokers.disk.topics.get(partition[0]), partition[1]
        if topic is not None and topic.name == OFFSETS_TOPIC:
            pairs, before = list(pairs_of(data)), self.observations.durable_groups[number]
            self.wire_checks.lost()
            for record in before.lost(pairs):
                if isinstance(record.key, OffsetCommitKey):
                    self.progress.damaged_place(before.place(record.key))
                group_id: str = getattr(record.key, "group", "") or getattr(record.key, "group_id", "")
                self.progress.damaged(group_id, before.generations.get(group_id, -1), self.now)
            # As a load reads it: if a tombstone was lost, the record that it deleted is back, unless its key
            # has a later one.
            newest: dict[bytes, bytes | None] = {}
            for key, value in pairs:
                newest.pop(key, None)
                newest[key] = value
            self.observations.durable_groups[number] = before.damaged(newest.items())

    def _failed(self, name: str, problem: BaseException) -> None:
        if self.violation is not None or self.network.gone:
            return
        if not isinstance(problem, Violation):
            where = "".join(traceback.format_exception(problem)[-4:])
            problem = Violation("S13", f"{name} raised an unexpected error: {problem!r}\n{where}")
        self.violation = problem
        self.agenda.halted = True
