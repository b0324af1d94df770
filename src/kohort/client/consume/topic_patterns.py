"""Client-side topic patterns, matched against the metadata of the whole cluster."""

import re
from collections.abc import Callable

from kohort.client.net import Cluster
from kohort.requests import ClusterMetadata


def matching_topics(metadata: ClusterMetadata, pattern: re.Pattern[str], *, internal: bool) -> frozenset[str]:
    """Return the topics whose whole names match; internal topics only if `internal`."""
    return frozenset(
        name
        for name, topic in metadata.topics.items()
        if topic.exists and (internal or not topic.internal) and pattern.fullmatch(name)
    )


class TopicMatcher:
    """Watcher of the topics that match a pattern.

    `on_change` receives the matching topics as soon as they are known and whenever they change.
    """

    def __init__(
        self,
        cluster: Cluster,
        pattern: re.Pattern[str],
        on_change: Callable[[frozenset[str]], None],
        *,
        internal: bool,
    ) -> None:
        self._cluster = cluster
        self._pattern = pattern
        self._internal = internal
        self._on_change = on_change
        self._matched: frozenset[str] | None = None
        cluster.watch_all(self, self._refreshed)

    def look(self) -> None:
        """Request new metadata soon, before metadata.max.age.ms has passed."""
        self._cluster.want_metadata()

    def close(self) -> None:
        """Stop calling `on_change`."""
        self._cluster.unwatch(self)

    def _refreshed(self, metadata: ClusterMetadata) -> None:
        matched = matching_topics(metadata, self._pattern, internal=self._internal)
        if matched != self._matched:
            self._matched = matched
            self._on_change(matched)
