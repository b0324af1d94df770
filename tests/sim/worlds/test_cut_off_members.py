"""Members whose connections are reset, and that cannot connect again for a while."""

from __future__ import annotations

import pytest

from kohort.sim import World
from kohort.sim.plans.application_settings import ApplicationSettings
from kohort.sim.plans.plan import Plan
from kohort.sim.steps import MemberBlockIncoming, MemberBlockOutgoing, MemberResetConnections, MemberStart, Step


@pytest.mark.parametrize("block", [MemberBlockIncoming, MemberBlockOutgoing])
def test_a_member_that_cannot_connect_is_removed_as_if_it_were_dead_and_joins_again(
    block: type[MemberBlockIncoming | MemberBlockOutgoing],
) -> None:
    members = [ApplicationSettings("group-0", ("orders",), session=30_000, heartbeat=3_000) for _ in range(2)]
    settings = {"group.initial.rebalance.delay.ms": "0"}
    steps: list[Step] = [
        MemberStart(0.1, 0),
        MemberStart(0.2, 1),
        block(12.0, 0, 4.0),
        MemberResetConnections(12.1, 0),
    ]
    plan = Plan(1, 40.0, 1, settings, {"orders": 4}, members, [1.0, 1.0], steps=steps)
    outcome = World(plan).run()
    assert outcome.violation is None
    assert any("connection lost" in order for order in outcome.orders), "it was not removed"
