"""One world: its brokers, its applications, what happens to them, and whether everything held.

    outcome = World(draw(17)).run()

The same plan gives the same world, to the byte: all chance comes from the seed, all time from the agenda.
"""

from __future__ import annotations

import random
import traceback
from collections import Counter, deque
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from inspect import CORO_CREATED, getcoroutinestate
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CoroutineType
from zlib import crc32

from kohort.broker.groups import group_partition
from kohort.broker.topics import OFFSETS_TOPIC
from kohort.errors import ErrorCode
from kohort.log import Topic
from kohort.model import UUID, TopicPartition
from kohort.sim.accidents import do
from kohort.sim.answers import Answers
from kohort.sim.application import Application, Habits
from kohort.sim.cluster_files import ClusterDisk
from kohort.sim.database import Database
from kohort.sim.disk import Disk
from kohort.sim.end import End
from kohort.sim.fates import is_fair
from kohort.sim.faultless import is_faultless
from kohort.sim.files import FilesDisk
from kohort.sim.ledger import Ledger
from kohort.sim.loop import Agenda, Handle, VirtualLoop
from kohort.sim.network import Network
from kohort.sim.outcome import Outcome
from kohort.sim.patience import patience
from kohort.sim.plan import FAULTS, Plan, Step
from kohort.sim.process import Process
from kohort.sim.rest import check_rest
from kohort.sim.shadow import Shadow, pairs_of
from kohort.sim.site import SHARDS, Site
from kohort.sim.stage import alone
from kohort.sim.together import Together
from kohort.sim.traffic import Traffic
from kohort.sim.violation import Violation
from kohort.sim.watch import Watch
from kohort.sim.words import in_words

START = 1_000_000.0
"""Seconds; so clocks show about January 12th, 1970."""
_HISTORY = 400
_IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where the files of a world lie: their syncs are real, and on a disk they would be all that takes time."""


class World:
    """One run. `now` is in seconds since the start."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.violation: Violation | None = None
        self.trace = 0
        self.done: Counter[str] = Counter()
        """Steps that took effect."""
        self.arrivals: deque[tuple[float, End | str, bytes]] = deque(maxlen=_HISTORY)
        self.answers = Answers(lambda problem: self._failed("network", problem))
        self.agenda = Agenda(START)
        dice = random.Random(f"world {plan.seed}")
        self.dice = dice
        self.network = Network(self.agenda, random.Random(f"network {plan.seed}"), self._arrived)
        self.network.weather.pieces = plan.pieces
        self.ledger = Ledger()
        self.watch = Watch(self.ledger, SHARDS, self.note)
        disk = self._disk()
        self.site = (Together if plan.cluster else Site)(
            self.agenda, self.network, dice, plan.settings, plan.brokers, disk, self._failed, self.watch.watched
        )
        self.site.starting = self.watch.live.clear
        self.watch.names = lambda: {topic.topic_id: topic.name for topic in self.site.disk.topics.values()}
        disk.written = self._written
        if isinstance(disk, FilesDisk):
            disk.damaged = self._damaged
            disk.watches = frozenset() if plan.records else disk.watches
        for name, partitions in sorted(plan.topics.items()):
            topic = Topic(UUID(int=dice.getrandbits(128)), name, partitions)
            self.site.disk.topics[topic.topic_id] = topic
        self.processes = [self.new_process(f"member-{number}") for number in range(len(plan.members))]
        self.applications: list[Application | None] = [None] * len(plan.members)
        self.operator = self.new_process("operator")
        self.crowd = self.new_process("crowd")
        self.traffic = Traffic(self) if plan.records else None
        self.habits = [replace(one) for one in plan.members]
        """How each member starts its next life."""
        self.wanted = [False] * len(plan.members)
        """Which members shall live."""
        self.found: set[str] = set()
        """Groups whose coordinator was found after the faults."""
        self.ambushes = 0
        """How often a broker shall be killed right after a join phase."""
        self.interrupt: Callable[[], object] = lambda: None
        """What somebody does when a join phase is over."""
        self.resting = False
        """The faults are over: nobody is started any more."""
        self.generations: dict[str, float] = {}
        """When each classic group's generation began."""
        self.topic_changes: list[float] = []
        """When it was noticed that topics were created, grown or deleted."""
        self._topics: dict[UUID, int] = {}
        self.woken: list[float] = []
        """When brokers that had stood still went on."""
        self.claimed: set[tuple[str, str]] = set()
        """Groups and instance ids that strangers claimed."""
        self.ended: dict[int, ErrorCode] = {}
        """Why members ended for good."""
        self.ledger.peers = lambda: [one for one in self.applications if one is not None]
        self.watch.join_phase_over = self._join_phase_over
        self.watch.now = lambda: self.now
        self.ledger.counts = self.watch.counts
        self.ledger.exists = lambda topic_id: topic_id in self.site.disk.topics
        self.ledger.orderly = is_faultless(plan)
        self._director = VirtualLoop(self.agenda, "director", None, lambda problem: self._failed("director", problem))

    def new_process(self, name: str) -> Process:
        """A process that is not started yet."""
        return Process(name, self.agenda, self.network, self._failed)

    def _disk(self) -> Disk:
        if self.plan.cluster:
            return ClusterDisk()
        if self.plan.files:
            return FilesDisk()
        return Database(lambda: self.agenda.now) if self.plan.database else Disk()

    @property
    def now(self) -> float:
        return self.agenda.now - START

    # Running

    def run(self) -> Outcome:
        """Let it all happen."""
        is_on_files = isinstance(self.site.disk, FilesDisk)
        in_files = TemporaryDirectory(prefix="kohort-sim-", dir=_IN_MEMORY) if is_on_files else nullcontext()
        with patience(), alone(self.plan.seed, self._failed), in_files as path:
            if isinstance(self.site.disk, FilesDisk):
                self.site.disk.path = Path(path or "")
            self._live()
        return self._outcome()

    def _live(self) -> None:
        self.site.begin()
        if self.traffic is not None:
            self.traffic.begin()
        for step in self.plan.steps:
            self.after(step.at, partial(self._step, step))
        self.after(1.0, self._look_after)
        self.pass_time(self.plan.seconds)
        try:
            if self.violation is None:
                check_rest(self)
        except Violation as problem:
            self.violation = self.violation or problem
        self._tear_down()

    def pass_time(self, seconds: float) -> None:
        """Let so much time pass, unless something is wrong."""
        self.agenda.run(self.agenda.now + seconds)

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        """Do that later; it is nobody's process."""
        at = self.agenda.now + seconds
        self.agenda.later(at, Handle((self._director, call, ())))

    def partitions(self) -> set[TopicPartition]:
        """All that exist, of topics that applications may want."""
        topics = [topic for topic in self.site.disk.topics.values() if not topic.name.startswith("__")]
        return {TopicPartition(topic.name, number) for topic in topics for number in range(topic.partitions)}

    def note(self, text: str) -> None:
        """Something happened that belongs in the history."""
        self.arrivals.append((self.now, text, b""))

    def _step(self, step: Step) -> None:
        if do(self, step):
            self.done[step.what] += 1
            self.note(str(step).partition(" ")[2].partition(" ")[2])

    def _join_phase_over(self, group_id: str) -> None:
        """Between the answer to JoinGroup and the assignment a group hangs on what only its coordinator knows."""
        self.generations[group_id] = self.now
        self.after(0.0, self.interrupt)
        if self.ambushes and not self.resting and (victim := self.site.victim) is not None:
            self.ambushes -= 1
            self.site.fails(victim, 0.0)
            self.after(self.dice.uniform(0.0005, 0.006), partial(self.site.kill, victim))

    def _look_after(self) -> None:
        """What supervisors of processes do: start again what ended and shall live."""
        self.site.look_after(self.now)
        topics = {topic.topic_id: topic.partitions for topic in self.site.disk.topics.values()}
        if topics != self._topics:
            self._topics = topics
            self.topic_changes.append(self.now)
        for number, application in enumerate(self.applications):
            if application is not None and (application.left or application.over):
                if application.over is not None:
                    self.ended[number] = application.over.code
                    if not is_fair(self, application, self.processes[number].lives):
                        detail = f"{application.name} is out of its group: {application.over.code.name}"
                        self._failed(application.name, Violation("S14", detail))
                self.end_member(number)
        self.after(5.0 if self.plan.is_calm else 1.0, self._look_after)

    # Members

    def start_member(self, number: int) -> None:
        """Begin another life of that member's process."""
        process = self.processes[number]
        if process.alive or self.resting:
            return
        self.wanted[number] = True
        habits = replace(self.habits[number])
        application = self._application(f"{process.name}.{process.lives}", habits)
        application.started = self.now
        if self.plan.is_calm:
            application.backs_off = 20_000
        self.applications[number] = application
        process.start(application.run, self.plan.rates[number])

    def _application(self, name: str, habits: Habits) -> Application:
        if self.traffic is not None:
            return self.traffic.application(name, habits)
        return Application(name, habits, self.site.bootstrap, self.ledger, self.plan.metadata_age)

    def end_member(self, number: int, *, silently: bool = False) -> None:
        """Its process is gone."""
        self.processes[number].kill(silently=silently)
        self.applications[number] = None

    # What comes about

    def _arrived(self, end: End, data: bytes) -> None:
        self.answers.take(end, data)
        self.trace = crc32(data, self.trace ^ int(self.agenda.now * 1e6) & 0xFFFFFFFF)
        self.arrivals.append((self.agenda.now - START, end, data))

    def _written(self, partition: tuple[UUID, int], data: bytes, epoch: int) -> None:
        disk = self.site.disk
        if epoch != (newest := disk.newest(partition)):
            raise Violation("S9", f"a broker of epoch {epoch} wrote to a log that is at epoch {newest}")
        topic = disk.topics.get(partition[0])
        if topic is not None and topic.name == OFFSETS_TOPIC:
            self.watch.written(partition[1], pairs_of(data))
        elif self.traffic is not None and topic is not None and not topic.name.startswith("__"):
            self.traffic.written(partition, topic.name, data)

    def _damaged(self, partition: tuple[UUID, int], data: bytes) -> None:
        topic, number = self.site.disk.topics.get(partition[0]), partition[1]
        if topic is not None and topic.name == OFFSETS_TOPIC:
            groups = {one.group for one in self.plan.members}
            self.ledger.damaged(group for group in groups if group_partition(group, SHARDS) == number)
            self.watch.shadows[number] = Shadow(self.ledger)
            # As a load reads it: what a lost tombstone ended comes back where nothing later has its key.
            newest: dict[bytes, bytes | None] = {}
            for key, value in pairs_of(data):
                newest.pop(key, None)
                newest[key] = value
            self.watch.shadows[number].written(newest.items())

    def _failed(self, name: str, problem: BaseException) -> None:
        if self.violation is not None or self.network.gone:
            return
        if not isinstance(problem, Violation):
            where = "".join(traceback.format_exception(problem)[-4:])
            problem = Violation("S13", f"{name} met an error that nobody expected: {problem!r}\n{where}")
        self.violation = problem
        self.agenda.halted = True

    def _tear_down(self) -> None:
        """Let every task end, so that nothing of this world runs in the next."""
        self.network.gone = True
        self.agenda.halted = False
        loops = [loop for one in self._all() for loop in (*one.past, one.loop) if loop is not None]
        for _ in range(20):
            tasks = [task for loop in loops for task in list(loop.tasks)]
            if not tasks:
                break
            for loop in loops:
                loop.stands = None
            self.agenda.clear()
            for task in tasks:
                work = task.get_coro()
                if isinstance(work, CoroutineType) and getcoroutinestate(work) == CORO_CREATED:
                    work.close()  # its first step was lost with its process
                task.cancel()
            self.agenda.run(self.agenda.now)

    def _all(self) -> list[Process]:
        clients = [] if self.traffic is None else self.traffic.processes
        return [*self.site.processes, *self.processes, self.operator, self.crowd, *clients]

    def _outcome(self) -> Outcome:
        groups = {one.group for one in self.plan.members}
        history = in_words(self.arrivals, 50) if self.violation is not None else []
        return Outcome(
            self.plan,
            self.violation,
            self.trace,
            self.agenda.events,
            self.network.deliveries,
            self.now * len(groups),
            Counter({what: count for what, count in self.done.items() if what in FAULTS}),
            self.watch.states,
            self.watch.errors | self.answers.codes,
            history,
            self.ledger.acknowledgements,
            self.ledger.deliveries,
            self.watch.rebalances.total(),
        )
