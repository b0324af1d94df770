"""A failing world is made small, written down, and fails again when it is read."""

from __future__ import annotations

import pytest

from kohort.sim import Violation, World, draw, dump, load
from kohort.sim.runs.shrinking import shrink
from tests.sim import durability_plants, plants
from tests.sim.planting import PLANTS
from tests.sim.worlds.test_worlds import SHORT

assert plants and durability_plants  # they fill PLANTS

KINDS = ("a_heartbeat_of_an_unknown_member_is_accepted", "a_commit_loses_its_leader_epoch")
"""One of a coordinator, one of what is committed; their worlds are larger than that of the failover."""
_LARGE = pytest.mark.long("runs a large world forty times")


@pytest.mark.parametrize(
    "name", ["a_load_forgets_committed_offsets", *(pytest.param(name, marks=_LARGE) for name in KINDS)]
)
def test_a_failing_plan_is_made_small_and_still_fails_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTS[name].put(monkeypatch)
    plan = draw(PLANTS[name].hint, SHORT)
    violation = World(plan).run().violation
    assert violation is not None
    small = shrink(plan, violation, runs=40)
    assert len(small.steps) < len(plan.steps) / 2
    assert len(small.members) <= len(plan.members)
    again = World(load(dump(small))).run().violation
    assert again is not None and again.invariant == violation.invariant


def test_a_failing_world_prints_its_last_events_in_kafkas_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTS["a_load_forgets_committed_offsets"].put(monkeypatch)
    outcome = World(draw(PLANTS["a_load_forgets_committed_offsets"].hint, SHORT)).run()
    assert outcome.violation is not None
    assert 10 < len(outcome.history) <= 50
    assert any("Heartbeat group_id=group-" in line for line in outcome.history)


def test_a_violation_begins_with_two_lines_event_and_reason() -> None:
    violation = Violation("S1", "a and b both have orders-0\nthe dump\nof both")
    assert str(violation).splitlines() == [
        "S1: a and b both have orders-0",
        "  That is wrong: At most one member has a partition.",
        "the dump",
        "of both",
    ]
