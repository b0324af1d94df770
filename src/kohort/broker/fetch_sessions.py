"""Fetch sessions (KIP-227): a client names only what changes of what it fetches, and is told only what changed.

A partition with nothing to read rests until its log moves, so an idle consumer of a thousand partitions costs the same
as one of a single partition.
"""

from collections.abc import Callable, Iterable, Iterator
from uuid import UUID

from kohort.broker.follower_reads import LEADER
from kohort.broker.parked_fetches import LogWatch, ParkedFetches, ReadLog
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

TOPIC_IDS_FROM = 13
"""The version of Fetch from which topics have ids instead of names."""

_LAST_EPOCH = 0x7FFF_FFFF
_EVICTED_AFTER_MS = 120_000  # Kafka's, which has no setting for it
_MOST_PLACES = 1_000_000
"""In all sessions of a broker; who asks for more names everything each time."""

Key = tuple[str | UUID, int]
"""A partition as requests of a session name it."""


class Place:
    """One partition of a fetch: what is wanted of it, and what was said of it last."""

    __slots__ = ("key", "log", "told_end", "told_start", "topic", "topic_id", "wanted")

    def __init__(self, key: Key, topic: FetchTopic, wanted: FetchPartition) -> None:
        self.key = key
        self.topic = topic.topic
        """Its name, as soon as that is known."""
        self.topic_id = topic.topic_id
        self.wanted = wanted
        self.log: ReadLog | None = None
        """As of the last look; None where it could not be read."""
        self.told_end = -1
        self.told_start = -1

    def is_news(self, data: PartitionData) -> bool:
        """Whether the client of a session must be told this."""
        return bool(
            data.records
            or data.error_code
            or data.preferred_read_replica != LEADER
            or data.high_watermark != self.told_end
            or data.log_start_offset != self.told_start
        )

    def told(self, data: PartitionData) -> None:
        """The client was told this. After an error the ends are -1, so that it hears when all is well again."""
        self.told_end, self.told_start = data.high_watermark, data.log_start_offset


def places_of(topics: Iterable[FetchTopic], version: int) -> Iterator[Place]:
    """What a request names."""
    by_id = version >= TOPIC_IDS_FROM
    for topic in topics:
        name = topic.topic_id if by_id else topic.topic
        for wanted in topic.partitions:
            yield Place((name, wanted.partition), topic, wanted)


class FetchSession:
    """What one client fetches. `stirring` are the partitions that may have something to say."""

    def __init__(self, session_id: int, version: int, places: dict[Key, Place], parked: ParkedFetches) -> None:
        self.id = session_id
        self.epoch = 1
        """Of the next request."""
        self.by_id = version >= TOPIC_IDS_FROM
        self.created_at: Millis = 0
        self.used_at: Millis = 0
        self.watch = LogWatch(parked, self._moved)
        self.places = places
        self.stirring = dict(places)
        self._by_log: dict[ReadLog, Place] = {}
        for place in places.values():
            self._follow(place, place.log)

    def update(self, request: FetchRequest, version: int) -> None:
        """Fetch this, too, or from elsewhere, and forget what is to be forgotten."""
        for new in places_of(request.topics, version):
            place = self.places.setdefault(new.key, new)
            place.wanted = new.wanted
            self.stirring[place.key] = place
        for topic in request.forgotten_topics_data:
            name = topic.topic_id if self.by_id else topic.topic
            for partition in topic.partitions:
                place_or_none = self.places.pop((name, partition), None)
                if place_or_none is not None:
                    self.stirring.pop(place_or_none.key, None)
                    self._unfollow(place_or_none)

    def looked(self, place: Place, log: ReadLog | None) -> None:
        """The partition was read from this log, or has none."""
        if place.log is not log:
            self._unfollow(place)
            self._follow(place, log)

    def rest(self, place: Place) -> None:
        """It has nothing to say before its log moves."""
        self.stirring.pop(place.key, None)

    def go_last(self, place: Place) -> None:
        """Others come first next time: this one had records."""
        if place.key in self.stirring:
            self.stirring[place.key] = self.stirring.pop(place.key)

    def _follow(self, place: Place, log: ReadLog | None) -> None:
        place.log = log
        if log is not None:
            self._by_log[log] = place
            self.watch.add(log)

    def _unfollow(self, place: Place) -> None:
        log, place.log = place.log, None
        if log is not None and self._by_log.get(log) is place:
            del self._by_log[log]
            self.watch.discard(log)

    def _moved(self, log: ReadLog) -> None:
        place = self._by_log[log]
        self.stirring[place.key] = place


class FetchSessions:
    """A broker's, at most `slots` of them. `fresh_id` gives ids that nobody can guess."""

    def __init__(self, slots: int, parked: ParkedFetches, fresh_id: Callable[[], UUID]) -> None:
        self._slots = slots
        self._parked = parked
        self._fresh_id = fresh_id
        self._sessions: dict[int, FetchSession] = {}
        """The one that was used longest ago first."""
        self._places = 0
        """Of all sessions."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, places: Iterable[Place], version: int, now: Millis) -> FetchSession | None:
        """A session that begins with these; None where there is no room for it."""
        by_key = {place.key: place for place in places}
        size = len(by_key)
        if self._places + size > _MOST_PLACES or (len(self._sessions) >= self._slots and not self._evict(size, now)):
            return None
        session = FetchSession(self._new_id(), version, by_key, self._parked)
        session.created_at = session.used_at = now
        self._sessions[session.id] = session
        self._places += size
        return session

    def resume(self, request: FetchRequest, version: int, now: Millis) -> FetchSession | ErrorCode:
        """The session that a request goes on with, brought up to date; or why it cannot. The caller closes one that
        has become empty."""
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != (version >= TOPIC_IDS_FROM):
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        self._places -= len(session.places)
        session.update(request, version)
        self._places += len(session.places)
        if self._places > _MOST_PLACES:
            self.close(session.id)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        session.epoch = 1 if session.epoch == _LAST_EPOCH else session.epoch + 1
        session.used_at = now
        self._sessions[session.id] = self._sessions.pop(session.id)
        return session

    def close(self, session_id: int) -> None:
        """Forget it, if it is there."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._places -= len(session.places)
            session.watch.close()

    def _evict(self, size: int, now: Millis) -> bool:
        """Make room for a session of that size, by Kafka's rule: the idle one goes, or the smallest that is old."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is not None and now - oldest.used_at > _EVICTED_AFTER_MS:
            self.close(oldest.id)
            return True
        old = [one for one in self._sessions.values() if now - one.created_at > _EVICTED_AFTER_MS]
        smallest = min(old, key=lambda one: (len(one.places), one.id), default=None)
        if smallest is None or len(smallest.places) >= size:
            return False
        self.close(smallest.id)
        return True

    def _new_id(self) -> int:
        while True:
            drawn = self._fresh_id().int & 0x7FFF_FFFF
            if drawn and drawn not in self._sessions:
                return drawn
