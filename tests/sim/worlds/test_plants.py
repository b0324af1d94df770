"""The simulation finds what it is there to find: each planted bug within 2,000 seeds, each invariant by some bug."""

from __future__ import annotations

import itertools

import pytest

from kohort.sim import INVARIANTS, Violation, World, draw
from tests.sim import (
    cluster_plants,
    consumer_plants,
    database_plants,
    durability_plants,
    file_plants,
    member_plants,
    plants,
    record_plants,
)
from tests.sim.planting import PLANTS
from tests.sim.worlds.test_worlds import SHORT

SEEDS = 2_000
assert plants and cluster_plants and consumer_plants and database_plants  # they fill PLANTS
assert durability_plants and file_plants and member_plants and record_plants


def first_violation(hint: int) -> tuple[int, Violation] | None:
    """The first seed that finds something, the hinted one asked before all others."""
    for seed in itertools.chain([hint], range(SEEDS)):
        violation = World(draw(seed, SHORT)).run().violation
        if violation is not None:
            return seed, violation
    return None


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = PLANTS[name]
    bug.put(monkeypatch)
    found = first_violation(bug.hint)
    assert found is not None, f"{SEEDS} worlds with this bug, and none noticed"
    seed, violation = found
    assert violation.invariant in bug.found_by, f"seed {seed}: {violation}"


def test_every_invariant_can_fail() -> None:
    assert len(PLANTS) >= 20
    noticed = {invariant for bug in PLANTS.values() for invariant in bug.found_by}
    assert set(INVARIANTS) - noticed == set()
