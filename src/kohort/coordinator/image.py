"""Which topics there are: what the shell tells every shard, and all shards share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kohort.model import UUID


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic. Deleted and made again under its name, it has another id and is another topic."""

    topic_id: UUID
    name: str
    partitions: int
    racks: tuple[frozenset[str], ...] | None = None
    """Of each partition the racks that hold a replica; None where nobody said."""


def _nothing() -> Mapping[str, TopicImage]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """All topics at one time; a change makes a new image. `MetadataImage()` is a cluster without topics."""

    version: int = 0
    """Rises by 1 with every image of one broker's life; members' regular expressions are resolved at a version."""
    by_name: Mapping[str, TopicImage] = field(default_factory=_nothing)
    by_id: Mapping[UUID, TopicImage] = field(default_factory=lambda: MappingProxyType({}))
    changed: frozenset[str] = frozenset()
    """The names of topics that differ from the image before, so that a change costs only whom it concerns."""

    def with_topics(self, topics: Iterable[TopicImage]) -> "MetadataImage":
        """The next image, with exactly these topics. Time in the number of topics."""
        by_name = {topic.name: topic for topic in topics}
        names = by_name.keys() | self.by_name.keys()
        changed = frozenset(name for name in names if by_name.get(name) != self.by_name.get(name))
        by_id = {topic.topic_id: topic for topic in by_name.values()}
        return MetadataImage(self.version + 1, MappingProxyType(by_name), MappingProxyType(by_id), changed)

    def with_topic(self, name: str, topic: TopicImage | None) -> "MetadataImage":
        """The next image, in which only the topic of that name differs: new, changed, or gone where it is None."""
        by_name, by_id = dict(self.by_name), dict(self.by_id)
        before = by_name.pop(name, None)
        if before is not None:
            del by_id[before.topic_id]
        if topic is not None:
            assert topic.name == name
            by_name[name] = by_id[topic.topic_id] = topic
        changed = frozenset({name} if before != topic else ())
        return MetadataImage(self.version + 1, MappingProxyType(by_name), MappingProxyType(by_id), changed)
