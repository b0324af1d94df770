"""Which topics a consumer group asks for, counted so that one member's change costs what it alone asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kohort.coordinator.consumer.member import NO_SUBSCRIPTION, Subscription
from kohort.coordinator.consumer.metadata import HASH_RANGE, MetadataImage, Topic
from kohort.model import UUID, Millis


@dataclass(frozen=True, slots=True)
class ResolvedExpression:
    """The topics that an expression matched, as the log says."""

    topics: frozenset[str]
    version: int
    """Of the metadata that they were looked up in."""
    resolved_at: Millis


@dataclass(slots=True)
class _Asked:
    """One subscription, and how many members have it."""

    subscription: Subscription
    topics: frozenset[str]
    """What it names, and what its expression matched."""
    members: int = 0
    ids: frozenset[UUID] | None = None
    """Of those topics that exist; None until somebody asks."""


class SubscribedTopics:
    """The subscriptions of a group's members. Members of a group mostly ask for the same, so they share one."""

    __slots__ = ("_asked", "_digest", "_stale", "_told", "counts", "expressions", "resolved")

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """By topic name, how many subscriptions come to it."""
        self.expressions: Counter[str] = Counter()
        """How many members ask by each expression."""
        self.resolved: dict[str, ResolvedExpression] = {}
        """What each expression matched; one is missing for a moment while the log is loaded."""
        self._asked: dict[Subscription, _Asked] = {}
        self._digest = 0
        self._told: dict[str, Topic] = {}
        """The topics whose digests are in the sum."""
        self._stale: set[str] = set()
        """Names that may have to go into the sum, or out of it, or in with another value."""

    # What replay writes

    def shared(self, subscription: Subscription) -> Subscription:
        """The value that other members have who ask for the same."""
        asked = self._asked.get(subscription)
        return subscription if asked is None else asked.subscription

    def replace(self, before: Subscription, after: Subscription) -> Collection[str]:
        """One member asks for something else. Returns the topics that nobody asked for before, or asks for now."""
        if before == after:
            return ()
        added = self._add(after)  # first, so that what both name is not dropped in between
        return added | self._drop(before)

    def resolve(self, expression: str, resolution: ResolvedExpression | None) -> Collection[str]:
        """An expression matches these topics now. Returns the topics that nobody asked for before, or asks for now."""
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

    # What topics look like

    def topics_changed(self, names: Collection[str]) -> Collection[Subscription]:
        """There is something else under these names. Returns the subscriptions that come to one of them."""
        self._stale.update(names)
        concerned = [asked for asked in self._asked.values() if not asked.topics.isdisjoint(names)]
        for asked in concerned:
            asked.ids = None
        return {asked.subscription for asked in concerned}

    def topics_of(
        self, subscription: Subscription, fresh: Mapping[str, ResolvedExpression] | None = None
    ) -> frozenset[str]:
        """The names that a subscription comes to; `fresh` goes before what is on record."""
        if subscription.expression is None:
            return subscription.names
        resolution = (fresh or {}).get(subscription.expression) or self.resolved.get(subscription.expression)
        return subscription.names if resolution is None else subscription.names | resolution.topics

    def ids_of(self, subscription: Subscription, image: MetadataImage) -> frozenset[UUID]:
        """The ids of the topics that a subscription comes to, of those that exist."""
        asked = self._asked.get(subscription)
        if asked is None:
            return image.ids_of(self.topics_of(subscription))
        if asked.ids is None:
            asked.ids = image.ids_of(asked.topics)
        return asked.ids

    def digest(self, image: MetadataImage) -> int:
        """The sum of the digests of all topics that are asked for and exist."""
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
        """The digest if so many more subscriptions came to each topic."""
        digest = self.digest(image)
        for name, by in changes.items():
            topic, before = image.by_name.get(name), self.counts[name]
            if topic is not None and bool(before) != bool(before + by):
                digest += topic.digest if not before else -topic.digest
        return digest % HASH_RANGE

    def changes_by(self, fresh: Mapping[str, ResolvedExpression]) -> Counter[str]:
        """How the counts will change when these expressions match these topics."""
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
        """How the counts will change when members drop these subscriptions, and one takes another instead."""
        changes: Counter[str] = Counter()
        if added in self._asked and all(one is NO_SUBSCRIPTION for one in dropped):
            return changes  # as in a crowd that joins
        if added not in self._asked:
            changes.update(self.topics_of(added, fresh))
        for subscription, members in Counter(dropped).items():
            asked = self._asked.get(subscription)
            if asked is not None and asked.members == members and subscription != added:
                changes.subtract(asked.topics)
        return changes
