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
class _UsedSubscription:
    """A distinct subscription, and the number of members that have it."""

    subscription: Subscription
    topics: frozenset[str]
    """Topics that it names, and topics that its expression matched."""
    members: int = 0
    ids: frozenset[UUID] | None = None
    """IDs of its topics that exist, or None until they are requested."""


class SubscribedTopics:
    """The subscriptions of a group's members. Most members of a group share one subscription."""

    __slots__ = ("_digest", "_hashed", "_stale", "_used", "counts", "expressions", "resolved")

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Number of subscriptions to each topic, by name."""
        self.expressions: Counter[str] = Counter()
        """Number of members that use each expression."""
        self.resolved: dict[str, ResolvedExpression] = {}
        """Topics that each expression matched. An entry may be missing temporarily while the log is loaded."""
        self._used: dict[Subscription, _UsedSubscription] = {}
        self._digest = 0
        self._hashed: dict[str, Topic] = {}
        """Topics whose digests are in the sum."""
        self._stale: set[str] = set()
        """Names whose digests may have to be added to the sum, removed from it or replaced."""

    # Written by replay

    def shared(self, subscription: Subscription) -> Subscription:
        """Return the object that other members with an equal subscription share."""
        used = self._used.get(subscription)
        return subscription if used is None else used.subscription

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
        for used in self._used.values():
            if used.subscription.expression == expression:
                topics = self.topics_of(used.subscription)
                changed |= self._count(topics, 1) | self._count(used.topics, -1)
                used.topics, used.ids = topics, None
        return changed

    def _add(self, subscription: Subscription) -> set[str]:
        if subscription == NO_SUBSCRIPTION:
            return set()
        if subscription.expression is not None:
            self.expressions[subscription.expression] += 1
        used = self._used.get(subscription)
        if used is not None:
            used.members += 1
            return set()
        used = self._used[subscription] = _UsedSubscription(subscription, self.topics_of(subscription), 1)
        return self._count(used.topics, 1)

    def _drop(self, subscription: Subscription) -> set[str]:
        if subscription == NO_SUBSCRIPTION:
            return set()
        if subscription.expression is not None:
            self.expressions[subscription.expression] -= 1
            self.expressions += Counter()
        used = self._used[subscription]
        used.members -= 1
        if used.members:
            return set()
        del self._used[subscription]
        return self._count(used.topics, -1)

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
        using = [used for used in self._used.values() if not used.topics.isdisjoint(names)]
        for used in using:
            used.ids = None
        return {used.subscription for used in using}

    def topics_of(
        self, subscription: Subscription, new_matches: Mapping[str, ResolvedExpression] | None = None
    ) -> frozenset[str]:
        """Return the topic names of a subscription. Matches in `new_matches` take precedence over recorded ones."""
        if subscription.expression is None:
            return subscription.names
        resolution = (new_matches or {}).get(subscription.expression) or self.resolved.get(subscription.expression)
        return subscription.names if resolution is None else subscription.names | resolution.topics

    def ids_of(self, subscription: Subscription, image: MetadataImage) -> frozenset[UUID]:
        """Return the IDs of the existing topics of a subscription."""
        used = self._used.get(subscription)
        if used is None:
            return image.ids_of(self.topics_of(subscription))
        if used.ids is None:
            used.ids = image.ids_of(used.topics)
        return used.ids

    def digest(self, image: MetadataImage) -> int:
        """Return the sum of the digests of all subscribed topics that exist."""
        for name in self._stale:
            old = self._hashed.pop(name, None)
            new = image.by_name.get(name) if name in self.counts else None
            if new is not None:
                self._hashed[name] = new
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

    def changes_by(self, new_matches: Mapping[str, ResolvedExpression]) -> Counter[str]:
        """Return how the counts will change if these expressions match these topics."""
        changes: Counter[str] = Counter()
        for used in self._used.values() if new_matches else ():
            if used.subscription.expression in new_matches:
                changes.update(self.topics_of(used.subscription, new_matches))
                changes.subtract(used.topics)
        return changes

    def changes(
        self,
        dropped: Collection[Subscription],
        added: Subscription = NO_SUBSCRIPTION,
        new_matches: Mapping[str, ResolvedExpression] | None = None,
    ) -> Counter[str]:
        """Return how the counts will change if members drop these subscriptions, and one of them adds another."""
        changes: Counter[str] = Counter()
        if added in self._used and all(subscription is NO_SUBSCRIPTION for subscription in dropped):
            return changes  # common when many members join at once
        if added not in self._used:
            changes.update(self.topics_of(added, new_matches))
        for subscription, members in Counter(dropped).items():
            used = self._used.get(subscription)
            if used is not None and used.members == members and subscription != added:
                changes.subtract(used.topics)
        return changes
