"""What source and sink ask a cluster: which partitions there are, who leads them, where they begin and end.

It blocks its caller.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from kohort.errors import ErrorCode, KafkaError, KohortError, error_code
from kohort.model import UUID, Millis, TopicPartition
from kohort.wire.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kohort.wire.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from pyspark_kohort.connection import Connection
from pyspark_kohort.offsets import LATEST, AtTime, Bound, Exact, text_of_topic_id, wanted
from pyspark_kohort.options import Broker, Topics

T = TypeVar("T")


class Cluster:
    """Connections by broker, and who leads what, learnt when needed and forgotten when it turns out wrong."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._connections: dict[tuple[str, int], Connection] = {}
        self._leaders: dict[TopicPartition, tuple[str, int]] = {}
        self._topic_ids: dict[str, UUID] = {}
        self._internal: set[str] = set()
        """Topics of the cluster itself, such as `__consumer_offsets`, as far as they were seen."""

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def reset(self) -> None:
        """Begin anew after an error: of the other connections, any may be dead too."""
        self.close()
        self._leaders.clear()

    def drop(self, connection: Connection) -> None:
        """Close a connection that failed or has an answer under way that nobody wants."""
        connection.close()
        self._connections = {at: known for at, known in self._connections.items() if known is not connection}

    def topic_id(self, topic: str) -> str | None:
        """The topic's id (KIP-516) as of the last metadata; None where the broker tells none."""
        return text_of_topic_id(self._topic_ids.get(topic))

    def current_topic_id(self, topic: str) -> str | None:
        """The topic's id now; None also where it does not exist. Raises KafkaError, retriable or not."""
        self._topic_ids.pop(topic, None)
        self._metadata([topic])
        return self.topic_id(topic)

    def leader(self, tp: TopicPartition) -> Connection:
        """A connection to the partition's leader. Raises KafkaError, retriable where there is none yet."""
        if tp not in self._leaders:
            self._metadata([tp.topic])
        if tp not in self._leaders:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{tp} does not exist")
        return self._connection(self._leaders[tp])

    def partitions(self, topics: Topics) -> list[TopicPartition]:
        """All partitions of the topics there are, sorted. Raises KohortError for a topic that does not exist."""
        if topics.partitions:
            counts = self.ask(lambda: self._metadata(sorted({tp.topic for tp in topics.partitions})))
            if missing := [tp for tp in topics.partitions if tp.partition >= counts.get(tp.topic, 0)]:
                raise KohortError(f"Partition {missing[0]} does not exist.")
            return list(topics.partitions)
        names = self.ask(lambda: self._metadata(topics.names or None))
        if topics.pattern is not None:
            # As Spark's own source: a pattern never finds internal topics (Kafka's exclude.internal.topics).
            found = [name for name in names.keys() - self._internal if re.fullmatch(topics.pattern, name)]
            names = {name: names[name] for name in found}
        elif missing_names := [name for name in topics.names if name not in names]:
            raise KohortError(f"Topic {missing_names[0]} does not exist.")
        return sorted(TopicPartition(name, number) for name, count in names.items() for number in range(count))

    def count_to_write(self, topic: str) -> int:
        """How many partitions a topic has, which the broker makes where it makes topics by itself."""

        def count() -> int:
            counts = self._metadata([topic], create=True)
            if topic not in counts:
                detail = f"topic {topic} does not exist, and the broker does not create it"
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail)
            return counts[topic]

        return self.ask(count)

    def offsets(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The offsets that ListOffsets gives for EARLIEST, LATEST or a time; None where no record is that young."""
        return self.ask(lambda: self._list_offsets(asked))

    def ends(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where each partition ends: for readers of committed records, before the first open transaction."""
        return self.resolve(LATEST, tps)

    def resolve(self, number: int, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """One of the two ends of each partition."""
        return {tp: offset or 0 for tp, offset in self.offsets(dict.fromkeys(tps, number)).items()}

    def bound(self, bound: Bound, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """What the user's bound means for each partition now."""
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
        """Repeat what a broker's restart or a new leader may have spoilt, for as long as a request may take."""
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

    def _metadata(self, topics: Iterable[str] | None, *, create: bool = False) -> dict[str, int]:
        """Partitions by topic, those that exist; the leaders are remembered."""
        chosen = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=chosen, allow_auto_topic_creation=create)
        answer = self.any_connection().call(request, MetadataResponse)
        addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        counts: dict[str, int] = {}
        for topic in answer.topics:
            code = error_code(topic.error_code)
            if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            if code is not ErrorCode.NONE:
                raise KafkaError(code, f"topic {topic.name}: {code.sentence}")
            assert topic.name is not None
            counts[topic.name] = len(topic.partitions)
            self._topic_ids[topic.name] = topic.topic_id
            if topic.is_internal:
                self._internal.add(topic.name)
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                if partition.leader_id in addresses:
                    self._leaders[tp] = addresses[partition.leader_id]
                else:
                    self._leaders.pop(tp, None)
        return counts

    def _list_offsets(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        by_leader: dict[Connection, list[TopicPartition]] = {}
        unknown = {tp.topic for tp in asked if tp not in self._leaders}
        if unknown:
            self._metadata(sorted(unknown))
        for tp in asked:
            by_leader.setdefault(self.leader(tp), []).append(tp)
        found: dict[TopicPartition, int | None] = {}
        for connection, tps in by_leader.items():
            answer = connection.call(self._offsets_request(tps, asked), ListOffsetsResponse)
            for topic in answer.topics:
                for partition in topic.partitions:
                    tp = TopicPartition(topic.name, partition.partition_index)
                    code = error_code(partition.error_code)
                    if code is not ErrorCode.NONE:
                        raise KafkaError(code, f"{tp}: {code.sentence}")
                    found[tp] = partition.offset if partition.offset >= 0 else None
        return found

    def _offsets_request(
        self, tps: Iterable[TopicPartition], asked: Mapping[TopicPartition, int]
    ) -> ListOffsetsRequest:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for tp in tps:
            entry = ListOffsetsPartition(partition_index=tp.partition, timestamp=asked[tp])
            topics.setdefault(tp.topic, []).append(entry)
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(self.broker.read_committed),
            topics=[ListOffsetsTopic(name=name, partitions=entries) for name, entries in topics.items()],
        )

    def any_connection(self) -> Connection:
        """To whichever broker answers."""
        if self._connections:
            return next(iter(self._connections.values()))
        last: KafkaError | None = None
        for address in self.broker.bootstrap:
            try:
                return self._connection(address)
            except KafkaError as error:
                last = error
        assert last is not None
        raise last

    def _connection(self, address: tuple[str, int]) -> Connection:
        known = self._connections.get(address)
        if known is None:
            known = Connection(*address, self.broker.client_id, self._timeout_ms)
            self._connections[address] = known
        return known

    @property
    def _timeout_ms(self) -> Millis:
        return self.broker.request_timeout_ms
