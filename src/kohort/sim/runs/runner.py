"""Runner of many worlds, in this process or on all cores: consecutive seeds, or worlds that `exploring` chooses."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from multiprocessing import connection, resource_tracker
from multiprocessing.context import SpawnProcess
from typing import Self

from kohort.child_processes import end_with_parent
from kohort.errors import KohortError
from kohort.sim.environment import rare_collections
from kohort.sim.runs.exploring import TRANSACTIONS, Exploring, plan_of
from kohort.sim.runs.report import Report, Result
from kohort.sim.world import World

_COLLECT_EVERY = 16


_worlds = count()
"""Number of worlds that this process has run."""


def run_world(name: str) -> Result:
    """Run the world of that name in this process."""
    if next(_worlds) % _COLLECT_EVERY == 0:
        gc.collect()  # each finished world is a large reference cycle
    started = time.process_time()
    outcome = World(plan_of(name)).run()
    return Result(
        name,
        None if outcome.violation is None else str(outcome.violation),
        outcome.trace,
        outcome.events,
        outcome.deliveries,
        outcome.group_seconds / 3600,
        time.process_time() - started,
        outcome.rebalances,
        outcome.acknowledged,
        outcome.faults,
        outcome.states,
        outcome.errors,
        outcome.orders,
    )


def run_worlds(
    first: int,
    seeds: int | None,
    seconds: float | None,
    on_progress: Callable[[Report], None],
    *,
    report: Report | None = None,
    workers: int | None = None,
    transactions: bool = False,
) -> Report:
    """Run worlds and add their results to `report`; worlds that it already has are skipped.

    With `seeds`, run this many seeds from `first` on; otherwise run worlds that `Exploring`
    chooses, for `seconds`. With `transactions`, run small worlds with transactions, seed after seed
    in both cases. `on_progress` is called with the report after each world.
    """
    report = report or Report()
    exploring = Exploring(first) if seeds is None and not transactions else None
    numbers = count(first) if seeds is None else range(first, first + seeds)
    prefix = TRANSACTIONS if transactions else ""
    names = (f"{prefix}{number}" for number in numbers) if exploring is None else iter(exploring.next, "")
    for result in _results(_wanted(names, seconds, report), workers or os.cpu_count() or 1):
        report.add(result)
        if exploring is not None:
            exploring.ran(result.name, result.orders)
        on_progress(report)
    return report


def _wanted(names: Iterator[str], seconds: float | None, report: Report) -> Iterator[str]:
    ran = frozenset(report.ran)
    ends = None if seconds is None else time.monotonic() + seconds
    for name in names:
        if ends is not None and time.monotonic() > ends:
            return
        if name not in ran:
            yield name


def _results(wanted: Iterator[str], workers: int) -> Iterator[Result]:
    if workers == 1:
        with rare_collections():
            yield from map(run_world, wanted)
        return
    names = list(islice(wanted, workers))
    run_worlds = [_Worker.start() for _ in names]
    try:
        for worker, name in zip(run_worlds, names, strict=True):
            worker.ask(name)
        busy = list(run_worlds)
        while busy:
            answered = connection.wait([worker.pipe for worker in busy])
            for worker in [worker for worker in busy if worker.pipe in answered]:
                result = worker.answer()
                following = next(wanted, None)
                if following is None:
                    busy.remove(worker)
                else:
                    worker.ask(following)
                yield result
    finally:
        for worker in run_worlds:
            worker.end()


@dataclass(frozen=True, slots=True)
class _Worker:
    """Process that runs one world after the other. Unlike a Pool's, it holds no lock that could outlive it."""

    process: SpawnProcess
    pipe: connection.Connection[str, Result]

    @classmethod
    def start(cls) -> Self:
        context = multiprocessing.get_context("spawn")
        ours, its = context.Pipe()
        process = context.Process(target=_work, args=(its, os.getpid()), daemon=True)
        # The terminal sends Ctrl-C to all its processes. The workers ignore it, and this process ends them.
        # The first start of a process starts multiprocessing's resource tracker, which unblocks SIGINT: do that before.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        its.close()
        return cls(process, ours)

    def ask(self, name: str) -> None:
        """Send the name of a world to run. Raises KohortError if the process has ended."""
        try:
            self.pipe.send(name)
        except OSError:
            raise self._gone() from None

    def answer(self) -> Result:
        """Return the result. Raises KohortError if the process has ended."""
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            raise self._gone() from None

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()

    def _gone(self) -> KohortError:
        self.process.join()
        return KohortError(
            f"A process of the simulation ended with code {self.process.exitcode}; its output above has the reason."
            " Code -9 usually means that memory ran out: use fewer --jobs."
        )


def _work(pipe: connection.Connection[Result, str], parent: int) -> None:
    end_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        return
    with rare_collections():
        while True:
            pipe.send(run_world(pipe.recv()))
