"""The broker's recorder and the members see a partition dark for the same time.

The two look at one darkness from both ends of a socket. The recorder's begins when the coordinator receives what the
previous owner sent after it stopped, and ends with the fetch whose records the next owner then reads. So its interval
lies within the members' one, whatever the machine does; how much shorter it may be depends on how late the machine
was during this play, which a thread measures.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from kohort.demo.journal import read_journal
from kohort.lab.brokers import BROKERS
from kohort.lab.events import Event, Ready
from kohort.lab.measure import measure
from kohort.lab.processing import Dark
from kohort.lab.trial import Trial
from kohort.lab.trial_run import run_trial
from tests.lateness import lateness

_OF_MANY = pytest.mark.long("the same under another protocol")
_CLOCKS_MS = 2.0
"""The recorder's times are whole milliseconds of a clock whose zero was rounded, too."""
_APART_MS = 20.0
"""Two messages, the wait for a record (one comes every 10 ms) and the turns of four event loops, on an idle machine."""
_HOPS = 4
"""Each end of the darkness passes two processes, any of which the machine may leave waiting."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Darkness of a partition, in milliseconds since the epoch."""

    begin: float
    end: float

    @property
    def length(self) -> float:
        return self.end - self.begin


@pytest.mark.parametrize(
    "protocol", ["cooperative", pytest.param("eager", marks=_OF_MANY), pytest.param("consumer", marks=_OF_MANY)]
)
def test_the_recorder_and_the_members_see_every_partition_dark_for_the_same_time(
    protocol: str, remark: Callable[[str], None]
) -> None:
    with lateness() as late:
        pairs = _dark_intervals(protocol)
    assert pairs
    late_ms = max(late)
    allowed = _APART_MS + _HOPS * late_ms
    if allowed > 3 * _APART_MS:
        remark(f"the machine was {late_ms:.0f} ms late: the two may be {allowed:.0f} ms apart, not {_APART_MS:.0f}")
    for recorded, seen in pairs:
        assert seen.begin - _CLOCKS_MS <= recorded.begin, (recorded, seen)
        assert recorded.end <= seen.end + _CLOCKS_MS, (recorded, seen)
        assert seen.length - recorded.length <= allowed, (recorded, seen, late_ms)


def _dark_intervals(protocol: str) -> list[tuple[Interval, Interval]]:
    """By partition that changed hands when a member joined: what the recorder says and what the members say."""
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
    zero = time.time() * 1000 - time.monotonic() * 1000
    with BROKERS["kohort"]({"group.initial.rebalance.delay.ms": "0"}) as broker:
        outcome = run_trial(trial, broker)
        journal = asyncio.run(read_journal(broker.bootstrap, outcome.group))
    recorded = {
        change.partition: Interval(change.revoked_at, change.first_read_at)
        for record in journal
        for change in record.partitions
        if change.revoked_at is not None and change.first_read_at is not None
    }
    seen = {
        dark.partition: Interval(zero + _given_up(dark, outcome.events) / 1e6, zero + dark.end / 1e6)
        for dark in measure(outcome.events, outcome.triggers).dark
    }
    assert seen.keys() <= recorded.keys(), "the recorder does not know of some of the darkness"
    return [(recorded[partition], seen[partition]) for partition in sorted(seen)]


def _given_up(dark: Dark, events: Sequence[Event]) -> int:
    """Return when the owner had flushed and committed: an observer cannot know that it stopped earlier."""
    return min(
        event.at
        for event in events
        if isinstance(event, Ready) and event.member == dark.before and event.at >= dark.begin
    )
