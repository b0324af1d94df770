"""Worlds made by hand whose brokers are a cluster: what its groups notice when coordinators move."""

from __future__ import annotations

import pytest

from kohort.sim import Plan, Step, World
from kohort.sim.environment.cluster_files import ClusterDisk
from kohort.sim.plans.application_settings import ApplicationSettings

JOIN_AND_LEAVE = 2
"""Rebalances of a group whose members come together and, at the end of the world, go together."""


def world(*accidents: Step) -> World:
    """Two members in each of four groups, over three brokers."""
    members = [
        ApplicationSettings(group=f"g{number // 2}", topics=("orders",), session=30_000, heartbeat=3_000)
        for number in range(8)
    ]
    plan = Plan(
        seed=1,
        seconds=90.0,
        brokers=3,
        cluster=True,
        settings={"group.initial.rebalance.delay.ms": "3000"},
        topics={"orders": 6},
        members=members,
        rates=[1.0] * len(members),
        steps=[*(Step(5.0 + number / 10, "start", number) for number in range(len(members))), *accidents],
    )
    return World(plan)


@pytest.mark.parametrize("how", ["broker-kill", "broker-vanish", "broker-term", "broker-stop"])
def test_coordinators_move_and_no_group_rebalances_however_a_broker_fails(how: str) -> None:
    # One that stands still is ended by the others after broker.session.timeout.ms.
    run = world(Step(32.0, how, 1, "10.0"))
    outcome = run.run()
    assert outcome.violation is None
    assert outcome.faults == {how: 1}
    assert outcome.rebalances == 4 * JOIN_AND_LEAVE
    disk = run.site.disk
    assert isinstance(disk, ClusterDisk)
    assert max(disk.opened.values()) >= 2, "the dead broker's partitions went to others, and one came back to it"


def test_a_broker_that_stands_still_for_a_moment_keeps_what_it_leads() -> None:
    run = world(Step(32.0, "broker-stop", 1, "2.0"))
    outcome = run.run()
    assert outcome.violation is None
    assert run.site.processes[1].lives == 1
    assert outcome.rebalances == 4 * JOIN_AND_LEAVE


def test_a_cluster_is_the_same_world_to_the_byte() -> None:
    one, other = (world(Step(32.0, "broker-vanish", 0, "10.0")).run() for _ in range(2))
    assert (one.trace, one.events) == (other.trace, other.events)


def test_coordinators_move_by_reassignments_and_elections_and_no_group_rebalances() -> None:
    moves = [
        Step(30.0 + number + partition / 10, what, value=f"__consumer_offsets {partition} {replicas}".strip())
        for number, (what, replicas) in enumerate([("reassign", "2,3"), ("reassign", "3,2"), ("elect", "")])
        for partition in range(3)
    ]
    run = world(*moves)
    outcome = run.run()
    assert outcome.violation is None
    assert outcome.faults == {"reassign": 6, "elect": 3}
    assert outcome.rebalances == 4 * JOIN_AND_LEAVE
    disk = run.site.disk
    assert isinstance(disk, ClusterDisk)
    (offsets,) = [topic for topic in disk.topics.values() if topic.name == "__consumer_offsets"]
    leadership = run.site.running[0].leadership
    assert {leadership.leader(offsets, partition).node_id for partition in range(3)} == {3}


def test_what_a_broker_was_giving_when_it_was_called_off_is_led_again() -> None:
    # The disk is slow, so leaders wait for a sync before they give anything away.
    slow = [Step(20.0, "disk-slow", value="6.0")]
    moves = [
        Step(30.0 + number / 2, "reassign", value=f"__consumer_offsets {number % 3} {number // 3 % 3 + 1}")
        for number in range(80)
    ]
    over = [Step(one.at + 0.35 + number % 5 / 10, "call-off", value=one.value[:20]) for number, one in enumerate(moves)]
    outcome = world(*slow, *sorted([*moves, *over], key=lambda step: step.at)).run()
    assert outcome.violation is None
