"""The simulation finds what it is there to find: each planted bug within 2,000 seeds, each invariant by some bug."""

from __future__ import annotations

import pytest

from kohort.sim import INVARIANTS, World
from tests.sim import (
    cluster_plants,
    consumer_plants,
    database_plants,
    durability_plants,
    feature_plants,
    file_plants,
    gateway_plants,
    late_request_plants,
    member_plants,
    plants,
    record_plants,
    security_plants,
    transaction_plants,
)
from tests.sim.planting import PLANTS
from tests.sim.worlds.test_worlds import SHORT

SEEDS = 2_000
assert plants and cluster_plants and consumer_plants and database_plants  # they fill PLANTS
assert durability_plants and file_plants and gateway_plants and member_plants
assert feature_plants and late_request_plants and record_plants and security_plants and transaction_plants


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found_by_the_invariant_that_it_proves(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = PLANTS[name]
    bug.put(monkeypatch)
    for world, plan in bug.worlds(SHORT, SEEDS):
        violation = World(plan).run().violation
        assert violation is None or violation.invariant in bug.found_by, f"{world}: {violation}"
        if violation is not None and violation.invariant == bug.proves:
            return
    pytest.fail(f"{SEEDS} worlds with this bug, and {bug.proves} did not notice it")


def test_every_invariant_can_fail() -> None:
    # The test above runs each bug until this invariant, and no other, is the one that reports it.
    assert set(INVARIANTS) - {bug.proves for bug in PLANTS.values()} == set()
