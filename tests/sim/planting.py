"""Planted bugs: each removes one rule from the production code while a test runs.

Most of them are real bugs of a broker or a client. The modules `*_plants` and `plants` register
theirs in `PLANTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from pytest import MonkeyPatch

from kohort.sim import Plan, draw

Put = Callable[[MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Plant:
    """A planted bug."""

    proves: str
    """Invariant that must be the first to notice it in some world, which shows that this invariant can fail."""
    found_by: frozenset[str]
    """Invariants that may be the first to notice it in any world."""
    hint: int
    """Seed that is known to find it. If it no longer does, the test searches from seed 0."""
    put: Put
    plan: Callable[[], Plan] | None
    """Function that returns a world that finds it, if worlds from seeds rarely do. The test tries it first."""

    def worlds(self, longest: float, seeds: int) -> Iterator[tuple[str, Plan]]:
        """Yield the worlds to search, each with its name; those from seeds have at most `longest` seconds of steps."""
        if self.plan is not None:
            yield "its plan", self.plan()
        for seed in chain([self.hint], range(seeds)):
            yield f"seed {seed}", draw(seed, longest)


PLANTS: dict[str, Plant] = {}


def plant(proves: str, *others: str, hint: int = 0, plan: Callable[[], Plan] | None = None) -> Callable[[Put], Put]:
    """Register a bug under the name of its function. The first invariant is the one that it proves."""

    def note(put: Put) -> Put:
        PLANTS[put.__name__] = Plant(proves, frozenset({proves, *others}), hint, put, plan)
        return put

    return note
