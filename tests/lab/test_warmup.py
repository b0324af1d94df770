"""Members that copy state before they own it: a move restores nothing, and no count is lost by it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kohort import TopicPartition, blocking
from kohort.lab.brokers import BROKERS, LabBroker
from kohort.lab.events import Assigned, Ready
from kohort.lab.experiment import Experiment
from kohort.lab.measure import measure
from kohort.lab.trial import Outcome, Trial
from kohort.lab.trial_run import run_trial

_OF_MANY = pytest.mark.long("the same under another protocol or with another store")
_TRIAL = Trial(scenario="bounce", broker="kohort", client="kohort", protocol="", members=3, partitions=6, settle_s=30.0)
_LONG_MS = 1_500
"""So long a restoring cannot be mistaken for anything else, however busy the machine is."""


@pytest.fixture(scope="module")
def broker() -> Iterator[LabBroker]:
    with BROKERS["kohort"]({"group.initial.rebalance.delay.ms": "0"}) as running:
        yield running


@pytest.mark.parametrize("protocol", ["cooperative", pytest.param("consumer", marks=_OF_MANY)])
def test_a_joining_member_restores_before_it_gets_its_share(protocol: str, broker: LabBroker) -> None:
    trial = replace(
        _TRIAL, scenario="scale-out", protocol=protocol, members=2, warmup=True, restore_ms=_LONG_MS, rest_ms=0
    )
    outcome = run_trial(trial, broker)
    measured = measure(outcome.events, outcome.triggers)
    assert measured.walls[0] is not None and measured.walls[0] > 2 * _LONG_MS * 1_000_000  # two partitions, one by one
    assert (measured.reading.duplicated, measured.reading.skipped, measured.reading.out_of_order) == (0, 0, 0)
    # Its owner answers, and members with copies while there is no owner; only partitions without copies have gaps.
    assert outcome.answered is not None and outcome.answered.fresh > 10 * outcome.answered.none
    joined = [interval for interval in measured.dark if interval.after == "m3"]
    assert len(joined) == 2
    assert max(_restoring(outcome, "m3")) < _LONG_MS / 2


@pytest.mark.parametrize(
    ("protocol", "store"),
    [
        pytest.param("consumer", "rocksdb", marks=pytest.mark.long("a bounce of members that copy their state")),
        pytest.param("consumer", "memory", marks=_OF_MANY),
        pytest.param("cooperative", "rocksdb", marks=_OF_MANY),
    ],
)
def test_no_count_decreases_when_copies_take_over(protocol: str, store: str, broker: LabBroker) -> None:
    trial = replace(
        _TRIAL, protocol=protocol, store=store, num_standby=1, state_keys=30, commit_ms=200, tick_ms=10, rest_ms=500
    )
    outcome = run_trial(trial, broker)
    measured = measure(outcome.events, outcome.triggers)
    assert None not in measured.walls
    assert (measured.reading.duplicated, measured.reading.skipped) == (0, 0)
    counted = _changelog(f"{outcome.group}-counts", broker)
    # Each member is asked for what it owned while it leaves: a copy answers, until its next owner has it.
    assert outcome.answered is not None and outcome.answered.stale > 0
    assert outcome.answered.none <= 0.02 * outcome.answered.fresh
    assert len(measured.dark) > 6 and len(counted) > 6 * 100
    for key, values in counted.items():
        assert values == sorted(set(values)), f"the count of {key} went back: its store was not what was written"


def test_only_our_client_can_do_it_and_not_where_everything_is_given_up() -> None:
    trials = Experiment(clients=("kohort", "java"), brokers=("kohort", "kafka"), warmup=True).trials()
    assert [(trial.client, trial.protocol, trial.broker) for trial in trials] == [
        ("kohort", "cooperative", "kohort"),
        ("kohort", "cooperative", "kafka"),
        ("kohort", "consumer", "kohort"),
    ]


def _restoring(outcome: Outcome, member: str) -> list[float]:
    """How long each of its callbacks took that won something, in milliseconds."""
    begun, took = None, []
    for event in outcome.events:
        if event.member == member and isinstance(event, Assigned) and event.partitions:
            begun = event.at
        elif event.member == member and isinstance(event, Ready) and begun is not None:
            took.append((event.at - begun) / 1e6)
            begun = None
    return took


def _changelog(topic: str, broker: LabBroker) -> dict[tuple[int, bytes], list[int]]:
    """By partition and key, all that was ever written of it, in order."""
    found = defaultdict[tuple[int, bytes], list[int]](list)
    with blocking.Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as reading:
        partitions = [TopicPartition(topic, number) for number in range(6)]
        reading.assign(partitions)
        ends = reading.end_offsets(partitions)
        while any(reading.position(partition) < ends[partition] for partition in partitions):
            for record in reading.poll(max_records=10_000):
                found[record.partition, record.key or b""].append(int(record.value or b"0"))
    return found
