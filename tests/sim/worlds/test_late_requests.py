"""Worlds whose producers of transaction version 1 lose connections, and whose requests arrive later (decision 016).

That brokers without the order of connections break an invariant is in `late_request_plants`.
"""

from __future__ import annotations

import pytest

from kohort.errors import ErrorCode
from kohort.sim import World
from kohort.sim.processes import copier
from tests.sim.late_request_plants import late_partitions, late_requests, moving_coordinators
from tests.sim.worlds.tens import in_fives

REQUESTS = ("EndTxn", "AddPartitionsToTxn", "AddOffsetsToTxn")
DAILY, SEEDS = 2, 15
FIVES = in_fives(1, SEEDS, "runs fifteen worlds of each kind")


@pytest.mark.parametrize(
    ("request_name", "seeds"),
    [
        ("EndTxn", range(DAILY)),
        *(pytest.param(name, *five.values, marks=five.marks) for name in REQUESTS for five in FIVES[1:]),
    ],
)
def test_late_requests_do_no_harm_if_the_broker_knows_the_order_of_connections(request_name: str, seeds: range) -> None:
    for seed in seeds:
        outcome = World(late_requests(seed, request_name)).run()
        assert outcome.violation is None, f"{request_name}, seed {seed}: {outcome.violation}"


@pytest.mark.parametrize("request_name", ["EndTxn", "AddPartitionsToTxn"])
@pytest.mark.parametrize("seeds", FIVES)
def test_late_requests_do_no_harm_if_the_coordinator_moves_away_and_back(seeds: range, request_name: str) -> None:
    # The next transaction may have begun with the other coordinator.
    for seed in seeds:
        outcome = World(moving_coordinators(seed, request_name)).run()
        assert outcome.violation is None, f"{request_name}, seed {seed}: {outcome.violation}"


def fenced(seed: int, *, is_defended: bool) -> int:
    """Return how many producers of a world were fenced, though none was late and each had an ID of its own."""
    world = World(late_partitions(seed, is_defended=is_defended))
    assert world.run().violation is None
    assert world.record_clients is not None
    reports = world.record_clients.records.errors.reported.values()
    return sum(any(ErrorCode.PRODUCER_FENCED.name in text for _, text in reported) for reported in reports)


@pytest.mark.parametrize("seeds", FIVES)
def test_late_partitions_fence_no_producer_if_the_broker_knows_the_order_of_connections(
    seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A late one begins a transaction, which the producer does not know of, so that it times out.
    monkeypatch.setattr(copier, "_SLEEPS", 0.0)  # applications that pause are fenced, as they must be
    assert fenced(0, is_defended=False) > 0
    assert [seed for seed in seeds if fenced(seed, is_defended=True)] == []


def test_a_late_end_breaks_a_transaction_without_it() -> None:
    violation = World(late_requests(0, is_defended=False)).run().violation
    assert violation is not None and violation.invariant == "S24"
