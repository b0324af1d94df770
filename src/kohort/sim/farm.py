"""Many seeds, in this process or on all cores."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from multiprocessing import connection
from multiprocessing.context import SpawnProcess
from typing import Self

from kohort.broker.orphans import end_with_parent
from kohort.errors import KohortError
from kohort.sim.drawing import draw
from kohort.sim.report import Report, Result
from kohort.sim.world import World

_COLLECT_EVERY = 16


def run_seed(seed: int) -> Result:
    """One world, in this process."""
    if seed % _COLLECT_EVERY == 0:
        gc.collect()  # each world before is one great cycle
    started = time.process_time()
    outcome = World(draw(seed)).run()
    return Result(
        seed,
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
    )


def farm(
    first: int,
    seeds: int | None,
    seconds: float | None,
    told: Callable[[Report], None],
    *,
    report: Report | None = None,
    workers: int | None = None,
) -> Report:
    """Run seeds from `first` on, so many or for so long, but for those that `report` has: it is added to.

    `told` hears of progress after each.
    """
    report = report or Report()
    for result in _results(_wanted(first, seeds, seconds, report), workers or os.cpu_count() or 1):
        report.add(result)
        told(report)
    return report


def _wanted(first: int, seeds: int | None, seconds: float | None, report: Report) -> Iterator[int]:
    ran = frozenset(report.ran)
    ends = None if seconds is None else time.monotonic() + seconds
    for seed in count(first) if seeds is None else range(first, first + seeds):
        if ends is not None and time.monotonic() > ends:
            return
        if seed not in ran:
            yield seed


def _results(wanted: Iterator[int], workers: int) -> Iterator[Result]:
    if workers == 1:
        yield from map(run_seed, wanted)
        return
    seeds = list(islice(wanted, workers))
    farm = [_Worker.start() for _ in seeds]
    try:
        for worker, seed in zip(farm, seeds, strict=True):
            worker.ask(seed)
        busy = list(farm)
        while busy:
            answered = connection.wait([worker.pipe for worker in busy])
            for worker in [one for one in busy if one.pipe in answered]:
                result = worker.answer()
                following = next(wanted, None)
                if following is None:
                    busy.remove(worker)
                else:
                    worker.ask(following)
                yield result
    finally:
        for worker in farm:
            worker.end()


@dataclass(frozen=True, slots=True)
class _Worker:
    """A process that runs one seed after the other. It has no lock that outlives it, as those of a Pool would."""

    process: SpawnProcess
    pipe: connection.Connection[int, Result]

    @classmethod
    def start(cls) -> Self:
        context = multiprocessing.get_context("spawn")
        ours, its = context.Pipe()
        process = context.Process(target=_work, args=(its, os.getpid()), daemon=True)
        # Ctrl-C goes to every process of the terminal: the workers leave it to this one, which ends them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        its.close()
        return cls(process, ours)

    def ask(self, seed: int) -> None:
        """Raises KohortError if it has ended."""
        try:
            self.pipe.send(seed)
        except OSError:
            raise self._gone() from None

    def answer(self) -> Result:
        """Raises KohortError if it has ended."""
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
            f"A process of the simulation ended with code {self.process.exitcode}; what it wrote above says why."
            " Code -9 is usually for want of memory: try fewer --jobs."
        )


def _work(pipe: connection.Connection[Result, int], parent: int) -> None:
    end_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        return
    while True:
        pipe.send(run_seed(pipe.recv()))
