"""Fetch: the partitions of a request."""

from collections.abc import Mapping
from dataclasses import dataclass

from kohort.model import UUID, TopicPartition
from kohort.wire.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic


@dataclass(frozen=True, slots=True)
class FetchRequestPartition:
    """Partition of a Fetch request. A leader epoch of -1 means unknown."""

    topic_id: UUID
    offset: int
    max_bytes: int
    leader_epoch: int = -1


def fetch_topics(wanted: Mapping[TopicPartition, FetchRequestPartition]) -> list[FetchTopic]:
    """Return the topics to fetch, with their partitions in the given order."""
    topics: dict[str, FetchTopic] = {}
    for (name, number), position in wanted.items():
        topic = topics.get(name)
        if topic is None:
            topics[name] = topic = FetchTopic(topic=name, topic_id=position.topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=number,
                current_leader_epoch=position.leader_epoch,
                fetch_offset=position.offset,
                partition_max_bytes=position.max_bytes,
            )
        )
    return list(topics.values())


def forgotten_topics(partitions: Mapping[TopicPartition, FetchRequestPartition]) -> list[ForgottenTopic]:
    """Return the topics that a fetch session must forget (KIP-227)."""
    topics: dict[str, ForgottenTopic] = {}
    for (name, number), position in partitions.items():
        topic = topics.get(name)
        if topic is None:
            topics[name] = topic = ForgottenTopic(topic=name, topic_id=position.topic_id, partitions=[])
        topic.partitions.append(number)
    return list(topics.values())
