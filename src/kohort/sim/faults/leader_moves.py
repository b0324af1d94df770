"""Reassignments, elections and deaths of leaders in a clustered world, including coordinators.

Moves are requested from a broker's own leadership, under the rules of its API: only live brokers are
assigned.
"""

from __future__ import annotations

from typing import assert_never

from kohort.broker.cluster import DirectoryCluster
from kohort.log.cluster import PartitionId
from kohort.sim.processes import WorldState
from kohort.sim.steps import LeaderElect, LeaderKill, LeaderStep, PartitionReassign, ReassignmentCancel


def move_leader(world: WorldState, step: LeaderStep) -> bool:
    """Request a reassignment or an election; return whether a broker accepted it."""
    broker = world.brokers.active
    topic = None if broker is None else broker.topics.named(step.topic)
    if broker is None or topic is None or not isinstance(broker.leadership, DirectoryCluster):
        return False
    partition, leadership = PartitionId(topic.topic_id, step.partition), broker.leadership
    if step.partition >= topic.partitions:
        return False
    try:
        match step:
            case LeaderKill():
                return _kill(world, leadership.leader(topic, step.partition).node_id, step.seconds)
            case LeaderElect():
                leadership.elect([partition])
            case ReassignmentCancel():
                leadership.reassign({}, [partition])
            case PartitionReassign():
                if any(leadership.node(node_id) is None for node_id in step.replicas):
                    return False
                leadership.reassign({partition: step.replicas}, [])
            case _:
                assert_never(step)
    except OSError:
        return False  # a suspended process holds the lock of the image
    return True


def _kill(world: WorldState, node_id: int, seconds: float) -> bool:
    """Kill the process of a broker, which is back after `seconds`; return False if it does not run."""
    number = node_id - 1
    if number not in world.brokers.running or not world.brokers.processes[number].runs:
        return False
    world.brokers.fails(number, seconds)
    world.brokers.kill(number)
    return True
