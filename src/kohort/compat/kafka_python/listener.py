"""Rebalance listener of kafka-python."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any

from kohort import client
from kohort.compat.kafka_python.structs import TopicPartition, partition_set


class ConsumerRebalanceListener(ABC):
    """Methods that run in the thread that polls when the assignment of a group member changes."""

    @abstractmethod
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Handle the loss of partitions. A commit here is still accepted."""

    @abstractmethod
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Handle new partitions."""

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        """Handle partitions that may already have another owner."""
        self.on_partitions_revoked(lost)


def callbacks(listener: object | None, unsubscribes: Callable[[], bool]) -> dict[str, Callable[[Any], None]]:
    """Return the listener as arguments of `subscribe`. While `unsubscribes` is true, it is not called.

    Raises TypeError.
    """
    if listener is None:
        return {}
    if not isinstance(listener, ConsumerRebalanceListener):
        raise TypeError("listener must be a ConsumerRebalanceListener")
    released = False

    def assigned(partitions: Collection[client.TopicPartition]) -> None:
        nonlocal released
        if not released:  # kafka-python revokes before every assignment, even if there is nothing to revoke
            listener.on_partitions_revoked(set())
        released = False
        listener.on_partitions_assigned(partition_set(partitions))

    def revoked(partitions: Collection[client.TopicPartition]) -> None:
        nonlocal released
        released = True
        if not unsubscribes():
            listener.on_partitions_revoked(partition_set(partitions))

    def lost(partitions: Collection[client.TopicPartition]) -> None:
        nonlocal released
        released = True
        listener.on_partitions_lost(partition_set(partitions))

    return {"on_assigned": assigned, "on_revoked": revoked, "on_lost": lost}
