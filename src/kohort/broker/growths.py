"""Topics that got more partitions, and who was told so.

A member of a classic group learns of new partitions when its metadata expires, after up to five minutes. A fetch that
is answered with NOT_LEADER_OR_FOLLOWER for one partition, once, makes every client ask for metadata now, and fetch
that partition again.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kohort.broker.fetch_sessions import Place
from kohort.log.api import Topic
from kohort.model import UUID

if TYPE_CHECKING:
    from kohort.broker.connection import Connection


class Growths:
    """Of one broker's life: a client that connects later reads the metadata as they are."""

    def __init__(self) -> None:
        self.count = 0
        self._last: dict[str | UUID, int] = {}
        """By a topic's name, and by its id, which of all growths was its last."""

    def grown(self, topic: Topic) -> None:
        """It has more partitions than before."""
        self.count += 1
        self._last[topic.name] = self._last[topic.topic_id] = self.count

    def untold(self, connection: "Connection", places: Iterable[Place]) -> Place | None:
        """A partition by which to tell a client that a topic grew since it was asked here the last time, if any."""
        seen, connection.growths_seen = connection.growths_seen, self.count
        for place in places:
            if max(self._last.get(place.topic, 0), self._last.get(place.topic_id, 0)) > seen:
                return place
        return None
