"""Bugs to be planted: each takes one rule out of production's code for as long as a test runs.

Most of them somebody once shipped. The modules `plants` and `consumer_plants` fill `PLANTS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest import MonkeyPatch

Put = Callable[[MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Plant:
    """One bug."""

    found_by: frozenset[str]
    """The invariants that may be the first to notice it."""
    hint: int
    """A seed that does, so that a test is quick while it is true; when it no longer is, the test looks from 0 on."""
    put: Put


PLANTS: dict[str, Plant] = {}


def plant(*found_by: str, hint: int = 0) -> Callable[[Put], Put]:
    """Note a bug under its function's name."""

    def note(put: Put) -> Put:
        PLANTS[put.__name__] = Plant(frozenset(found_by), hint, put)
        return put

    return note
