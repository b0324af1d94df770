"""Fetch sessions (KIP-227): a broker that remembers what is fetched is told only what changed."""

from collections.abc import Mapping
from dataclasses import dataclass

from kohort.client.error_table import Operation, Reaction, reaction
from kohort.client.options import ConsumerOptions
from kohort.errors import ErrorCode
from kohort.model import UUID, TopicPartition
from kohort.wire.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

_LAST_EPOCH = 0x7FFF_FFFF


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to fetch of one partition: -1 for a leader epoch that is not known."""

    topic_id: UUID
    offset: int
    leader_epoch: int


class FetchSession:
    """Of one connection, whose requests follow each other: make a `request`, then say how it went."""

    def __init__(self, options: ConsumerOptions) -> None:
        self._options = options
        self._isolation = 1 if options.isolation_level == "read_committed" else 0
        self._id = 0
        """0 while the broker keeps none for us."""
        self._epoch = 0
        """Of the next request; 0 begins a session, and ends the one of that id."""
        self._rack_id = ""
        self._refused = False
        """Whether the last request was, for what the broker knows of the session."""
        self._known: dict[TopicPartition, Wanted] = {}
        """What the broker remembers."""

    def request(self, wanted: Mapping[TopicPartition, Wanted], rack_id: str = "") -> FetchRequest:
        """A request of these partitions: of all of them, or of the changes since the last one.

        A leader may name a follower in that rack to fetch from (KIP-392).
        """
        self._rack_id = rack_id
        changed: Mapping[TopicPartition, Wanted] = wanted
        forgotten: dict[TopicPartition, Wanted] = {}
        if self._epoch:
            known = self._known
            changed = {partition: one for partition, one in wanted.items() if known.get(partition) != one}
            forgotten = {
                partition: one
                for partition, one in known.items()
                if partition not in wanted or wanted[partition].topic_id != one.topic_id
            }
        self._known = dict(wanted)
        return self._request(self._topics(changed), _forgotten(forgotten))

    def again(self) -> FetchRequest:
        """A request of the same partitions as the last one."""
        return self._request([] if self._epoch else self._topics(self._known), [])

    def _request(self, topics: list[FetchTopic], forgotten: list[ForgottenTopic]) -> FetchRequest:
        options = self._options
        return FetchRequest(
            max_wait_ms=options.fetch_max_wait_ms,
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
        """The broker answered, and keeps this session; 0 for none."""
        self._refused = False
        self._id = session_id
        if not session_id:
            self._epoch = 0
        else:
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def refused(self, code: ErrorCode) -> bool:
        """Whether the broker lost the session: then the same is asked for again at once, in a new one.

        False also where it refuses a new session for the same reason.
        """
        lost = reaction(Operation.FETCH_REQUEST, code) is Reaction.NEW_SESSION
        again = lost and not self._refused
        self._refused = lost
        self.failed()
        if lost and code is not ErrorCode.INVALID_FETCH_SESSION_EPOCH:
            self._id = 0
        return again

    def failed(self) -> None:
        """Nobody knows whether the broker took the last request: begin anew."""
        self._epoch = 0

    def _topics(self, wanted: Mapping[TopicPartition, Wanted]) -> list[FetchTopic]:
        topics: dict[str, FetchTopic] = {}
        for (name, number), one in wanted.items():
            topic = topics.get(name)
            if topic is None:
                topics[name] = topic = FetchTopic(topic=name, topic_id=one.topic_id, partitions=[])
            topic.partitions.append(
                FetchPartition(
                    partition=number,
                    current_leader_epoch=one.leader_epoch,
                    fetch_offset=one.offset,
                    partition_max_bytes=self._options.max_partition_fetch_bytes,
                )
            )
        return list(topics.values())


def _forgotten(partitions: Mapping[TopicPartition, Wanted]) -> list[ForgottenTopic]:
    topics: dict[str, ForgottenTopic] = {}
    for (name, number), one in partitions.items():
        topic = topics.get(name)
        if topic is None:
            topics[name] = topic = ForgottenTopic(topic=name, topic_id=one.topic_id, partitions=[])
        topic.partitions.append(number)
    return list(topics.values())
