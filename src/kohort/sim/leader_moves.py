"""Reassignments and elections in a world whose brokers are a cluster: an administrator moves leaders, coordinators too.

They are asked of a broker's own leadership, by the rules of its API: only brokers that live are assigned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kohort.broker.following import Following
from kohort.log.cluster import PartitionId

if TYPE_CHECKING:
    from kohort.sim.world import World


def move_leaders(world: World, what: str, words: Sequence[str]) -> bool:
    """`words` are a topic, a partition and, of a reassignment, its replicas; whether a broker took it."""
    broker = world.site.active
    topic = None if broker is None else broker.topics.named(words[0])
    if broker is None or topic is None or not isinstance(broker.leadership, Following):
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
        return False  # somebody who stands still holds the image
    return True
