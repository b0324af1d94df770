"""Offsets of a group that a transaction commits, on their way to the coordinators."""

from collections.abc import Mapping
from dataclasses import dataclass

from kohort.member.offsets import OffsetAndMetadata
from kohort.member.transactions.actions import ConsumerGroupMetadata
from kohort.model import TopicPartition
from kohort.requests import ProducerId
from kohort.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)


@dataclass(slots=True)
class OffsetCommit:
    """Offsets that one call sends. Some may be written before others."""

    operation: int
    group: ConsumerGroupMetadata
    left: dict[TopicPartition, OffsetAndMetadata]
    """Offsets that the group's coordinator has not written so far."""
    added: bool
    """Whether the transaction's coordinator has the group in the transaction, or need not be asked."""
    asked: bool = False
    """Whether the group was sent to the transaction's coordinator, which may have added it."""
    dropped: bool = False
    """Whether the call has ended, so that only the answer about the group is of interest."""

    def request(self, transactional_id: str, producer: ProducerId) -> TxnOffsetCommitRequest:
        """Return the request for the offsets that are left."""
        group = self.group
        return TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=group.group_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=_topics(self.left),
        )


def _topics(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> list[TxnOffsetCommitRequestTopic]:
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (name, number), position in offsets.items():
        topic = topics.setdefault(name, TxnOffsetCommitRequestTopic(name=name, partitions=[]))
        topic.partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=number,
                committed_offset=position.offset,
                committed_leader_epoch=-1 if position.leader_epoch is None else position.leader_epoch,
                committed_metadata=position.metadata,
            )
        )
    return list(topics.values())
