"""The topics to which a consumer group subscribes.

They are counted, so a change of one member costs time only for the topics of that member alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kohort.coordinator.consumer.member import NO_SUBSCRIPTION, Subscription
from kohort.coordinator.topic_metadata import HASH_RANGE, MetadataImage, Topic
from kohort.model import UUID, Millis


@dataclass(frozen=True, slots=True)
class ResolvedExpression:
    """The topics that an expression matched, as recorded in the log."""

    topics: frozenset[str]
    version: int
    """Version of the metadata in which they were matched."""
    resolved_at: Millis


@dataclass(slots=True)
class _Asked:
    """A distinct subscription, and the number of members that have it."""

    subscription: Subscription
    topics: frozenset[str]
    """Topics that it names, and topics that its expression matched."""
    members: int = 0
    ids: frozenset[UUID] | None = None
    """IDs of its topics that exist, or None until they are requested."""


class SubscribedTopics:
    """The subscriptions of a group's members. Most members of a group share one subscription."""

    __slots__ = ("_asked", "_digest", "_stale", "_told", "counts", "expressions", "resolved")

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Number of subscriptions to each topic, by name."""
        self.expressions: Counter[str] = Counter()
        """Number of members that use each expression."""
        self.resolved: dict[str, ResolvedExpression] = {}
        """Topics that each expression matched. An entry may be missing temporarily while the log is loaded."""
        self._asked: dict[Subscription, _Asked] = {}
        self._digest = 0
        self._told: dict[str, Topic] = {}
        """Topics whose digests are in the sum."""
        self._stale: set[str] = set()
        """Names whose digests may have to be added to the sum, removed from it or replaced."""

    # Written by replay

    def shared(self, subscription: Subscription) -> Subscription:
        """Return the object that other members with an equal subscription share."""
        asked = self._asked.get(subscription)
        return subscription if asked is None else asked.subscription

    def replace(self, before: Subscription, after: Subscription) -> Collection[str]:
        """Replace one member's subscription. Return the topics whose first subscription began or last one ended."""
        if before == after:
            return ()
        added = self._add(after)  # first, so topics that both contain are not dropped temporarily
        return added | self._drop(before)

    def resolve(self, expression: str, resolution: ResolvedExpression | None) -> Collection[str]:
        """Record the topics of an expression. Return those whose first subscription began or last one ended."""
        if resolution is None:
            self.resolved.pop(expression, None)
        else:
            self.resolved[expression] = resolution
        changed: set[str] = set()
        for asked in self._asked.values():
            if asked.subscription.expression == expression:
                topics = self.topics_of(asked.subscription)
                changed |= self._count(topics, 1) | self._count(asked.topics, -1)
                asked.topics, asked.ids = topics, None
        return changed

    def _add(self, subscription: Subscription) -> set[str]:
        if subscription == NO_SUBSCRIPTION:
            return set()
        if subscription.expression is not None:
            self.expressions[subscription.expression] += 1
        asked = self._asked.get(subscription)
        if asked is not None:
            asked.members += 1
            return set()
        asked = self._asked[subscription] = _Asked(subscription, self.topics_of(subscription), 1)
        return self._count(asked.topics, 1)

    def _drop(self, subscription: Subscription) -> set[str]:
        if subscription == NO_SUBSCRIPTION:
            return set()
        if subscription.expression is not None:
            self.expressions[subscription.expression] -= 1
            self.expressions += Counter()
        asked = self._asked[subscription]
        asked.members -= 1
        if asked.members:
            return set()
        del self._asked[subscription]
        return self._count(asked.topics, -1)

    def _count(self, topics: Iterable[str], by: int) -> set[str]:
        changed = set()
        for name in topics:
            before = self.counts[name]
            if before + by:
                self.counts[name] = before + by
            else:
                del self.counts[name]
            if not before or not before + by:
                changed.add(name)
        self._stale |= changed
        return changed

    # State of the topics

    def topics_changed(self, names: Collection[str]) -> Collection[Subscription]:
        """Note that these topics changed. Return the subscriptions that contain one of them."""
        self._stale.update(names)
        concerned = [asked for asked in self._asked.values() if not asked.topics.isdisjoint(names)]
        for asked in concerned:
            asked.ids = None
        return {asked.subscription for asked in concerned}

    def topics_of(
        self, subscription: Subscription, fresh: Mapping[str, ResolvedExpression] | None = None
    ) -> frozenset[str]:
        """Return the topic names of a subscription. Matches in `fresh` take precedence over recorded ones."""
        if subscription.expression is None:
            return subscription.names
        resolution = (fresh or {}).get(subscription.expression) or self.resolved.get(subscription.expression)
        return subscription.names if resolution is None else subscription.names | resolution.topics

    def ids_of(self, subscription: Subscription, image: MetadataImage) -> frozenset[UUID]:
        """Return the IDs of the existing topics of a subscription."""
        asked = self._asked.get(subscription)
        if asked is None:
            return image.ids_of(self.topics_of(subscription))
        if asked.ids is None:
            asked.ids = image.ids_of(asked.topics)
        return asked.ids

    def digest(self, image: MetadataImage) -> int:
        """Return the sum of the digests of all subscribed topics that exist."""
        for name in self._stale:
            old = self._told.pop(name, None)
            new = image.by_name.get(name) if name in self.counts else None
            if new is not None:
                self._told[name] = new
            self._digest += (new.digest if new is not None else 0) - (old.digest if old is not None else 0)
        self._stale.clear()
        self._digest %= HASH_RANGE
        return self._digest

    def digest_after(self, image: MetadataImage, changes: Mapping[str, int]) -> int:
        """Return the digest after the number of subscriptions to each topic changes by `changes`."""
        digest = self.digest(image)
        for name, by in changes.items():
            topic, before = image.by_name.get(name), self.counts[name]
            if topic is not None and bool(before) != bool(before + by):
                digest += topic.digest if not before else -topic.digest
        return digest % HASH_RANGE

    def changes_by(self, fresh: Mapping[str, ResolvedExpression]) -> Counter[str]:
        """Return how the counts will change if these expressions match these topics."""
        changes: Counter[str] = Counter()
        for asked in self._asked.values() if fresh else ():
            if asked.subscription.expression in fresh:
                changes.update(self.topics_of(asked.subscription, fresh))
                changes.subtract(asked.topics)
        return changes

    def changes(
        self,
        dropped: Collection[Subscription],
        added: Subscription = NO_SUBSCRIPTION,
        fresh: Mapping[str, ResolvedExpression] | None = None,
    ) -> Counter[str]:
        """Return how the counts will change if members drop these subscriptions, and one of them adds another."""
        changes: Counter[str] = Counter()
        if added in self._asked and all(one is NO_SUBSCRIPTION for one in dropped):
            return changes  # common when many members join at once
        if added not in self._asked:
            changes.update(self.topics_of(added, fresh))
        for subscription, members in Counter(dropped).items():
            asked = self._asked.get(subscription)
            if asked is not None and asked.members == members and subscription != added:
                changes.subtract(asked.topics)
        return changes
