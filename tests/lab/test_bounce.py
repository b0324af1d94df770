"""A rolling bounce of real members in which no record is read twice or left out, counted by the laboratory."""

from __future__ import annotations

import pytest

from kohort.lab.brokers import BROKERS
from kohort.lab.events import Committed, Gone
from kohort.lab.measure import Reading, measure
from kohort.lab.member_settings import PROTOCOLS
from kohort.lab.trial import Trial
from kohort.lab.trial_run import run_trial

_OF_MANY = pytest.mark.long("the same under another protocol")


@pytest.mark.parametrize(
    "protocol",
    [protocol if protocol == "cooperative" else pytest.param(protocol, marks=_OF_MANY) for protocol in PROTOCOLS],
)
def test_a_bounce_reads_every_record_once(protocol: str) -> None:
    trial = Trial(
        scenario="bounce", broker="kohort", client="kohort", protocol=protocol, members=3, partitions=6, rest_ms=0,
        commit_ms=300,
    )  # fmt: skip
    with BROKERS["kohort"]({"group.initial.rebalance.delay.ms": "0"}) as broker:
        outcome = run_trial(trial, broker)
    measured = measure(outcome.events, outcome.triggers)
    assert None not in measured.walls
    assert len(measured.first_assignments) == len(outcome.triggers) == 3
    assert any(isinstance(event, Committed) for event in outcome.events)
    assert measured.reading == Reading(duplicated=0, committed_again=0, skipped=0, out_of_order=0)


@pytest.mark.kafka
def test_a_bounce_through_a_gateway_reads_every_record_once() -> None:
    trial = Trial(
        scenario="bounce", broker="kafka+gateway", client="kohort", protocol="consumer", members=3, partitions=6,
        rest_ms=0, commit_ms=300,
    )  # fmt: skip
    with BROKERS["kafka+gateway"]({}) as broker:
        outcome = run_trial(trial, broker)
    measured = measure(outcome.events, outcome.triggers)
    assert None not in measured.walls
    assert measured.reading == Reading(duplicated=0, committed_again=0, skipped=0, out_of_order=0)
    # Without the gateway, each trigger leaves partitions dark until the next heartbeats, which are 5 s apart.
    assert max(interval.end - interval.begin for interval in measured.dark) < 4e9
    assert outcome.broker_cpu_s is not None and outcome.broker_cpu_s > 0


def test_the_successor_of_a_killed_member_rereads_no_committed_record() -> None:
    trial = Trial(
        scenario="crash", broker="kohort", client="kohort", protocol="consumer", members=2, partitions=4, rest_ms=1_000,
        commit_ms=300, tick_ms=10,
    )  # fmt: skip
    with BROKERS["kohort"]({"group.disconnect.grace.ms": "500"}) as broker:
        outcome = run_trial(trial, broker)
    measured = measure(outcome.events, outcome.triggers)
    (killed,) = [event.member for event in outcome.events if isinstance(event, Gone) and event.killed]
    committed = sum(isinstance(event, Committed) and event.member == killed for event in outcome.events)
    assert committed >= 2 and len(measured.dark) >= 2
    # Records that it read since its last commit may be read again, and are not lost.
    assert (measured.reading.committed_again, measured.reading.skipped) == (0, 0)
