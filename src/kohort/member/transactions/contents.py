"""Partitions and offsets of one transaction: those that it has, and those that it is to have."""

from collections.abc import Iterable, Mapping

from kohort.errors import KafkaError
from kohort.member.offsets import OffsetAndMetadata
from kohort.member.transactions.actions import ConsumerGroupMetadata, Settled
from kohort.member.transactions.offset_commit import OffsetCommit
from kohort.member.transactions.reactions import Request
from kohort.model import TopicPartition
from kohort.requests import ProducerId, add_offsets_request, add_partitions_request
from kohort.wire.codec import Message


class TransactionContents:
    """Contents of a transaction of this version."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.started = False
        """Whether the coordinator knows the transaction, so that it must be ended."""
        self.offsets: list[OffsetCommit] = []
        """Calls that send offsets, in their order."""
        self.adding: tuple[TopicPartition, ...] = ()
        """Partitions of an AddPartitionsToTxn that has no final answer, in version 1."""
        self.partitions: set[TopicPartition] = set()
        """Partitions that may be written to."""
        self._new: dict[TopicPartition, None] = {}

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions. In version 2 the brokers add them with the first batch."""
        added = [partition for partition in partitions if partition not in self.partitions]
        if self.version >= 2:
            self.partitions.update(added)
            self.started |= bool(added)
        else:
            self._new.update(dict.fromkeys(partition for partition in added if partition not in self.adding))

    def send_offsets(
        self, call: int, group: ConsumerGroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Add offsets. In version 2 the group's coordinator adds itself."""
        version_2 = self.version >= 2
        self.started |= version_2
        self.offsets.append(OffsetCommit(call, group, dict(offsets), added=version_2))

    def next_request(self, transactional_id: str, producer: ProducerId) -> tuple[Request, Message] | None:
        """Return the next request that adds something; None if nothing is left to add."""
        if not self.adding:
            self.adding, self._new = tuple(self._new), {}
        if self.adding:
            return Request.ADD_PARTITIONS, add_partitions_request(transactional_id, producer, self.adding)
        if not self.offsets:
            return None
        commit = self.offsets[0]
        if not commit.added:
            return Request.ADD_OFFSETS, add_offsets_request(transactional_id, producer, commit.group.group_id)
        return Request.OFFSET_COMMIT, commit.request(transactional_id, producer)

    def partitions_added(self) -> None:
        """Record that the coordinator has added the partitions."""
        self.started = True
        self.partitions.update(self.adding)
        self.adding = ()

    def group_added(self) -> None:
        """Record that the coordinator has added the group of the first offsets."""
        self.started = self.offsets[0].added = True
        if self.offsets[0].dropped:
            self.offsets.pop(0)

    def refused(self, request: Request) -> None:
        """Drop what a coordinator has refused, so that it is not asked again."""
        if request is Request.ADD_PARTITIONS:
            self.adding = ()
        elif request in (Request.ADD_OFFSETS, Request.OFFSET_COMMIT, Request.FIND_GROUP_COORDINATOR) and self.offsets:
            self.offsets[0].asked = False

    def give_up(self, error: KafkaError) -> list[Settled]:
        """Add nothing more, and return the end of the calls that send offsets.

        What was sent to the transaction's coordinator and has no answer stays: the coordinator may have
        added it, and then the transaction must be ended.
        """
        self._new.clear()
        ended = [Settled(commit.operation, error) for commit in self.offsets if not commit.dropped]
        self.offsets = [commit for commit in self.offsets if commit.asked and not commit.added]
        for commit in self.offsets:
            commit.dropped = True
        return ended
