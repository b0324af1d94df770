"""The coordinator's view of topics: a value that the shell replaces whenever topics change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from struct import pack
from types import MappingProxyType

from kohort.assignor.server import TopicShape
from kohort.model import UUID

HASH_RANGE = 1 << 64
"""Modulus of the sum of topic digests."""


@dataclass(frozen=True)
class Topic:
    """Identity and shape of one topic. A topic that is recreated under the same name has another ID."""

    name: str
    topic_id: UUID
    shape: TopicShape

    @cached_property
    def digest(self) -> int:
        """64-bit hash that changes with the topic. A group adds up those of its topics, so one more is cheap."""
        told = blake2b(digest_size=8)
        told.update(self.topic_id.bytes + pack(">i", self.shape.partitions) + self.name.encode("utf-8", "replace"))
        for racks in self.shape.racks or ():
            told.update(b"\0" + b"\1".join(sorted(rack.encode("utf-8", "replace") for rack in racks)))
        return int.from_bytes(told.digest(), "big")


class MetadataImage:
    """All topics of the cluster at one moment. Immutable; two images compare by identity."""

    __slots__ = ("__weakref__", "by_id", "by_name", "matchable", "version")

    def __init__(self, topics: Iterable[Topic] = (), version: int = 0, hidden: Collection[str] = ()) -> None:
        """Index `topics` by name and by ID.

        `version` grows with every change of topics; it is written with the topics that an expression
        matched. No expression matches the names in `hidden`; members can still subscribe to them by name.
        """
        self.by_name: Mapping[str, Topic] = MappingProxyType({topic.name: topic for topic in topics})
        self.by_id: Mapping[UUID, Topic] = MappingProxyType({t.topic_id: t for t in self.by_name.values()})
        self.matchable: Collection[str] = self.by_name.keys()
        """Names that expressions are matched against, in the order of `by_name`."""
        if any(name in self.by_name for name in hidden):
            self.matchable = dict.fromkeys(name for name in self.by_name if name not in hidden)
        self.version = version

    def ids_of(self, names: Iterable[str]) -> frozenset[UUID]:
        """Return the IDs of those topics that exist."""
        by_name = self.by_name
        return frozenset(by_name[name].topic_id for name in names if name in by_name)


UNKNOWN = MetadataImage()
"""Placeholder until the shell supplies an image; an image without topics is a different fact."""


@lru_cache(maxsize=8)
def changed_names(old: MetadataImage, new: MetadataImage) -> frozenset[str]:
    """Return the names of topics that were added, removed or changed.

    The result is cached because all shards of a broker ask for the same two images.
    """
    before, after = old.by_name, new.by_name
    changed = {name for name, topic in after.items() if before.get(name) != topic}
    return frozenset(changed.union(name for name in before if name not in after))
