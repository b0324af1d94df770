"""Documents about groups, without a server."""

from __future__ import annotations

import json
from dataclasses import replace

from kohort.recorder import PartitionChange, RebalanceRecord
from kohort.watch import Live
from kohort.watch.history import Histories
from kohort.watch.web import ClusterName
from kohort.watch.web.documents import HOUR_MS, Documents
from tests.watch.web.site import generation

NOW = 1_700_000_000_000


def documents(*generations: int) -> Documents:
    """A group whose member `b` comes with each generation that is even; the generations ended so long ago."""
    live = Live(history_from=0)
    made = Documents(live, Histories(live), ClusterName("kafka:9092"))
    for number, age in enumerate(generations, 1):
        members = {"a": (0, 1)} if number % 2 else {"a": (0,), "b": (1,)}
        live.apply([generation("g", NOW - age, number, **members)], NOW - age)
    return made


def test_a_dark_time_of_which_nothing_is_known_is_none_and_not_0() -> None:
    made = documents(60_000)
    change = PartitionChange("orders", 0, "x", "a")
    made.live.groups["g"].rebalances[-1] = RebalanceRecord("g", 1, None, NOW - 60_000, partitions=(change,))
    assert made.group("g", NOW)["dark_seconds_1h"] is None
    made.live.groups["g"].rebalances.clear()
    assert made.group("g", NOW)["dark_seconds_1h"] == 0


def test_joins_of_more_than_an_hour_ago_do_not_count() -> None:
    made = documents(HOUR_MS + 30_000, HOUR_MS + 20_000, HOUR_MS + 10_000, HOUR_MS)
    joins = {each["member_id"]: each["joins_1h"] for each in made.group("g", NOW)["member_list"]}
    assert joins == {"a": 0, "b": 1}


def test_a_record_that_was_replaced_is_no_event() -> None:
    made = documents(60_000)
    [record] = made.live.groups["g"].rebalances
    told = made.event_of(record)
    assert told is not None
    assert json.loads(told)["record"]["generation"] == 1
    made.live.groups["g"].rebalances[-1] = replace(record, protocol="sticky")
    assert made.event_of(record) is None
    made.live.groups["g"].rebalances.clear()
    assert made.event_of(record) is None


def test_a_summary_waits_while_it_is_recent_and_not_for_a_clock_that_went_back() -> None:
    made = documents(60_000)
    for now, is_recent in ((NOW, False), (NOW + 2_000, True), (NOW + 3_000, False), (NOW - 5_000, False)):
        made.dirty.add("g")
        made.refresh("g", now)
        assert ("g" in made.dirty) == is_recent
