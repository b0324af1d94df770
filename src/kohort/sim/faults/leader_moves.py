"""Reassignments and elections in a clustered world: an administrator moves leaders, including coordinators.

They are requested from a broker's own leadership, under the rules of its API: only live brokers are
assigned.
"""

from __future__ import annotations

from typing import assert_never

from kohort.broker.cluster import DirectoryCluster
from kohort.log.cluster import PartitionId
from kohort.sim.processes import WorldState
from kohort.sim.steps import LeaderElect, LeaderStep, PartitionReassign, ReassignmentCancel


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
