"""One world: the run of its plan, the supervision of its processes, and the check of the invariants.

    outcome = World(draw(17)).run()

The same plan gives the same world, byte for byte.
"""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from functools import partial
from inspect import CORO_CREATED, getcoroutinestate
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CoroutineType

from kohort.model import UUID
from kohort.sim.checks import REFUSALS, HoldChecks, in_words
from kohort.sim.environment import FilesDisk, Process, cpu_limit, isolated
from kohort.sim.faults import execute
from kohort.sim.plans import Plan
from kohort.sim.processes import SimulatedBroker, WorldState
from kohort.sim.steps import Step, is_fault
from kohort.sim.violation import Violation
from kohort.sim.world.at_rest import check_rest
from kohort.sim.world.outcome import Outcome
from kohort.sim.world.permitted_fencing import is_permitted

_IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Directory for the files of a world: their syncs are real, and on a disk they would take almost all the time."""

_REFUSED_AGAIN = 3.0
"""Time in seconds after which a supervisor restarts a process that ended because it had lost a right."""


class World(WorldState):
    """One run of a plan."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.done: Counter[type[Step]] = Counter()
        """Number of steps that took effect, by kind."""
        self._hold_checks = HoldChecks()
        self._topics: dict[UUID, int] = {}
        self.observations.join_phase_over = self._join_phase_over

    def run(self) -> Outcome:
        """Run the world and return its outcome."""
        is_on_files = isinstance(self.brokers.disk, FilesDisk)
        in_files = TemporaryDirectory(prefix="kohort-sim-", dir=_IN_MEMORY) if is_on_files else nullcontext()
        logged = None if self.record_clients is None else self.record_clients.records.errors.logged
        with cpu_limit(), isolated(self.plan.seed, self._failed, logged), in_files as path:
            if isinstance(self.brokers.disk, FilesDisk):
                self.brokers.disk.path = Path(path or "")
            self._live()
        return self._outcome()

    def _live(self) -> None:
        self.brokers.begin()
        self.gateways.begin()
        if self.record_clients is not None:
            self.record_clients.begin()
        for step in self.plan.steps:
            self.after(step.at, partial(self._step, step))
        self.after(1.0, self._supervise)
        self.pass_time(self.plan.seconds)
        try:
            if self.violation is None:
                check_rest(self)
        except Violation as problem:
            self.violation = self.violation or problem
        self.violation = self.violation or self.wire_checks.violation
        self._tear_down()

    def _step(self, step: Step) -> None:
        if execute(self, step):
            self.done[type(step)] += 1
            self.observations.fault_happened(step.name())
            self.note(step.description)

    def _join_phase_over(self, group_id: str) -> None:
        """Kill a broker if planned, and call `interrupt`.

        Between the response to JoinGroup and the assignment, a group depends on state that only its
        coordinator has.
        """
        self.generations[group_id] = self.now
        self.after(0.0, self.interrupt)
        if self.planned_kills and not self.resting and (victim := self.brokers.victim) is not None:
            self.planned_kills -= 1
            self.brokers.fails(victim, 0.0)
            self.after(self.rng.uniform(0.0005, 0.006), partial(self.brokers.kill, victim))

    def _supervise(self) -> None:
        """Act as a supervisor of processes: restart those that ended and should run."""
        self.brokers.supervise(self.now)
        if late := self._hold_checks.look(self._running_brokers()):
            self._failed("look", Violation("L8", late))
        self._look_at_transactions()
        if late := self.gateways.late():
            self._failed("look", Violation("L8", late))
        self._note_sizes()
        topics = {topic.topic_id: topic.partitions for topic in self.brokers.disk.topics.values()}
        if topics != self._topics:
            self._topics = topics
            self.topic_changes.append(self.now)
        for number, application in enumerate(self.applications):
            if application is not None and (application.left or application.over):
                if application.over is not None:
                    self.ended[number] = application.over.code
                    if not is_permitted(self, application):
                        detail = f"{application.name} was removed from its group for good: {application.over.code.name}"
                        self._failed(application.name, Violation("S14", detail))
                self.end_member(number)
                if application.over is not None and application.over.code in REFUSALS:
                    self.after(_REFUSED_AGAIN, partial(self.start_member, number, was_refused=True))
        self.after(5.0 if self.plan.is_calm else 1.0, self._supervise)

    def _look_at_transactions(self) -> None:
        if self.record_clients is not None:
            try:
                self.record_clients.look()
            except Violation as problem:
                self._failed("look", problem)

    def _running_brokers(self) -> list[SimulatedBroker]:
        """Return the brokers whose processes run."""
        return [broker for number, broker in self.brokers.running.items() if self.brokers.processes[number].runs]

    def _tear_down(self) -> None:
        """End every task and close every file, so that nothing of this world is left in the next."""
        self.network.gone = True
        self.agenda.halted = False
        loops = [loop for process in self._all() for loop in (*process.past, process.loop) if loop is not None]
        for _ in range(20):
            tasks = [task for loop in loops for task in list(loop.tasks)]
            if not tasks:
                break
            for loop in loops:
                loop.halted = None
            self.agenda.clear()
            for task in tasks:
                work = task.get_coro()
                if isinstance(work, CoroutineType) and getcoroutinestate(work) == CORO_CREATED:
                    work.close()  # it had not started when its process was killed
                task.cancel()
            self.agenda.run(self.agenda.now)
        self.brokers.release_files()

    def _all(self) -> list[Process]:
        clients = [] if self.record_clients is None else self.record_clients.processes
        return [
            *self.brokers.processes,
            *self.gateways.processes,
            *self.processes,
            self.operator,
            self.bad_client,
            *clients,
        ]

    def _outcome(self) -> Outcome:
        groups = {settings.group for settings in self.plan.members}
        history = in_words(self.arrivals, 50) if self.violation is not None else []
        return Outcome(
            self.plan,
            self.violation,
            self.trace,
            self.agenda.events,
            self.network.deliveries,
            self.now * len(groups),
            Counter({kind.name(): count for kind, count in self.done.items() if is_fault(kind)}),
            self.observations.states,
            self.observations.errors | self.answers.codes,
            history,
            self.progress.acknowledgements,
            self.progress.deliveries,
            self.observations.rebalances.total(),
            frozenset(self.observations.orders),
        )
