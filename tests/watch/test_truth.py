"""Rebalances that the watcher finds in the log of Apache Kafka, compared with what happened."""

from __future__ import annotations

import pytest

from bench.watch_truth import LOG, SETTINGS, Options, Step, run_case, steps_of, without_rebalance
from kohort.lab import QUICK_START, Dark, running_kafka
from tests.conftest import need_jars

PREPARING = "Preparing to rebalance group {} in state PreparingRebalance with old generation {} (reason: {})."
RECEIVED = "Assignment received from leader m1-7 for group g for generation {}. The group has 2 members."
JOINED = "Adding new member m1-7 with group instance id null; client reason: the member is new"
LEFT = "Removing member m2-8 on LeaveGroup; client reason: the consumer is being closed"
EXPIRED = "removing member x on heartbeat expiration"
CLASSIC = [
    PREPARING.format("g", 0, JOINED),
    "Stabilized group g generation 1 with 1 members.",  # abandoned before its assignment
    PREPARING.format("g", 1, JOINED),
    "Stabilized group g generation 2 with 2 members.",
    RECEIVED.format(2),
    PREPARING.format("other", 0, EXPIRED),
    PREPARING.format("g", 2, LEFT),
    RECEIVED.format(3),
]


def test_the_brokers_log_tells_rebalances_and_their_causes() -> None:
    assert steps_of(CLASSIC, "g") == [
        Step(2, frozenset({"member joined", "first member"})),
        Step(3, frozenset({"member left or expired"})),
    ]


def test_a_member_that_stops_while_nothing_is_rebalanced_is_in_no_log() -> None:
    second = 1_000_000_000
    line = f"2026-11-24T00:00:05.000+0000 [main] INFO x - {RECEIVED.format(3)}"
    steps = steps_of([line], "g")
    assert [step.at for step in steps] == [1_795_478_405_000]
    clock = 1_795_478_400 * second
    stopped = Dark(0, 1 * second, 2 * second, "m1", "m1")
    assert without_rebalance(stopped, steps, clock)
    assert not without_rebalance(Dark(0, 4 * second, 6 * second, "m1", "m1"), steps, clock)
    assert not without_rebalance(Dark(0, 1 * second, 2 * second, "m1", "m2"), steps, clock)
    assert not without_rebalance(stopped, steps_of(CLASSIC, "g"), clock)  # a log without times proves nothing


@pytest.mark.kafka
@pytest.mark.long("a scenario of the laboratory, watched for half a minute")
@pytest.mark.parametrize("protocol", ["eager", "cooperative", "consumer"])
def test_every_rebalance_is_found_with_cause_movers_and_dark_times(
    request: pytest.FixtureRequest, protocol: str
) -> None:
    need_jars(request.config)
    with running_kafka(SETTINGS, jvm=(*QUICK_START, *LOG)) as kafka:
        row = run_case(kafka, "kohort", protocol, ["scale-out"], Options(members=2, partitions=4))
    assert row.wrong == []
    assert row.rebalances >= 2
    assert (row.found, row.causes, row.movers) == (row.rebalances, row.explained, row.partitions)
    assert row.explained > 0
    assert (len(row.errors_ms), row.beyond) == (row.dark, 0)
