"""Many seeds, in this process or on all cores."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count

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
    # The pool would take all of an endless list of seeds at once.
    places = threading.Semaphore(4 * workers)

    def given() -> Iterator[int]:
        for seed in wanted:
            places.acquire()
            yield seed

    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for result in pool.imap_unordered(run_seed, given()):
            places.release()
            yield result
