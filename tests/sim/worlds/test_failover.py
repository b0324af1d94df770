"""Worlds made by hand: what a broker's failure costs a group."""

from __future__ import annotations

import pytest

from kohort.sim import Plan, Step, World
from kohort.sim.plans.application_settings import ApplicationSettings
from kohort.sim.steps import BrokerKill, BrokerPowerOff, BrokerTerminate, MemberKill, MemberStart

JOIN_AND_LEAVE = 2
"""Rebalances of a group whose members come together and, at the end of the world, go together."""


def world(*accidents: Step) -> World:
    """Three members join together, and then that happens."""
    settings = ApplicationSettings(group="g", topics=("orders",), session=30_000, heartbeat=3_000)
    plan = Plan(
        seed=1,
        seconds=90.0,
        settings={"group.initial.rebalance.delay.ms": "3000"},
        topics={"orders": 6},
        members=[settings] * 3,
        rates=[1.0] * 3,
        steps=[*(MemberStart(1.0 + number / 10, number) for number in range(3)), *accidents],
    )
    return World(plan)


@pytest.mark.parametrize("fault", [BrokerKill, BrokerPowerOff, BrokerTerminate])
@pytest.mark.parametrize("seconds", [0.1, 2.5, 10.0])
def test_a_broker_that_fails_costs_no_rebalance_however_it_fails(
    fault: type[BrokerKill | BrokerPowerOff | BrokerTerminate], seconds: float
) -> None:
    # A machine that vanishes tells its clients nothing: they must give its heartbeats up while their sessions, which
    # its successor may have begun anew at once, still last.
    outcome = world(fault(32.0, 0, seconds)).run()
    assert outcome.violation is None
    assert outcome.faults == {fault.name(): 1}
    assert outcome.rebalances == JOIN_AND_LEAVE


def test_a_member_that_dies_costs_one_rebalance_and_its_return_another() -> None:
    outcome = world(MemberKill(30.0, 2, 45.0)).run()
    assert outcome.violation is None
    assert outcome.rebalances == JOIN_AND_LEAVE + 2
