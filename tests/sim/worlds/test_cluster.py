"""Worlds made by hand whose brokers are a cluster: what its groups notice when coordinators move."""

from __future__ import annotations

import pytest

from kohort.sim import Plan, Step, World
from kohort.sim.environment.cluster_files import ClusterDisk
from kohort.sim.plans.application_settings import ApplicationSettings
from kohort.sim.steps import (
    BrokerKill,
    BrokerPowerOff,
    BrokerStep,
    BrokerSuspend,
    BrokerTerminate,
    DiskSlow,
    LeaderElect,
    LeaderKill,
    MemberStart,
    PartitionReassign,
    ReassignmentCancel,
    sort,
)
from tests.sim.transaction_plants import cluster_copies

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
        steps=[*(MemberStart(5.0 + number / 10, number) for number in range(len(members))), *accidents],
    )
    return World(plan)


@pytest.mark.parametrize("fault", [BrokerKill, BrokerPowerOff, BrokerTerminate, BrokerSuspend])
def test_coordinators_move_and_no_group_rebalances_however_a_broker_fails(fault: type[BrokerStep]) -> None:
    # The others end a suspended broker after broker.session.timeout.ms.
    run = world(fault(32.0, 1, 10.0))
    outcome = run.run()
    assert outcome.violation is None
    assert outcome.faults == {fault.name(): 1}
    assert outcome.rebalances == 4 * JOIN_AND_LEAVE
    disk = run.brokers.disk
    assert isinstance(disk, ClusterDisk)
    assert max(disk.opened.values()) >= 2, "the dead broker's partitions went to others, and one came back to it"


def test_a_briefly_suspended_broker_keeps_its_partitions() -> None:
    run = world(BrokerSuspend(32.0, 1, 2.0))
    outcome = run.run()
    assert outcome.violation is None
    assert run.brokers.processes[1].starts == 1
    assert outcome.rebalances == 4 * JOIN_AND_LEAVE


def test_a_cluster_is_the_same_world_to_the_byte() -> None:
    one, other = (world(BrokerPowerOff(32.0, 0, 10.0)).run() for _ in range(2))
    assert (one.trace, one.events) == (other.trace, other.events)


def test_coordinators_move_by_reassignments_and_elections_and_no_group_rebalances() -> None:
    moves = [
        PartitionReassign(30.0 + number + partition / 10, "__consumer_offsets", partition, replicas)
        for number, replicas in enumerate([(2, 3), (3, 2)])
        for partition in range(3)
    ]
    elections = [LeaderElect(32.0 + partition / 10, "__consumer_offsets", partition) for partition in range(3)]
    run = world(*moves, *elections)
    outcome = run.run()
    assert outcome.violation is None
    assert outcome.faults == {"partition-reassign": 6, "leader-elect": 3}
    assert outcome.rebalances == 4 * JOIN_AND_LEAVE
    disk = run.brokers.disk
    assert isinstance(disk, ClusterDisk)
    (offsets,) = [topic for topic in disk.topics.values() if topic.name == "__consumer_offsets"]
    leadership = run.brokers.running[0].leadership
    assert {leadership.leader(offsets, partition).node_id for partition in range(3)} == {3}


def test_partitions_of_a_cancelled_handover_are_led_again() -> None:
    # The disk is slow, so leaders wait for a sync before they give anything away.
    slow = [DiskSlow(20.0, 6.0)]
    moves = [
        PartitionReassign(30.0 + number / 2, "__consumer_offsets", number % 3, (number // 3 % 3 + 1,))
        for number in range(80)
    ]
    over = [
        ReassignmentCancel(move.at + 0.35 + number % 5 / 10, move.topic, move.partition)
        for number, move in enumerate(moves)
    ]
    steps: list[Step] = [*slow, *moves, *over]
    sort(steps)
    outcome = world(*steps).run()
    assert outcome.violation is None


def test_copies_are_exact_while_leaders_of_partitions_groups_and_transactions_die() -> None:
    run = World(cluster_copies(1))
    outcome = run.run()
    assert outcome.violation is None
    assert outcome.faults["leader-kill"] >= 1
    clients = run.record_clients
    assert clients is not None and clients.checks is not None
    assert clients.checks.copies.count > 100


def test_a_broker_is_killed_by_what_it_leads() -> None:
    quiet, run = world(), world(LeaderKill(32.0, "__consumer_offsets", 0, 5.0))
    quiet.run()
    outcome = run.run()
    assert outcome.violation is None
    assert outcome.faults == {"leader-kill": 1}
    starts = [sum(process.starts for process in each.brokers.processes) for each in (quiet, run)]
    assert starts[1] == starts[0] + 1
