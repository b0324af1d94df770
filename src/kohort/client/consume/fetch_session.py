"""Fetch sessions (KIP-227): the client sends only changes to a broker that remembers its partitions."""

from collections.abc import Mapping

from kohort.client.error_table import Operation, Reaction, reaction
from kohort.client.options import ConsumerOptions
from kohort.errors import ErrorCode
from kohort.model import Millis, TopicPartition
from kohort.requests import FetchRequestPartition, fetch_topics, forgotten_topics
from kohort.wire.messages.fetch import FetchRequest, FetchTopic, ForgottenTopic

_LAST_EPOCH = 0x7FFF_FFFF


class FetchSession:
    """Fetch session of one connection with sequential requests.

    Create a `request`, then report its outcome.
    """

    def __init__(self, options: ConsumerOptions) -> None:
        self._options = options
        self._isolation = 1 if options.isolation_level == "read_committed" else 0
        self._id = 0
        """Session ID; 0 while the broker keeps no session for this client."""
        self._epoch = 0
        """Epoch of the next request. 0 starts a new session and ends the one with this ID."""
        self._rack_id = ""
        self._refused = False
        """Whether the broker rejected the last request because of the session's state."""
        self._known: dict[TopicPartition, FetchRequestPartition] = {}
        """Partitions that the broker remembers."""

    def request(self, wanted: Mapping[TopicPartition, FetchRequestPartition], rack_id: str = "") -> FetchRequest:
        """Return a request for these partitions: all of them, or only the changes since the last request.

        A leader may answer with a follower in the rack `rack_id` to fetch from (KIP-392).
        """
        self._rack_id = rack_id
        changed: Mapping[TopicPartition, FetchRequestPartition] = wanted
        forgotten: dict[TopicPartition, FetchRequestPartition] = {}
        if self._epoch:
            known = self._known
            changed = {
                partition: position for partition, position in wanted.items() if known.get(partition) != position
            }
            forgotten = {
                partition: position
                for partition, position in known.items()
                if partition not in wanted or wanted[partition].topic_id != position.topic_id
            }
        self._known = dict(wanted)
        wait_ms = self._options.fetch_max_wait_ms
        return self._request(fetch_topics(changed), forgotten_topics(forgotten), wait_ms)

    def again(self, wait_ms: Millis) -> FetchRequest:
        """Return a request for the same partitions as the last one, which the broker may hold for `wait_ms`."""
        return self._request([] if self._epoch else fetch_topics(self._known), [], wait_ms)

    def _request(self, topics: list[FetchTopic], forgotten: list[ForgottenTopic], wait_ms: Millis) -> FetchRequest:
        options = self._options
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=options.fetch_min_bytes,
            max_bytes=options.fetch_max_bytes,
            isolation_level=self._isolation,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
            rack_id=self._rack_id,
        )

    def succeeded(self, session_id: int) -> None:
        """Record a response and the ID of the session that the broker keeps; 0 for none."""
        self._refused = False
        self._id = session_id
        if not session_id:
            self._epoch = 0
        else:
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def refused(self, code: ErrorCode) -> bool:
        """Return whether to repeat the request at once in a new session, because the broker lost this one.

        Return False if the broker rejects a new session for the same reason.
        """
        lost = reaction(Operation.FETCH_REQUEST, code) is Reaction.NEW_SESSION
        again = lost and not self._refused
        self._refused = lost
        self.failed()
        if lost and code is not ErrorCode.INVALID_FETCH_SESSION_EPOCH:
            self._id = 0
        return again

    def failed(self) -> None:
        """Start a new session, because it is unknown whether the broker received the last request."""
        self._epoch = 0
