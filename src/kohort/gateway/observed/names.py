"""Names of topics by their IDs, from responses to clients that pass through the gateway. Pure."""

from collections.abc import Iterable

from kohort.gateway.observed.facts import Partition
from kohort.model import NO_TOPIC_ID, UUID, TopicPartition
from kohort.wire.messages.metadata import MetadataResponse

_MOST = 100_000


class TopicNames:
    """Names that were seen last, at most 100,000."""

    def __init__(self) -> None:
        self._names: dict[UUID, str] = {}

    def learn(self, response: MetadataResponse) -> None:
        """Remember the names in a response."""
        for topic in response.topics:
            if topic.name is None or topic.topic_id == NO_TOPIC_ID:
                continue
            self._names.pop(topic.topic_id, None)
            self._names[topic.topic_id] = topic.name
        while len(self._names) > _MOST:
            del self._names[next(iter(self._names))]

    def name_of(self, topic_id: UUID) -> str | None:
        """Return the name of a topic; None if no response has named it."""
        return self._names.get(topic_id)

    def named(self, partitions: Iterable[Partition]) -> frozenset[TopicPartition]:
        """Return the partitions of topics whose names are known."""
        names = self._names
        return frozenset(TopicPartition(names[topic], number) for topic, number in partitions if topic in names)
