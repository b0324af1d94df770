"""Worlds in which an operator changes the level of transaction.version while processes copy in transactions."""

from __future__ import annotations

import pytest

from kohort.sim import World
from kohort.sim.steps import FeatureSetLevel
from tests.sim.feature_plants import level_changes
from tests.sim.worlds.tens import in_tens


@pytest.mark.parametrize("seeds", in_tens(1, 20, "runs twenty worlds"))
def test_a_change_of_the_level_breaks_no_transaction(seeds: range) -> None:
    for seed in seeds:
        world = World(level_changes(seed))
        outcome = world.run()
        assert outcome.violation is None, f"seed {seed}: {outcome.violation}"
        assert world.done[FeatureSetLevel] > 5
        assert max(broker.features.epoch for broker in world.brokers.serving) > 3, "the level hardly changed"
