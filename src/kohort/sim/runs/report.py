"""Total of many seeds, which is printed, and stored in a file so that ten thousand seeds need not be one run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from kohort.errors import ErrorCode
from kohort.sim.checks import coverage_lines
from kohort.sim.runs.exploring import TRANSACTIONS

_NUMBERS = ("events", "deliveries", "group_hours", "cpu_seconds", "rebalances", "acknowledged")


@dataclass(slots=True)
class Result:
    """Result of one world, sent from a worker to the report."""

    name: str
    violation: str | None
    trace: int
    events: int
    deliveries: int
    group_hours: float
    cpu_seconds: float
    rebalances: int
    acknowledged: int
    faults: Counter[str]
    states: Counter[tuple[str, str]]
    errors: Counter[tuple[str, ErrorCode]]
    orders: frozenset[str]


@dataclass(slots=True)
class Report:
    """Total of all results."""

    ran: set[str] = field(default_factory=set)
    """Names of the worlds included: a seed, or a variant of its world, as named by `exploring`."""
    failed: dict[str, str] = field(default_factory=dict)
    """Violations by the name of the world."""
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
        """Add the result of one more world."""
        self.ran.add(result.name)
        if result.violation is not None:
            self.failed[result.name] = result.violation
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(result, name))
        self.faults += result.faults
        self.states += result.states
        self.errors += result.errors

    def lines(self) -> list[str]:
        """Return the lines of the printed report."""
        rate = self.events / self.cpu_seconds if self.cpu_seconds else 0.0
        # Coverage is that of the groups' rules; small worlds with transactions have other aims.
        has_groups = not all(name.startswith(TRANSACTIONS) for name in self.ran)
        faults = ", ".join(f"{name} {number:,}" for name, number in sorted(self.faults.items()))
        states = ", ".join(f"{a} to {b} {number:,}" for (a, b), number in sorted(self.states.items()))
        codes = Counter({(api, code.name): number for (api, code), number in self.errors.items() if code})
        errors = ", ".join(f"{api} {code} {number:,}" for (api, code), number in sorted(codes.items()))
        return [
            f"{len(self.ran):,} worlds ({sum('.' in name for name in self.ran):,} variants of others), "
            f"{len(self.failed)} with a violation",
            f"{self.group_hours:,.1f} simulated group-hours, {self.rebalances:,} rebalances, "
            f"{self.acknowledged:,} acknowledged commits",
            f"{self.events:,} events ({self.deliveries:,} deliveries) in {self.cpu_seconds:,.1f} CPU seconds: "
            f"{rate:,.0f} a second and core, invariants on",
            *(coverage_lines(self.states, self.errors) if has_groups else ()),
            f"faults: {faults or 'none'}",
            f"states: {states or 'none'}",
            f"errors: {errors or 'none'}",
        ]


def save_report(report: Report, path: Path) -> None:
    """Write the report atomically: readers of the file find the previous one or this one complete."""
    said: dict[str, Any] = {name: getattr(report, name) for name in _NUMBERS}
    seeds = {name for name in report.ran if "." not in name}
    said["ran"] = _ranges({int(name) for name in seeds if not name.startswith(TRANSACTIONS)})
    said["ran_transactions"] = _ranges({int(name[1:]) for name in seeds if name.startswith(TRANSACTIONS)})
    said["variants"] = sorted(report.ran - seeds)
    said["failed"] = dict(sorted(report.failed.items()))
    said["faults"] = dict(sorted(report.faults.items()))
    said["states"] = [[*move, number] for move, number in sorted(report.states.items())]
    said["errors"] = [[api, code.name, number] for (api, code), number in sorted(report.errors.items())]
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    fresh.replace(path)


def load_report(path: Path) -> Report:
    """Return the stored report, or an empty one if there is no file. Raises ValueError for other contents."""
    if not path.exists():
        return Report()
    said = json.loads(path.read_text(encoding="utf-8"))
    try:
        report = Report(
            ran={str(seed) for seed in _seeds(said["ran"])}
            | {f"{TRANSACTIONS}{seed}" for seed in _seeds(said.get("ran_transactions", ()))}
            | set(said.get("variants", ())),
            failed=dict(said["failed"]),
            faults=Counter(said["faults"]),
            states=Counter({(before, after): number for before, after, number in said["states"]}),
            errors=Counter({(api, ErrorCode[code]): number for api, code, number in said["errors"]}),
        )
        for name in _NUMBERS:
            setattr(report, name, said[name])
    except (KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"it holds no totals of a simulation ({problem!r})") from problem
    return report


def _seeds(ranges: Iterable[list[int]]) -> Iterator[int]:
    return chain.from_iterable(range(first, last + 1) for first, last in ranges)


def _ranges(seeds: set[int]) -> list[list[int]]:
    """Return the first and last seed of each gapless range."""
    ranges: list[list[int]] = []
    for seed in sorted(seeds):
        if ranges and ranges[-1][1] == seed - 1:
            ranges[-1][1] = seed
        else:
            ranges.append([seed, seed])
    return ranges
