"""Members whose connections are reset, and that cannot connect again for a while."""

from __future__ import annotations

import pytest

from kohort.broker.groups import MemberConnections
from kohort.coordinator import disconnects
from kohort.sim import World
from kohort.sim.plans import ApplicationSettings, Plan
from kohort.sim.steps import (
    MemberBlockIncoming,
    MemberBlockOutgoing,
    MemberResetConnections,
    MemberStart,
    NetworkSlow,
    Step,
)
from kohort.sim.world.outcome import Outcome

SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
MEMBERS = [ApplicationSettings("group-0", ("orders",), session=30_000, heartbeat=3_000) for _ in range(2)]


def played(seed: int, *faults: Step) -> Outcome:
    steps = [MemberStart(0.1, 0), MemberStart(0.2, 1), *faults]
    return World(Plan(seed, 40.0, 1, SETTINGS, {"orders": 4}, MEMBERS, [1.0, 1.0], steps=steps)).run()


def was_removed(outcome: Outcome) -> bool:
    return any("connection lost" in order for order in outcome.orders)


@pytest.mark.parametrize("seconds", [1.4, 1.6, 4.0])
@pytest.mark.parametrize("block", [MemberBlockIncoming, MemberBlockOutgoing])
def test_a_member_that_cannot_connect_is_removed_as_if_it_were_dead_and_joins_again(
    block: type[MemberBlockIncoming | MemberBlockOutgoing], seconds: float
) -> None:
    outcome = played(1, block(12.0, 0, seconds), MemberResetConnections(12.1, 0))
    assert outcome.violation is None
    assert was_removed(outcome)


def test_a_member_may_be_removed_while_messages_take_seconds_and_shortly_afterwards() -> None:
    outcomes = [
        played(seed, NetworkSlow(12.0, 4.0), MemberResetConnections(at, 0)) for seed in range(4) for at in (20.0, 31.0)
    ]
    assert [outcome.violation for outcome in outcomes] == [None] * len(outcomes)
    assert any(map(was_removed, outcomes))


@pytest.mark.parametrize("blocked", [False, True])
def test_a_removal_at_once_is_found_although_the_member_cannot_connect(
    monkeypatch: pytest.MonkeyPatch, *, blocked: bool
) -> None:
    monkeypatch.setattr(disconnects, "SHORT_GRACE", 20)
    outcome = played(1, MemberResetConnections(12.1, 0), *([MemberBlockIncoming(12.105, 0, 4.0)] if blocked else []))
    assert outcome.violation is not None and outcome.violation.invariant == "S29"


def test_a_block_of_another_process_is_no_excuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemberConnections, "_doubt", lambda self, loss: None)  # as in the planted bug of S29
    members = [ApplicationSettings("group-0", ("orders",), session=30_000, heartbeat=10_000) for _ in range(2)]
    steps: list[Step] = [
        MemberStart(0.1, 0),
        MemberStart(0.2, 1),
        MemberBlockIncoming(11.0, 1, 20.0),
        *(MemberResetConnections(12.0 + n, 0) for n in range(5)),
    ]
    settings = SETTINGS | {"group.heartbeat.hold.ms": "0"}
    outcome = World(Plan(1, 40.0, 1, settings, {"orders": 4}, members, [1.0, 1.0], steps=steps)).run()
    assert outcome.violation is not None and outcome.violation.invariant == "S29"
