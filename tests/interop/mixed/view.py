"""The group as the broker has it, asked by librdkafka's admin client."""

from __future__ import annotations

from dataclasses import dataclass, field

import confluent_kafka
import confluent_kafka.admin
import confluent_kafka.cimpl
import kafka

Spot = tuple[str, int]
"""A topic's name and a partition."""


@dataclass(frozen=True, slots=True)
class View:
    """One look at it."""

    state: str = "UNKNOWN"
    owned: dict[str, frozenset[Spot]] = field(default_factory=dict)
    """By the member's client id."""


class GroupWatch:
    """Looks at one group; a broker that is not ready to say anything shows nothing."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap})

    def look(self) -> View:
        try:
            described = self._admin.describe_consumer_groups([self._group], request_timeout=20.0)[self._group].result()
        except confluent_kafka.KafkaException:
            return View()  # Apache Kafka makes the offsets topic when the first group asks for it
        owned = {
            member.client_id: frozenset((place.topic, place.partition) for place in member.assignment.topic_partitions)
            for member in described.members
        }
        return View(described.state.name, owned)

    def committed(self) -> dict[Spot, int]:
        """The offsets. Not for commits with metadata: confluent-kafka reads on behind their end, or crashes."""
        request = confluent_kafka.ConsumerGroupTopicPartitions(self._group)
        result = self._admin.list_consumer_group_offsets([request], request_timeout=20.0)[self._group].result()
        return {(place.topic, place.partition): place.offset for place in result.topic_partitions}

    def notes(self) -> dict[Spot, str]:
        """The metadata of the commits."""
        # confluent-kafka writes the 0 that ends a string in C, too.
        admin = kafka.KafkaAdminClient(bootstrap_servers=self._bootstrap)
        try:
            offsets = admin.list_group_offsets(self._group)[self._group]
        finally:
            admin.close()
        return {(place.topic, place.partition): at.metadata.removesuffix("\0") for place, at in offsets.items()}

    def widen(self, topic: str, partitions: int) -> None:
        """Increase the topic to that many partitions."""
        self._admin.create_partitions([confluent_kafka.cimpl.NewPartitions(topic, partitions)])[topic].result(20.0)
