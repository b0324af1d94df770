"""Worlds in which processes that authenticate copy in transactions, with the rights that they need and no others."""

from __future__ import annotations

import pytest

from kohort.errors import ErrorCode
from kohort.sim import World
from tests.sim.transaction_plants import secured_copies

DAILY, SEEDS, TOGETHER = 1, 60, 10
_MORE = pytest.mark.long("runs sixty worlds")


@pytest.mark.parametrize(
    "seeds",
    [
        range(DAILY),
        *(pytest.param(range(first, first + TOGETHER), marks=_MORE) for first in range(0, SEEDS, TOGETHER)),
    ],
)
def test_copiers_with_the_least_rights_copy_each_record_once(seeds: range) -> None:
    for seed in seeds:
        world = World(secured_copies(seed))
        outcome = world.run()
        assert outcome.violation is None, f"seed {seed}: {outcome.violation}"
        codes = world.answers.codes
        assert codes["EndTxn", ErrorCode.NONE] > 0
        assert codes["SaslAuthenticate", ErrorCode.NONE] > 100, "they hardly authenticated again"
