"""Worlds in which processes that authenticate copy in transactions, with the rights that they need and no others."""

from __future__ import annotations

import pytest

from kohort.errors import ErrorCode
from kohort.sim import World
from tests.sim.transaction_plants import secured_cluster_copies, secured_copies
from tests.sim.worlds.tens import in_fives


@pytest.mark.parametrize("seeds", in_fives(1, 10, "runs ten worlds"))
def test_copiers_with_the_least_rights_copy_each_record_once(seeds: range) -> None:
    for seed in seeds:
        world = World(secured_copies(seed))
        outcome = world.run()
        assert outcome.violation is None, f"seed {seed}: {outcome.violation}"
        codes = world.answers.codes
        assert codes["EndTxn", ErrorCode.NONE] > 0
        assert codes["SaslAuthenticate", ErrorCode.NONE] > 100, "they hardly authenticated again"


@pytest.mark.parametrize("seeds", in_fives(1, 5, "runs five worlds of clusters"))
def test_brokers_that_log_in_to_each_other_end_transactions_of_a_cluster(seeds: range) -> None:
    for seed in seeds:
        world = World(secured_cluster_copies(seed))
        outcome = world.run()
        assert outcome.violation is None, f"seed {seed}: {outcome.violation}"
        assert world.answers.codes["WriteTxnMarkers", ErrorCode.NONE] > 0, "no broker asked another one"
