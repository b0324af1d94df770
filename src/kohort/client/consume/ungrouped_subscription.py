"""Subscription of a consumer without a group: it reads all partitions of its topics."""

import re
from collections.abc import Callable, Mapping

from kohort.client.consume.topic_patterns import TopicMatcher
from kohort.client.net import Cluster
from kohort.model import TopicPartition


class UngroupedSubscription:
    """Watcher of all partitions of topics.

    `on_topics` receives the subscribed topics, and `on_partitions` the partitions that exist, as
    soon as they are known and whenever they change.
    """

    def __init__(
        self,
        cluster: Cluster,
        on_topics: Callable[[frozenset[str]], None],
        on_partitions: Callable[[set[TopicPartition]], object],
    ) -> None:
        self._cluster = cluster
        self._on_topics = on_topics
        self._on_partitions = on_partitions
        self._matcher: TopicMatcher | None = None

    def subscribe(self, topics: frozenset[str] | re.Pattern[str], *, internal: bool) -> None:
        """Watch these topics in place of the topics before."""
        self.close()
        if isinstance(topics, re.Pattern):
            self._matcher = TopicMatcher(self._cluster, topics, self._watch, internal=internal)
        else:
            self._watch(topics)

    def close(self) -> None:
        """Stop watching."""
        self._cluster.unwatch(self)
        if self._matcher is not None:
            self._matcher.close()
            self._matcher = None

    def _watch(self, topics: frozenset[str]) -> None:
        self._on_topics(topics)
        self._cluster.watch(self, topics, self._changed)

    def _changed(self, counts: Mapping[str, int], asked: frozenset[str]) -> None:
        self._on_partitions({TopicPartition(topic, n) for topic, count in counts.items() for n in range(count)})
