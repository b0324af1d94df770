"""A rolling bounce of real members in which no record is read twice or left out, counted by the laboratory."""

from __future__ import annotations

import pytest

from kohort.lab.brokers import BROKERS
from kohort.lab.measure import measure
from kohort.lab.order import PROTOCOLS
from kohort.lab.play import played
from kohort.lab.trial import Trial


@pytest.mark.parametrize(
    "protocol", [one if one == "cooperative" else pytest.param(one, marks=pytest.mark.thorough) for one in PROTOCOLS]
)
def test_a_bounce_reads_every_record_once(protocol: str) -> None:
    trial = Trial(
        scenario="bounce", broker="kohort", client="kohort", protocol=protocol, members=3, partitions=6, rest_ms=0,
        commit_ms=300,
    )  # fmt: skip
    with BROKERS["kohort"]({"group.initial.rebalance.delay.ms": "0"}) as broker:
        outcome = played(trial, broker)
    measured = measure(outcome.events, outcome.triggers)
    assert None not in measured.walls
    assert len(measured.first_assignments) == len(outcome.triggers) == 3
    assert (measured.reading.duplicated, measured.reading.skipped, measured.reading.out_of_order) == (0, 0, 0)
