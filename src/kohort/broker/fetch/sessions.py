"""Fetch sessions (KIP-227): requests and responses contain only the partitions that changed.

A partition without news is skipped until its log moves, so an idle consumer of a thousand partitions costs the same as
a consumer of one.
"""

from collections.abc import Callable, Iterable, Iterator
from uuid import UUID

from kohort.broker.fetch.followers import LEADER
from kohort.broker.fetch.waiting import LogWatch, ReadLog, WaitingFetches
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

TOPIC_IDS_FROM = 13
"""First version of Fetch that identifies topics by ID instead of by name."""

_LAST_EPOCH = 0x7FFF_FFFF
_EVICTED_AFTER_MS = 120_000  # Kafka's value, for which it has no setting
_MOST_PLACES = 1_000_000
"""Maximum number of partitions in all sessions of a broker; beyond it, clients send full requests each time."""

Key = tuple[str | UUID, int]
"""A partition as a session's requests name it: topic name or ID, and partition index."""


class FetchedPartition:
    """One partition of a fetch: what the client wants from it, and what it was told last."""

    __slots__ = ("key", "log", "told_end", "told_start", "topic", "topic_id", "wanted")

    def __init__(self, key: Key, topic: FetchTopic, wanted: FetchPartition) -> None:
        self.key = key
        self.topic = topic.topic
        """The topic's name, or "" until it is known."""
        self.topic_id = topic.topic_id
        self.wanted = wanted
        self.log: ReadLog | None = None
        """The log at the last read; None if the partition could not be read."""
        self.told_end = -1
        self.told_start = -1

    def has_changed(self, data: PartitionData) -> bool:
        """Return whether a session's response must include this data."""
        return bool(
            data.records
            or data.error_code
            or data.preferred_read_replica != LEADER
            or data.high_watermark != self.told_end
            or data.log_start_offset != self.told_start
        )

    def note_response(self, data: PartitionData) -> None:
        """Record what the response tells the client. After an error the ends are -1, so the recovery is news."""
        self.told_end, self.told_start = data.high_watermark, data.log_start_offset


def places_of(topics: Iterable[FetchTopic], version: int) -> Iterator[FetchedPartition]:
    """Yield the partitions that a request names."""
    by_id = version >= TOPIC_IDS_FROM
    for topic in topics:
        name = topic.topic_id if by_id else topic.topic
        for wanted in topic.partitions:
            yield FetchedPartition((name, wanted.partition), topic, wanted)


class FetchSession:
    """The partitions that one client fetches. Those in `stirring` may have news."""

    def __init__(
        self, session_id: int, version: int, places: dict[Key, FetchedPartition], parked: WaitingFetches, now: Millis
    ) -> None:
        self.id = session_id
        self.epoch = 1
        """Epoch that the next request must have."""
        self.by_id = version >= TOPIC_IDS_FROM
        self.created_at = self.used_at = now
        self.watch = LogWatch(parked, self._moved)
        self.places = places
        self.stirring = dict(places)
        self._by_log: dict[ReadLog, FetchedPartition] = {}
        for place in places.values():
            self._follow(place, place.log)

    def update(self, request: FetchRequest, version: int) -> None:
        """Add and update the partitions of an incremental request, and remove those that it forgets."""
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

    def looked(self, place: FetchedPartition, log: ReadLog | None) -> None:
        """Record the log that the partition was read from, or None if it has none."""
        if place.log is not log:
            self._unfollow(place)
            self._follow(place, log)

    def rest(self, place: FetchedPartition) -> None:
        """Skip the partition until its log moves."""
        self.stirring.pop(place.key, None)

    def move_to_end(self, place: FetchedPartition) -> None:
        """Move a partition that returned records behind the others, which are read first next time."""
        if place.key in self.stirring:
            self.stirring[place.key] = self.stirring.pop(place.key)

    def _follow(self, place: FetchedPartition, log: ReadLog | None) -> None:
        place.log = log
        if log is not None:
            self._by_log[log] = place
            self.watch.add(log)

    def _unfollow(self, place: FetchedPartition) -> None:
        log, place.log = place.log, None
        if log is not None:
            del self._by_log[log]
            self.watch.discard(log)

    def _moved(self, log: ReadLog) -> None:
        place = self._by_log[log]
        self.stirring[place.key] = place


class FetchSessions:
    """The sessions of one broker, at most `slots`. `fresh_id` returns unguessable IDs."""

    def __init__(self, slots: int, parked: WaitingFetches, fresh_id: Callable[[], UUID]) -> None:
        self._slots = slots
        self._parked = parked
        self._fresh_id = fresh_id
        self._sessions: dict[int, FetchSession] = {}
        """Sessions by ID, the least recently used first."""
        self._places = 0
        """Number of partitions in all sessions."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, places: Iterable[FetchedPartition], version: int, now: Millis) -> FetchSession | None:
        """Return a new session with these partitions; None if there is no room for it."""
        by_key = {place.key: place for place in places}
        size = len(by_key)
        if self._places + size > _MOST_PLACES or (len(self._sessions) >= self._slots and not self._evict(size, now)):
            return None
        session = FetchSession(self._new_id(), version, by_key, self._parked, now)
        self._sessions[session.id] = session
        self._places += size
        return session

    def resume(self, request: FetchRequest, version: int, now: Millis) -> FetchSession | ErrorCode:
        """Return the session that a request continues, updated, or the error code that says why it cannot.

        The caller closes a session that has become empty.
        """
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

    def places(self, session_id: int) -> Iterable[FetchedPartition]:
        """Return the partitions of a session; none if it does not exist."""
        session = self._sessions.get(session_id)
        return () if session is None else session.places.values()

    def tell_again(self, session_id: int, keys: Iterable[Key]) -> None:
        """Include these partitions in the next response, because the client did not get what the last one said."""
        session = self._sessions.get(session_id)
        if session is not None:
            for key in keys:
                place = session.places.get(key)
                if place is not None:
                    place.told_end = place.told_start = -1
                    session.stirring[key] = place

    def close(self, session_id: int) -> None:
        """Remove the session if it exists."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._places -= len(session.places)
            session.watch.close()

    def _evict(self, size: int, now: Millis) -> bool:
        """Make room for `size` partitions by Kafka's rule: evict an idle session, or the smallest old one."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is not None and now - oldest.used_at > _EVICTED_AFTER_MS:
            self.close(oldest.id)
            return True
        old = [candidate for candidate in self._sessions.values() if now - candidate.created_at > _EVICTED_AFTER_MS]
        smallest = min(old, key=lambda candidate: (len(candidate.places), candidate.id), default=None)
        if smallest is None or len(smallest.places) >= size:
            return False
        self.close(smallest.id)
        return True

    def _new_id(self) -> int:
        while True:
            drawn = self._fresh_id().int & 0x7FFF_FFFF
            if drawn and drawn not in self._sessions:
                return drawn
