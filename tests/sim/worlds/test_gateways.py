"""Worlds whose members use gateways."""

from __future__ import annotations

import pytest

from kohort.sim import Plan, World, dump, load
from kohort.sim.plans import ApplicationSettings
from kohort.sim.runs.shrinking import shrink
from kohort.sim.steps import (
    GatewayDisconnect,
    GatewayKill,
    GatewaySuspend,
    GatewayTerminate,
    MemberKill,
    MemberLeave,
    MemberStart,
)
from tests.sim import gateway_plants
from tests.sim.planting import PLANTS

assert gateway_plants  # it fills PLANTS


def _plan(*, beside: bool = False) -> Plan:
    """Two members of each protocol, and a gateway that fails in every way."""
    members = [
        ApplicationSettings(f"group-{protocol}", ("orders",), protocol=protocol)
        for protocol in ("classic", "classic", "consumer", "consumer")
    ]
    starts = [MemberStart(0.5 + number, number) for number in range(4)]
    return Plan(
        1,
        60.0,
        2,
        {
            "group.initial.rebalance.delay.ms": "0",
            "group.heartbeat.hold.ms": "0",
            "group.disconnect.grace.ms": "0",
        },
        {"orders": 4},
        members,
        [1.0] * 4,
        gateway_rates=[1.0],
        ways=[-1 if beside and number % 2 else 0 for number in range(4)],
        steps=[
            *starts,
            GatewayKill(20.0, 0, 0.5),
            MemberKill(30.0, 0, 20.0),
            GatewayDisconnect(35.0, 0, 4.0),
            GatewaySuspend(45.0, 0, 3.0),
            GatewayTerminate(52.0, 0, 1.0),
        ],
    )


def test_a_smaller_plan_has_a_way_for_each_member(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "a_response_overtakes_a_heartbeat_that_a_gateway_holds"
    PLANTS[name].put(monkeypatch)
    _, plan = next(PLANTS[name].worlds(60.0, 0))
    violation = World(plan).run().violation
    assert violation is not None
    small = load(dump(shrink(plan, violation, runs=6)))
    assert len(small.ways) == len(small.members) < len(plan.members)


def test_members_use_a_gateway_that_fails_in_every_way() -> None:
    for beside in (False, True):
        world = World(_plan(beside=beside))
        outcome = world.run()
        assert outcome.violation is None
        assert sum(outcome.faults.values()) == 5
        gateway = world.gateways.running[0]
        assert gateway.figures.opened and gateway.figures.probes
        assert gateway.groups.removes_lost_members


def test_members_leave_while_the_coordinator_answers_the_heartbeats_before() -> None:
    # The brokers hold these heartbeats. The news that answer them made the gateway ask again, and the answer to that
    # follows the response to the request with which the member left meanwhile.
    members = [ApplicationSettings("group-0", ("orders",), protocol="consumer") for _ in range(4)]
    starts = [MemberStart(0.5 + number, number) for number in range(4)]
    leaves = [MemberLeave(at, number, 1.0) for at in (20.0, 45.0) for number in range(3)]
    settings = {"group.initial.rebalance.delay.ms": "0"}
    plan = Plan(1, 60.0, 1, settings, {"orders": 4}, members, [1.0] * 4, gateway_rates=[1.0], ways=[0] * 4)
    plan.steps = [*starts, *leaves]
    assert World(plan).run().violation is None
