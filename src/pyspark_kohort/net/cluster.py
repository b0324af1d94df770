"""Blocking client for metadata: partitions, their leaders, and their first and last offsets.

Source and sink use it.
"""

import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Self, TypeVar

from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.model import UUID, Millis, TopicPartition
from kohort.requests import ClusterMetadata, check, list_offsets_request, metadata_request, read_offsets
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.list_offsets import ListOffsetsResponse
from kohort.wire.messages.metadata import MetadataResponse
from pyspark_kohort.net.connection import BlockingConnection
from pyspark_kohort.net.login import Login
from pyspark_kohort.offsets import EARLIEST, LATEST, AtTime, Bound, Exact, text_of_topic_id, wanted
from pyspark_kohort.options import Broker, Topics, parse

T = TypeVar("T")

_TRANSACTION = 1
"""Key type of transactional IDs in FindCoordinator."""


class BlockingCluster:
    """Connections by broker, and leaders of partitions.

    They are looked up on demand and dropped after an error.
    """

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._secured: Login | None = None
        self._connections: dict[tuple[str, int], BlockingConnection] = {}
        self._leaders: dict[TopicPartition, tuple[str, int]] = {}
        self._topic_ids: dict[str, UUID] = {}
        self._internal: set[str] = set()
        """Known internal topics of the cluster, such as `__consumer_offsets`."""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """Return the cluster of a batch query with these options. Raises ConfigError."""
        return cls(parse(given, streaming=False).broker)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def reset(self) -> None:
        """Drop all connections and leaders after an error: any of the other connections may be dead, too."""
        self.close()
        self._leaders.clear()

    def drop(self, connection: BlockingConnection) -> None:
        """Close a connection that failed or has a pending response that is no longer needed."""
        connection.close()
        self._connections = {at: known for at, known in self._connections.items() if known is not connection}

    def topic_id(self, topic: str) -> str | None:
        """Return the topic id (KIP-516) from the last metadata response, or None if the broker sends none."""
        return text_of_topic_id(self._topic_ids.get(topic))

    def current_topic_id(self, topic: str) -> str | None:
        """Return the current topic id, or None if the topic or its id does not exist.

        Raises KafkaError, retriable or not.
        """
        self._topic_ids.pop(topic, None)
        self._metadata([topic])
        return self.topic_id(topic)

    def leader(self, tp: TopicPartition) -> BlockingConnection:
        """Return a connection to the partition's leader.

        Raises KafkaError, a retriable one if there is no leader yet.
        """
        if tp not in self._leaders:
            self._metadata([tp.topic])
        if tp not in self._leaders:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{tp} does not exist")
        return self._connection(self._leaders[tp])

    def partitions(self, topics: Topics) -> list[TopicPartition]:
        """Return all partitions of the topics, sorted. Raises KohortError if a topic does not exist."""
        if topics.partitions:
            counts = self.ask(lambda: self._metadata(sorted({tp.topic for tp in topics.partitions})))
            if missing := [tp for tp in topics.partitions if tp.partition >= counts.get(tp.topic, 0)]:
                raise KohortError(f"Partition {missing[0]} does not exist.")
            return list(topics.partitions)
        names = self.ask(lambda: self._metadata(topics.names or None))
        if topics.pattern is not None:
            # A pattern never matches internal topics (Kafka's exclude.internal.topics), as in Spark's own
            # source.
            found = [name for name in names.keys() - self._internal if re.fullmatch(topics.pattern, name)]
            names = {name: names[name] for name in found}
        elif missing_names := [name for name in topics.names if name not in names]:
            raise KohortError(f"Topic {missing_names[0]} does not exist.")
        return sorted(TopicPartition(name, number) for name, count in names.items() for number in range(count))

    def all_partitions(self) -> set[TopicPartition]:
        """Return the partitions of all topics, including internal ones, which no pattern matches."""
        counts = self.ask(lambda: self._metadata(None))
        return {TopicPartition(name, number) for name, count in counts.items() for number in range(count)}

    def exists(self, topic: str) -> bool:
        """Return whether a topic of that name exists, internal or not."""
        return topic in self.ask(lambda: self._metadata([topic]))

    def count_to_write(self, topic: str) -> int:
        """Return the partition count of a topic; the broker creates the topic if auto-creation is enabled."""

        def count() -> int:
            counts = self._metadata([topic], create=True)
            if topic not in counts:
                detail = f"topic {topic} does not exist, and the broker does not create it"
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail)
            return counts[topic]

        return self.ask(count)

    def offsets(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the offsets from ListOffsets for EARLIEST, LATEST or a time.

        The offset is None if no record is at or after the time.
        """
        return self.ask(lambda: self._list_offsets(asked, read_committed=self.broker.read_committed))

    def starts(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        return self.resolve(EARLIEST, tps)

    def ends(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end of each partition; with read_committed, the offset before the first open transaction."""
        return self.resolve(LATEST, tps)

    def high_watermarks(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end of each partition, open transactions included."""
        asked = dict.fromkeys(tps, LATEST)
        found = self.ask(lambda: self._list_offsets(asked, read_committed=False))
        return {tp: offset or 0 for tp, offset in found.items()}

    def resolve(self, number: int, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return one of the two ends (EARLIEST or LATEST) of each partition."""
        return {tp: offset or 0 for tp, offset in self.offsets(dict.fromkeys(tps, number)).items()}

    def bound(self, bound: Bound, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the current offset of the user's bound in each partition."""
        tps = list(tps)
        found = self.offsets(wanted(bound, tps))
        if isinstance(bound, Exact):
            return {tp: offset if (offset := bound.offsets[tp]) >= 0 else found[tp] or 0 for tp in tps}
        late = [tp for tp in tps if found[tp] is None]
        if late:
            if isinstance(bound, AtTime) and not bound.or_latest:
                raise KohortError(
                    f"{late[0]} has no record at or after the starting timestamp;"
                    " startingOffsetsByTimestampStrategy=latest begins at its end instead."
                )
            found |= self.ends(late)
        return {tp: offset or 0 for tp, offset in found.items()}

    def ask(self, question: Callable[[], T]) -> T:
        """Call `question`, and retry retriable errors for as long as a request may take.

        A broker's restart or the election of a new leader causes such errors.
        """
        deadline = time.monotonic() + self.broker.request_timeout_ms / 1000
        pause = self.broker.retry_interval_ms / 1000
        while True:
            try:
                return question()
            except KafkaError as error:
                if not error.retriable or time.monotonic() + pause > deadline:
                    raise
                self.reset()
            time.sleep(pause)
            pause = min(1.0, 2 * pause)

    def all_brokers(self) -> list[BlockingConnection]:
        """Return a connection to each broker. Raises KafkaError."""
        known = ClusterMetadata().merged(self.any_connection().call(metadata_request(()), MetadataResponse))
        return [self._connection((broker.host, broker.port)) for broker in known.brokers.values()]

    def transaction_coordinator(self, transactional_id: str) -> BlockingConnection:
        """Return a connection to the coordinator of a transactional ID. Raises KafkaError."""
        request = FindCoordinatorRequest(key=transactional_id, key_type=_TRANSACTION)
        found = self.any_connection().call(request, FindCoordinatorResponse)
        check(found.error_code, transactional_id, found.error_message)
        return self._connection((found.host, found.port))

    def _metadata(self, topics: Iterable[str] | None, *, create: bool = False) -> dict[str, int]:
        """Return partition counts of the existing topics, and update the leaders."""
        request = metadata_request(topics, create=create)
        known = ClusterMetadata().merged(self.any_connection().call(request, MetadataResponse))
        counts: dict[str, int] = {}
        for name, topic in known.topics.items():
            if topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            if topic.error is not ErrorCode.NONE:
                raise KafkaError(topic.error, f"topic {name}: {topic.error.sentence}")
            counts[name] = len(topic.leaders)
            self._topic_ids[name] = topic.topic_id
            if topic.internal:
                self._internal.add(name)
            for number, leader in topic.leaders.items():
                tp = TopicPartition(name, number)
                broker = None if leader.node_id is None else known.brokers.get(leader.node_id)
                if broker is not None:
                    self._leaders[tp] = broker.host, broker.port
                else:
                    self._leaders.pop(tp, None)
        return counts

    def _list_offsets(
        self, asked: Mapping[TopicPartition, int], *, read_committed: bool
    ) -> dict[TopicPartition, int | None]:
        by_leader: dict[BlockingConnection, list[TopicPartition]] = {}
        unknown = {tp.topic for tp in asked if tp not in self._leaders}
        if unknown:
            self._metadata(sorted(unknown))
        for tp in asked:
            by_leader.setdefault(self.leader(tp), []).append(tp)
        offsets: dict[TopicPartition, int | None] = {}
        for connection, tps in by_leader.items():
            request = list_offsets_request(
                {tp: asked[tp] for tp in tps},
                read_committed=read_committed,
                timeout_ms=self.broker.request_timeout_ms,
            )
            found, refused = read_offsets(connection.call(request, ListOffsetsResponse))
            for error in refused.values():
                raise error
            offsets |= {tp: None if at is None else at.offset for tp, at in found.items()}
        return offsets

    def any_connection(self) -> BlockingConnection:
        """Return a connection to any broker that responds."""
        if self._connections:
            return next(iter(self._connections.values()))
        last: KafkaError | None = None
        for address in self.broker.bootstrap:
            try:
                return self._connection(address)
            except KafkaError as error:
                last = error
                if error.code is ErrorCode.SASL_AUTHENTICATION_FAILED:
                    break  # the other brokers would count another failure of the same account
        assert last is not None
        raise last

    def _connection(self, address: tuple[str, int]) -> BlockingConnection:
        known = self._connections.get(address)
        if known is None:
            known = BlockingConnection(*address, self.broker.client_id, self._timeout_ms, self._login())
            self._connections[address] = known
        return known

    def _login(self) -> Login | None:
        """Return what TLS and SASL need; None for a cluster without them. Raises ConfigError."""
        if self._secured is None and self.broker.security:
            addresses = ",".join(f"{host}:{port}" for host, port in self.broker.bootstrap)
            self._secured = Login(self.broker.security.options(), addresses)
        return self._secured

    @property
    def _timeout_ms(self) -> Millis:
        return self.broker.request_timeout_ms


class _Clusters(threading.local):
    """Connections of this thread. Spark reuses Python workers, so connections stay open from task to task."""

    def __init__(self) -> None:
        self.known: dict[tuple[Broker, str], BlockingCluster] = {}


_clusters = _Clusters()


def cluster_of_worker(broker: Broker, purpose: str = "") -> BlockingCluster:
    """Return the cluster client that this thread keeps from task to task.

    Each purpose has connections of its own, because responses arrive in the order of the requests.
    """
    return _clusters.known.setdefault((broker, purpose), BlockingCluster(broker))


def disconnect() -> None:
    """Close the connections of this thread's tasks, for a process that continues with other work."""
    while _clusters.known:
        _clusters.known.popitem()[1].close()
