"""Worlds without a fault: what may not be repeated there, and that something is delivered at all."""

from __future__ import annotations

import pytest

from kohort.sim import Step, World, draw
from kohort.sim.plans.faultless import FAULTLESS_EVERY, is_faultless
from kohort.sim.steps import (
    BrokerTerminate,
    GroupDeleteOffsets,
    GroupRemoveMembers,
    MemberKill,
    MemberResetConnections,
    MemberStopPolling,
)
from tests.sim.worlds.test_worlds import SHORT

FIRST = FAULTLESS_EVERY - 1


@pytest.mark.parametrize("seed", range(FIRST, 3 * FAULTLESS_EVERY, FAULTLESS_EVERY))
def test_a_world_without_faults_delivers_each_record_exactly_once(seed: int) -> None:
    world = World(draw(seed, SHORT))
    outcome = world.run()
    assert outcome.violation is None
    assert not outcome.faults
    assert world.progress.expects_exactly_once
    assert not world.progress.repeatable
    assert outcome.records == sum(world.progress.covered.values()) > 500


def test_a_step_that_asks_for_repetition_ends_the_promise() -> None:
    plan = draw(FIRST, SHORT)
    assert is_faultless(plan)
    faults: list[Step] = [
        MemberKill(5.0, 0, 1.0), MemberResetConnections(5.0, 0), GroupRemoveMembers(5.0, "g"),
        GroupDeleteOffsets(5.0, "g"), BrokerTerminate(5.0, 0, 1.0), MemberStopPolling(5.0, 0, 1.0),
    ]  # fmt: skip
    for fault in faults:
        plan.steps.append(fault)
        assert not is_faultless(plan)
        plan.steps.pop()
    plan.settings["offsets.retention.minutes"] = "1"
    assert not is_faultless(plan)
