"""Worlds in which an operator changes the level of transaction.version while processes copy in transactions."""

from __future__ import annotations

import pytest

from kohort.sim import World
from kohort.sim.steps import FeatureSetLevel
from tests.sim.feature_plants import level_changes

DAILY, SEEDS, TOGETHER = 1, 100, 10
_MORE = pytest.mark.long("runs a hundred worlds")


@pytest.mark.parametrize(
    "seeds",
    [
        range(DAILY),
        *(pytest.param(range(first, first + TOGETHER), marks=_MORE) for first in range(0, SEEDS, TOGETHER)),
    ],
)
def test_a_change_of_the_level_breaks_no_transaction(seeds: range) -> None:
    for seed in seeds:
        world = World(level_changes(seed))
        outcome = world.run()
        assert outcome.violation is None, f"seed {seed}: {outcome.violation}"
        assert world.done[FeatureSetLevel] > 5
        assert max(broker.features.epoch for broker in world.brokers.serving) > 3, "the level hardly changed"
