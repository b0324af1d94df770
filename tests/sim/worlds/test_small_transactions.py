"""Small worlds with transactions: every invariant holds in each, and together they have all kinds of faults."""

from __future__ import annotations

from itertools import chain

import pytest

from kohort.sim import Plan, World, dump, load
from kohort.sim.plans import draw_small_transactions
from kohort.sim.processes import copier
from kohort.sim.processes.reader import fetching
from kohort.sim.steps import Effect, FeatureSetLevel, LeaderKill, MessageFault
from tests.sim.planting import PLANTS
from tests.sim.worlds import test_plants
from tests.sim.worlds.tens import in_tens

assert test_plants  # it fills PLANTS

_SEEDS = 300
_FOUND_SOON = {
    "aborted_transactions_are_not_listed": 0,
    "a_marker_is_written_to_one_partition_only": 0,
    "an_aborted_transaction_gets_no_marker": 0,
    "the_last_stable_offset_is_that_of_all_records": 0,
}
"""Planted bugs, each with a seed that finds it."""


@pytest.mark.parametrize("seeds", in_tens(20, 300, "runs 300 worlds"))
def test_every_invariant_holds_in_the_small_world_of_a_seed(seeds: range) -> None:
    for seed in seeds:
        outcome = World(draw_small_transactions(seed)).run()
        assert outcome.violation is None, f"kohort sim --seed t{seed}: {outcome.violation}"


@pytest.mark.parametrize("name", _FOUND_SOON)
def test_a_small_world_finds_a_planted_bug(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTS[name].put(monkeypatch)
    violation = World(draw_small_transactions(_FOUND_SOON[name])).run().violation
    assert violation is not None and violation.invariant in PLANTS[name].found_by


def test_a_small_world_copies_in_transactions() -> None:
    worlds = [World(draw_small_transactions(seed)) for seed in range(5)]
    for world in worlds:
        world.run()
    ended = sum(number for world in worlds for (api, _), number in world.answers.codes.items() if api == "EndTxn")
    assert ended > 25


def test_a_reader_whose_fetches_are_small_may_take_longer_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"fetch_max_wait_ms": 10_000, "max_partition_fetch_bytes": 200}
    monkeypatch.setattr(copier, "fetching", lambda rng: fetching(rng) | small)
    assert World(draw_small_transactions(4)).run().violation is None


def test_small_worlds_have_all_logs_protocols_versions_and_faults() -> None:
    plans = [draw_small_transactions(seed) for seed in range(_SEEDS)]
    assert {log(plan) for plan in plans} == {"cluster", "files", "database", "memory"}
    assert {plan.copying for plan in plans} == {"-", "range", "cooperative-sticky", "consumer"}
    assert {plan.settings["transaction.version"] for plan in plans} == {"1", "2"}
    assert {plan.secured for plan in plans} == {bool(plan.gateway_rates) for plan in plans} == {True, False}
    assert any(plan.copiers > plan.transactional_ids for plan in plans), "none fences another"
    steps = list(chain.from_iterable(plan.steps for plan in plans))
    assert {step.effect for step in steps if isinstance(step, MessageFault)} == set(Effect)
    assert {FeatureSetLevel, LeaderKill} < {type(step) for step in steps}


def test_a_small_plan_that_is_written_down_is_the_same_plan() -> None:
    plan = next(plan for plan in map(draw_small_transactions, range(_SEEDS)) if plan.client_ways)
    again = load(dump(plan))
    assert dump(again) == dump(plan)
    assert World(again).run().trace == World(plan).run().trace


def log(plan: Plan) -> str:
    """Return where the brokers of a plan have their log."""
    return "cluster" if plan.cluster else "files" if plan.files else "database" if plan.database else "memory"
