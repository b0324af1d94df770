"""Topics by pattern, as the client finds them: in the metadata of the whole cluster."""

import re
from collections.abc import Callable

from kohort.client.cluster import Cluster
from kohort.client.metadata import ClusterMetadata


def matching_topics(metadata: ClusterMetadata, pattern: re.Pattern[str], *, internal: bool) -> frozenset[str]:
    """The topics whose whole names match; the cluster's own only where `internal`."""
    return frozenset(
        name
        for name, topic in metadata.topics.items()
        if topic.exists and (internal or not topic.internal) and pattern.fullmatch(name)
    )


class TopicMatcher:
    """`on_change` is told the topics that match, as soon as they are known and whenever they changed."""

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
        """Look at the cluster soon, rather than at the end of metadata.max.age.ms."""
        self._cluster.want_metadata()

    def close(self) -> None:
        """Tell nobody any more."""
        self._cluster.unwatch(self)

    def _refreshed(self, metadata: ClusterMetadata) -> None:
        matched = matching_topics(metadata, self._pattern, internal=self._internal)
        if matched != self._matched:
            self._matched = matched
            self._on_change(matched)
