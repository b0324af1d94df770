"""The partition of an internal topic to which this broker itself appends records that any broker may write."""

from typing import Protocol

from kohort.broker.logs.leadership import Leadership
from kohort.broker.logs.topics import Topics
from kohort.log import PartitionLog, Topic


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    leadership: Leadership
    node_id: int
    topics: Topics


def partition_to_append(broker: Dependencies, name: str) -> PartitionLog | None:
    """Return a partition of the topic that this broker leads, or None; readers of the topic read all partitions.

    Creates the topic if it does not exist. A broker that leads none, and is not about to be given one, adds
    partitions; the cluster gives them to the brokers that lead the fewest. Raise KafkaError or OSError.
    """
    topics, leadership, node_id = broker.topics, broker.leadership, broker.node_id
    topic = topics.named(name) or topics.create(name, len(leadership.nodes))
    found = _first_log(topics, topic)
    if found is not None:
        return found
    leaders = [leadership.leader(topic, index) for index in range(topic.partitions)]
    if node_id in {leader.following for leader in leaders}:
        return None
    without = {node.node_id for node in leadership.nodes} - {leader.node_id for leader in leaders}
    return _first_log(topics, topics.grow(topic, topic.partitions + len(without))) if node_id in without else None


def _first_log(topics: Topics, topic: Topic) -> PartitionLog | None:
    led = (topics.log(topic, index) for index in range(topic.partitions))
    return next((found for found in led if found is not None), None)
