"""Many seeds on all cores, and what came of them together."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from kohort.errors import ErrorCode
from kohort.sim import coverage
from kohort.sim.drawing import draw
from kohort.sim.world import World


@dataclass(slots=True)
class Result:
    """What of one seed goes from a worker to the report."""

    seed: int
    violation: str | None
    trace: int
    events: int
    deliveries: int
    group_seconds: float
    cpu_seconds: float
    rebalances: int
    acknowledged: int
    faults: Counter[str]
    states: Counter[tuple[str, str]]
    errors: Counter[tuple[str, ErrorCode]]


@dataclass(slots=True)
class Report:
    """The sum of all results."""

    seeds: int = 0
    failed: dict[int, str] = field(default_factory=dict)
    """By seed, the violation."""
    events: int = 0
    deliveries: int = 0
    group_hours: float = 0.0
    cpu_seconds: float = 0.0
    rebalances: int = 0
    acknowledged: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    states: Counter[tuple[str, str]] = field(default_factory=Counter)
    errors: Counter[tuple[str, ErrorCode]] = field(default_factory=Counter)

    def add(self, result: Result) -> None:
        """Count one more seed."""
        self.seeds += 1
        if result.violation is not None:
            self.failed[result.seed] = result.violation
        self.events += result.events
        self.deliveries += result.deliveries
        self.group_hours += result.group_seconds / 3600
        self.cpu_seconds += result.cpu_seconds
        self.rebalances += result.rebalances
        self.acknowledged += result.acknowledged
        self.faults += result.faults
        self.states += result.states
        self.errors += result.errors

    def lines(self) -> list[str]:
        """The report, as it is printed."""
        rate = self.events / self.cpu_seconds if self.cpu_seconds else 0.0
        faults = ", ".join(f"{name} {number:,}" for name, number in sorted(self.faults.items()))
        states = ", ".join(f"{a} to {b} {number:,}" for (a, b), number in sorted(self.states.items()))
        codes = Counter({(api, code.name): number for (api, code), number in self.errors.items() if code})
        errors = ", ".join(f"{api} {code} {number:,}" for (api, code), number in sorted(codes.items()))
        return [
            f"{self.seeds:,} seeds, {len(self.failed)} with a violation",
            f"{self.group_hours:,.1f} simulated group-hours, {self.rebalances:,} rebalances, "
            f"{self.acknowledged:,} acknowledged commits",
            f"{self.events:,} events ({self.deliveries:,} deliveries) in {self.cpu_seconds:,.1f} CPU seconds: "
            f"{rate:,.0f} a second and core, invariants on",
            *coverage.lines(self.states, self.errors),
            f"faults: {faults or 'none'}",
            f"states: {states or 'none'}",
            f"errors: {errors or 'none'}",
        ]


def run_seed(seed: int) -> Result:
    """One world, in this process."""
    started = time.process_time()
    outcome = World(draw(seed)).run()
    return Result(
        seed,
        None if outcome.violation is None else str(outcome.violation),
        outcome.trace,
        outcome.events,
        outcome.deliveries,
        outcome.group_seconds,
        time.process_time() - started,
        outcome.rebalances,
        outcome.acknowledged,
        outcome.faults,
        outcome.states,
        outcome.errors,
    )


def farm(
    first: int, seeds: int | None, seconds: float | None, told: Callable[[Report], None], workers: int | None = None
) -> Report:
    """Run seeds from `first` on, so many or for so long; `told` hears of progress after each."""
    report = Report()
    ends = None if seconds is None else time.monotonic() + seconds
    workers = workers or os.cpu_count() or 1
    # The pool would take all of an endless list of seeds at once.
    places = threading.Semaphore(4 * workers)
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for result in pool.imap_unordered(run_seed, _seeds(first, seeds, ends, places)):
            places.release()
            report.add(result)
            told(report)
    return report


def _seeds(first: int, seeds: int | None, ends: float | None, places: threading.Semaphore) -> Iterator[int]:
    for seed in count(first) if seeds is None else range(first, first + seeds):
        places.acquire()
        if ends is not None and time.monotonic() > ends:
            return
        yield seed
