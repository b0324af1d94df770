"""What the broker's recorder says of darkness is what the members say of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kohort.demo.journal import read_journal
from kohort.lab.brokers import BROKERS
from kohort.lab.events import Event, Ready
from kohort.lab.measure import measure
from kohort.lab.play import played
from kohort.lab.processing import Dark
from kohort.lab.trial import Trial

_APART_MS = 20
_TRIES = 8
"""The two look at the same darkness from both ends of a socket, so a busy machine moves them apart, never together."""


@pytest.mark.parametrize("protocol", ["eager", "cooperative", "consumer"])
def test_the_recorder_and_the_members_see_every_partition_dark_for_the_same_time(protocol: str) -> None:
    seen_apart = []
    for _ in range(_TRIES):
        told, seen = _dark_ms(protocol)
        assert seen and told.keys() == seen.keys()
        seen_apart.append(max(abs(told[one] - seen[one]) for one in seen))
        if seen_apart[-1] <= _APART_MS:
            return
    pytest.fail(f"never within {_APART_MS} ms: {seen_apart}")


def _dark_ms(protocol: str) -> tuple[dict[int, float], dict[int, float]]:
    """By partition, for how long it was dark: as the recorder tells it, and as the members do."""
    # The recorder counts to the next owner's first fetch, members to its first record: a short tick keeps them close.
    trial = Trial(
        scenario="scale-out",
        broker="kohort",
        client="kohort",
        protocol=protocol,
        members=2,
        partitions=4,
        tick_ms=10,
        rest_ms=0,
    )
    with BROKERS["kohort"]({"group.initial.rebalance.delay.ms": "0"}) as broker:
        outcome = played(trial, broker)
        journal = asyncio.run(read_journal(broker.bootstrap, outcome.group))
    seen = {
        dark.partition: (dark.end - _given_up(dark, outcome.events)) / 1e6
        for dark in measure(outcome.events, outcome.triggers).dark
    }
    told = {
        change.partition: float(change.dark_ms)
        for record in journal
        for change in record.partitions
        if change.dark_ms is not None and change.partition in seen
    }
    return told, seen


def _given_up(dark: Dark, events: Sequence[Event]) -> int:
    """When the owner was through with flushing and committing: nobody outside can know that it stopped before that."""
    return min(
        event.at
        for event in events
        if isinstance(event, Ready) and event.member == dark.before and event.at >= dark.begin
    )
