"""Transaction markers: written to partitions of this broker, and repeated until every partition has its own.

A marker for a partition of `__consumer_offsets` goes through the shard of its groups, where it makes offsets visible.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from kohort.broker.groups import GroupCoordinator
from kohort.broker.logs import Leadership, Topics, Writer
from kohort.broker.transactions.other_brokers import OtherBrokers
from kohort.broker.transactions.shard import TransactionPartition
from kohort.coordinator.transactions import Markers
from kohort.errors import ErrorCode, error_code
from kohort.log import CoordinatorFenced, Fenced, PartitionLog, PartitionStopped, Topic
from kohort.log.cluster import OFFSETS_TOPIC, Node
from kohort.model import Millis, TopicPartition
from kohort.wire.batches import Marker, encode_marker
from kohort.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


class MarkingParts(Protocol):
    """The parts of the broker that this module uses."""

    groups: GroupCoordinator
    leadership: Leadership
    node_id: int
    topics: Topics
    writer: Writer

    def no_log(self, topic: Topic | None, partition: int) -> ErrorCode: ...

    def wall(self) -> Millis: ...

    @property
    def stopping(self) -> bool: ...


log = logging.getLogger("kohort.broker")

Done = Callable[[ErrorCode], None]

_AGAIN_S = 0.1
"""Interval between two attempts to write a marker, in seconds."""
_OVER = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""Errors that no repetition changes: somebody else has ended a newer transaction of the producer."""
_OF_LOADING = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)


def append_marker(
    broker: MarkingParts,
    partition: TopicPartition,
    producer_id: int,
    epoch: int,
    marker: Marker,
    version: int,
    done: Done,
) -> None:
    """Write a marker to a partition that this broker leads; call `done` with the result once it is on disk."""
    topic = broker.topics.named(partition.topic)
    found = None if topic is None else broker.topics.log(topic, partition.partition)
    if found is None:
        done(broker.no_log(topic, partition.partition))
        return
    if partition.topic == OFFSETS_TOPIC:
        shard = broker.groups.of_partition(partition.partition)
        # The sender knows nothing of groups, and repeats the marker if the partition has no leader that takes it.
        shard.end_transaction(
            producer_id,
            epoch,
            marker,
            version,
            lambda code: done(ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _OF_LOADING else code),
        )
        return
    code = _append(broker, found, producer_id, epoch, marker, version)
    if code is ErrorCode.NONE:
        broker.writer.current().then(partial(done, ErrorCode.NONE), partial(done, ErrorCode.KAFKA_STORAGE_ERROR))
    else:
        done(code)


def _append(
    broker: MarkingParts, found: PartitionLog, producer_id: int, epoch: int, marker: Marker, version: int
) -> ErrorCode:
    match found.producers.check_marker(producer_id, epoch, marker.coordinator_epoch, version):
        case Fenced():
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case CoordinatorFenced():
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    try:
        found.append(encode_marker(producer_id, epoch, marker, broker.wall()), found.leader_epoch)
    except PartitionStopped:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE


class MarkerWriting:
    """Writes the markers of transactions that this broker coordinates."""

    def __init__(self, broker: MarkingParts, others: OtherBrokers) -> None:
        self._broker = broker
        self._others = others

    def write(self, shard: TransactionPartition, markers: Markers) -> None:
        """Write the markers of one transaction until all partitions have theirs."""
        if shard.ready:
            _Ending(self._broker, self._others, shard, markers).attempt()


class _Ending:
    """One transaction that waits for its markers."""

    def __init__(
        self, broker: MarkingParts, others: OtherBrokers, shard: TransactionPartition, markers: Markers
    ) -> None:
        self._broker = broker
        self._others = others
        self._shard = shard
        self._markers = markers
        self._term = shard.term
        """A shard that is loaded again writes all its markers again."""
        self._left = dict.fromkeys(sorted(markers.partitions))
        """Partitions that have no marker and are not being asked."""
        self._written: list[TopicPartition] = []
        """Partitions that have their markers, and are not reported yet."""
        self._repeats = False

    def attempt(self) -> None:
        """Write the markers that are missing."""
        self._repeats = False
        if self._shard.term != self._term or self._broker.stopping:
            return
        left, self._left = self._left, {}
        elsewhere: dict[Node, list[TopicPartition]] = {}
        for partition in left:
            node = self._leader(partition)
            if node is None:
                self._append(partition)
            else:
                elsewhere.setdefault(node, []).append(partition)
        for node, partitions in elsewhere.items():
            self._others.ask(
                node, self._request(partitions), WriteTxnMarkersResponse, partial(self._other_answered, partitions)
            )

    def _leader(self, partition: TopicPartition) -> Node | None:
        """Return the other broker that leads the partition; None if this one does, or nobody."""
        topic = self._broker.topics.named(partition.topic)
        if topic is None or partition.partition >= topic.partitions:
            return None
        leader = self._broker.leadership.leader(topic, partition.partition)
        return None if leader.node_id == self._broker.node_id else self._broker.leadership.node(leader.node_id)

    def _append(self, partition: TopicPartition) -> None:
        markers = self._markers
        marker = Marker(markers.committed, self._shard.epoch)
        answered = partial(self._answered, partition)
        append_marker(self._broker, partition, markers.producer_id, markers.epoch, marker, markers.version, answered)

    def _request(self, partitions: list[TopicPartition]) -> WriteTxnMarkersRequest:
        by_topic: dict[str, list[int]] = {}
        for topic, number in partitions:
            by_topic.setdefault(topic, []).append(number)
        markers = self._markers
        one = WritableTxnMarker(
            producer_id=markers.producer_id,
            producer_epoch=markers.epoch,
            transaction_result=markers.committed,
            topics=[WritableTxnMarkerTopic(name=name, partition_indexes=found) for name, found in by_topic.items()],
            coordinator_epoch=self._shard.epoch,
            transaction_version=markers.version,
        )
        return WriteTxnMarkersRequest(markers=[one])

    def _other_answered(self, partitions: list[TopicPartition], response: WriteTxnMarkersResponse | None) -> None:
        codes = {
            TopicPartition(topic.name, result.partition_index): error_code(result.error_code)
            for marker in (() if response is None else response.markers)
            for topic in marker.topics
            for result in topic.partitions
        }
        for partition in partitions:
            self._answered(partition, codes.get(partition, ErrorCode.NETWORK_EXCEPTION))

    def _answered(self, partition: TopicPartition, code: ErrorCode) -> None:
        if code is ErrorCode.NONE or self._is_gone(partition):
            if not self._written:
                asyncio.get_running_loop().call_soon(self._report)
            self._written.append(partition)
        elif code in _OVER:
            log.warning(
                "a marker of transactional ID %r is refused by %s: %s; the transaction stays in its state until its"
                " coordinator is loaded again",
                self._markers.transactional_id,
                partition,
                code.name,
            )
        else:
            self._left[partition] = None
            if not self._repeats:
                self._repeats = True
                asyncio.get_running_loop().call_later(_AGAIN_S, self.attempt)

    def _report(self) -> None:
        written, self._written = self._written, []
        if self._shard.term == self._term:
            self._shard.marked(self._markers, written)

    def _is_gone(self, partition: TopicPartition) -> bool:
        """Return whether the partition does not exist, so that there is nothing to end."""
        topic = self._broker.topics.named(partition.topic)
        return topic is None or partition.partition >= topic.partitions
