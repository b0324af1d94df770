"""Which ends of a membership are excused: only by what happened to that member, in that life."""

from __future__ import annotations

import pytest

from kohort.errors import ErrorCode, KafkaError
from kohort.sim import Plan, World
from kohort.sim.plans.application_settings import ApplicationSettings
from kohort.sim.plans.steps import GroupRemoveMembers, MemberStart, Step
from kohort.sim.processes.application import Application
from kohort.sim.world.permitted_fencing import is_permitted


def fenced(instance: str, started: float) -> Application:
    """A static member of group g whose first life began then, and which is fenced now."""
    application = Application(
        "member-0.0", ApplicationSettings("g", ("orders",), instance=instance), "", World(Plan(0)).ledger, 0
    )
    application.started, application.over = started, KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    return application


@pytest.mark.parametrize(
    ("instance", "started", "permitted"), [("i0", 10.0, True), ("i1", 10.0, False), ("i0", 30.0, False)]
)
def test_a_removal_excuses_the_instance_that_was_removed_and_no_later_life(
    instance: str, started: float, permitted: bool
) -> None:
    world = World(
        Plan(0, members=[ApplicationSettings("g", ("orders",), instance=one) for one in ("i0", "i1")], rates=[1.0, 1.0])
    )
    world.watch.removed["g", "i0"] = 20.0
    world.ledger.damaged(["g"])
    assert is_permitted(world, fenced(instance, started), starts=1) is permitted


def test_a_removal_excuses_nothing_where_no_disk_lost_what_followed() -> None:
    world = World(Plan(0, members=[ApplicationSettings("g", ("orders",), instance="i0")], rates=[1.0]))
    world.watch.removed["g", "i0"] = 20.0
    assert not is_permitted(world, fenced("i0", 10.0), starts=1)


def test_the_world_notes_which_instance_an_operator_removes() -> None:
    member = ApplicationSettings("g", ("orders",), instance="i0", session=30_000, heartbeat=3_000)
    steps: list[Step] = [MemberStart(0.5, 0), GroupRemoveMembers(20.0, "g")]
    settings = {"group.initial.rebalance.delay.ms": "0"}
    world = World(Plan(0, 30.0, settings=settings, topics={"orders": 1}, members=[member], rates=[1.0], steps=steps))
    assert world.run().violation is None
    assert world.watch.removed.keys() == {("g", "i0")}
    assert world.watch.removed["g", "i0"] >= 20.0
