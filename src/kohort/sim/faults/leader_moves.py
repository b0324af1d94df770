"""Reassignments and elections in a clustered world: an administrator moves leaders, including coordinators.

They are requested from a broker's own leadership, under the rules of its API: only live brokers are
assigned.
"""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.cluster.following import ClusterFollower
from kohort.log.cluster import PartitionId
from kohort.sim.processes.state import WorldState


def move_leaders(world: WorldState, what: str, words: Sequence[str]) -> bool:
    """Request a reassignment or an election; return whether a broker accepted it.

    `words` are a topic, a partition and, for a reassignment, its replicas.
    """
    broker = world.site.active
    topic = None if broker is None else broker.topics.named(words[0])
    if broker is None or topic is None or not isinstance(broker.leadership, ClusterFollower):
        return False
    one, leadership = PartitionId(topic.topic_id, int(words[1])), broker.leadership
    if one.partition >= topic.partitions:
        return False
    try:
        if what == "elect":
            leadership.elect([one])
        elif what == "call-off":
            leadership.reassign({}, [one])
        else:
            replicas = tuple(map(int, words[2].split(",")))
            if any(leadership.node(node_id) is None for node_id in replicas):
                return False
            leadership.reassign({one: replicas}, [])
    except OSError:
        return False  # a suspended process holds the lock of the image
    return True
