"""Groups that a test makes up, with their rebalances."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kohort.group_events import Cause, MemberFacts
from kohort.model import Millis, TopicPartition
from kohort.recorder import RebalanceRecord, Trigger
from kohort.watch import Live
from kohort.watch.changes import GenerationMember, GenerationWritten

NOW = 1_700_000_000_000
SECOND, MINUTE = 1_000, 60_000
ORDERS = TopicPartition("orders", 0)


def members(names: str) -> tuple[MemberFacts, ...]:
    return tuple(MemberFacts(name, name, "/10.0.0.1") for name in names)


def rebalance(age: Millis, before: str, after: str, took: Millis = SECOND, **changes: Any) -> RebalanceRecord:
    return replace(
        RebalanceRecord(
            "g", 7, NOW - age - took, NOW - age, (Trigger(Cause.MEMBER_LEFT.value, "b"),), "range",
            before=members(before), after=members(after),
        ),
        **changes,
    )  # fmt: skip


def watched(*records: RebalanceRecord, here: str = "ab") -> Live:
    live = Live()
    held = tuple(GenerationMember(each, frozenset({"orders"}), frozenset()) for each in members(here))
    live.apply([GenerationWritten("g", NOW - 90 * MINUTE, 7, "consumer", "range", None, held)], NOW)
    live.groups["g"].rebalances.clear()
    live.groups["g"].rebalances.extend(records)
    return live
