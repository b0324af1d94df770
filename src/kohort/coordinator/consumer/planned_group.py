"""The part of a consumer group that the computation of a target reads."""

from __future__ import annotations

from typing import Protocol

from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.partitions import Partitions
from kohort.coordinator.consumer.topics import SubscribedTopics


class PlannedGroup(Protocol):
    """The members of a group, their subscriptions and their current targets; implemented by `ConsumerGroup`."""

    epoch: int
    target_epoch: int
    members: dict[str, ConsumerMember]
    targets: dict[str, Partitions]
    topics: SubscribedTopics

    def target_of(self, member_id: str) -> Partitions: ...
