"""Planted bugs: each removes one rule from the production code while a test runs.

Most of them are real bugs of a broker or a client. The modules `*_plants` and `plants` register
theirs in `PLANTS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest import MonkeyPatch

Put = Callable[[MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Plant:
    """A planted bug."""

    found_by: frozenset[str]
    """Invariants that may be the first to notice it."""
    hint: int
    """Seed that is known to find it. If it no longer does, the test searches from seed 0."""
    put: Put


PLANTS: dict[str, Plant] = {}


def plant(*found_by: str, hint: int = 0) -> Callable[[Put], Put]:
    """Register a bug under the name of its function."""

    def note(put: Put) -> Put:
        PLANTS[put.__name__] = Plant(frozenset(found_by), hint, put)
        return put

    return note
