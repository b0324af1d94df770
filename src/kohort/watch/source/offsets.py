"""Questions for offsets to the leaders of partitions. None of them waits for a topic that is deleted or hidden."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set

from kohort.client import Cluster, ErrorCode, KafkaError
from kohort.errors import error_code
from kohort.model import Millis, TopicPartition
from kohort.requests import ClusterMetadata, list_offsets_request, read_offsets
from kohort.watch.lag import EndPoint
from kohort.watch.live import Live
from kohort.watch.source.clients import clock
from kohort.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

_REFUSED_MS = 60_000
"""Interval between questions for a topic that is deleted or may not be described."""
_TIMEOUT_MS = 5_000
"""Time within which a broker should answer, where offsets are in remote storage."""
_OWNER = object()

_ABSENT = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class OffsetQuestions:
    """Questions of one cluster."""

    def __init__(self, cluster: Cluster, live: Live) -> None:
        self._cluster = cluster
        self._live = live
        self._refused: dict[str, Millis] = {}
        """Topics that are deleted or may not be described, with the time of the last question."""

    @property
    def metadata(self) -> ClusterMetadata:
        """Known leaders. It is another object after each change."""
        return self._cluster.metadata

    def keep(self, topics: Set[str]) -> None:
        """Keep the leaders of these topics up to date, and forget all others."""
        for topic in self._refused.keys() - topics:
            del self._refused[topic]
            self._live.solved(_about(topic), clock())  # no group needs it any more
        self._cluster.keep_metadata(_OWNER, topics)

    def refused(self, now: Millis) -> set[str]:
        """Return the topics for which it is too early to ask again."""
        return {topic for topic, at in self._refused.items() if 0 <= now - at < _REFUSED_MS}

    async def ask(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, EndPoint | None]:
        """Return the first record at or after a time, for each partition whose leader answers; None if all are older.

        The point has the record's timestamp and its offset.
        """
        by_node = await self.leaders(wanted)
        requests = [
            self.send(node, self.request({partition: wanted[partition] for partition in partitions}))
            for node, partitions in by_node.items()
        ]
        answers: dict[TopicPartition, EndPoint | None] = {}
        for response in await asyncio.gather(*requests):
            if not isinstance(response, KafkaError):
                found, refused = read_offsets(response)
                self.answered({partition.topic for partition in found})
                for partition, offset in found.items():
                    answers[partition] = None if offset is None else EndPoint(offset.timestamp or 0, offset.offset)
                self.refuse({partition: problem.code for partition, problem in refused.items()})
        return answers

    def request(self, wanted: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
        """Return a request to the leader of these partitions."""
        return list_offsets_request(wanted, read_committed=False, timeout_ms=_TIMEOUT_MS)

    async def send(self, node: int, request: ListOffsetsRequest) -> ListOffsetsResponse | KafkaError:
        """Return the broker's response, or why there is none."""
        try:
            connection = await self._cluster.connection(node, "ends")
            return await connection.request(request, ListOffsetsResponse)
        except KafkaError as problem:
            self._cluster.want_metadata()
            return problem

    async def leaders(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Return the partitions by the broker that leads them. Those without a leader are left out.

        Raises KafkaError if no broker answers.
        """
        partitions = list(partitions)
        missing = {partition.topic for partition in partitions if self._leader(partition) is None}
        if missing:
            metadata = await self._cluster.refresh(missing)
            for name in missing:
                topic = metadata.topics.get(name)
                if topic is None or topic.error in _ABSENT:
                    self._refuse_topic(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error)
        by_node = defaultdict[int, list[TopicPartition]](list)
        for partition in partitions:
            if (node := self._leader(partition)) is not None:
                by_node[node].append(partition)
            else:
                self._cluster.want_metadata((partition.topic,))
        return by_node

    def _leader(self, partition: TopicPartition) -> int | None:
        leader = self._cluster.metadata.leader(partition)
        return None if leader is None else leader.node_id

    def refuse(self, refused: Mapping[TopicPartition, int]) -> None:
        """Take the error codes of partitions."""
        for partition, code in refused.items():
            if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                self._refuse_topic(partition.topic, error_code(code))
        if refused:
            self._cluster.want_metadata()

    def _refuse_topic(self, topic: str, code: ErrorCode) -> None:
        now = clock()
        self._refused[topic] = now
        if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            need = f"The ends of topic {topic} cannot be read: they need the ACL Describe on the topic."
            self._live.problem(need, now, about=_about(topic))
        else:
            self._live.solved(_about(topic), now)  # it is deleted

    def answered(self, topics: Iterable[str]) -> None:
        """Take that leaders told offsets of these topics."""
        if self._live.unsolved:
            for topic in topics:
                self._live.solved(_about(topic), clock())


def _about(topic: str) -> str:
    return f"topic {topic}"
