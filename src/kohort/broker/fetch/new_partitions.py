"""Topics that got more partitions, and the clients that do not know it yet.

Without help, a member of a classic group learns of new partitions when its metadata expires, after up to five minutes.
If one partition of a fetch is answered once with NOT_LEADER_OR_FOLLOWER, every client asks for metadata at once and
fetches that partition again.
"""

from collections.abc import Iterable

from kohort.broker.fetch.sessions import FetchedPartition
from kohort.broker.net import ClientConnection
from kohort.log import Topic
from kohort.model import UUID


class NewPartitions:
    """The topics that grew since this broker started; a client that connects later reads current metadata anyway."""

    def __init__(self) -> None:
        self.count = 0
        self._last: dict[str | UUID, int] = {}
        """Number of the last growth of each topic, by name and by ID, in the order of all growths."""

    def grown(self, topic: Topic) -> None:
        """Record that a topic got more partitions."""
        self.count += 1
        self._last[topic.name] = self._last[topic.topic_id] = self.count

    def unannounced(self, connection: ClientConnection, places: Iterable[FetchedPartition]) -> FetchedPartition | None:
        """Return a partition of a topic that grew since this client was last checked; None if there is none."""
        seen, connection.new_partitions_seen = connection.new_partitions_seen, self.count
        for place in places:
            if max(self._last.get(place.topic, 0), self._last.get(place.topic_id, 0)) > seen:
                return place
        return None
