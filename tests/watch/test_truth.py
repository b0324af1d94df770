"""Rebalances that the watcher finds in the log of Apache Kafka, compared with what happened."""

from __future__ import annotations

import pytest

from bench.watch_truth import LOG, SETTINGS, Options, Step, run_case, steps_of
from kohort.lab import QUICK_START, running_kafka
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


@pytest.mark.kafka
@pytest.mark.long("a scenario of the laboratory, watched for half a minute")
@pytest.mark.parametrize("protocol", ["eager", "cooperative", "consumer"])
def test_every_rebalance_is_found_with_cause_movers_and_dark_times(
    request: pytest.FixtureRequest, protocol: str
) -> None:
    need_jars(request.config)
    with running_kafka(SETTINGS, jvm=(*QUICK_START, LOG)) as kafka:
        row = run_case(kafka, "kohort", protocol, ["scale-out"], Options(members=2, partitions=4))
    assert row.wrong == []
    assert row.rebalances >= 2
    assert (row.found, row.causes, row.movers) == (row.rebalances, row.explained, row.partitions)
    assert row.explained > 0
    assert (len(row.errors_ms), row.beyond) == (row.dark, 0)
