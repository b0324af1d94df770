"""Rebalance listener of aiokafka, whose methods may be coroutines."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from kohort import client
from kohort.compat.aiokafka.structs import TopicPartition, partition_set

Callback = Callable[[Any], Coroutine[Any, Any, None]]


class ConsumerRebalanceListener(ABC):
    """Methods that run inside `start`, `getone` and `getmany` when the assignment of a member changes."""

    @abstractmethod
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Any:
        """Handle the loss of partitions. A commit here is still accepted."""

    @abstractmethod
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Any:
        """Handle new partitions."""


def callbacks(listener: ConsumerRebalanceListener | None, leaves: Callable[[], bool]) -> dict[str, Callback]:
    """Return the listener as arguments of `subscribe`. While `leaves` is true, it is not called."""
    if listener is None:
        return {}
    released = False

    async def assigned(partitions: Collection[client.TopicPartition]) -> None:
        nonlocal released
        if not released:  # aiokafka revokes before every assignment, even if there is nothing to revoke
            await _done(listener.on_partitions_revoked(set()))
        released = False
        await _done(listener.on_partitions_assigned(partition_set(partitions)))

    async def revoked(partitions: Collection[client.TopicPartition]) -> None:
        nonlocal released
        released = True
        if leaves():
            return
        await _done(listener.on_partitions_revoked(partition_set(partitions)))

    return {"on_assigned": assigned, "on_revoked": revoked, "on_lost": revoked}


async def _done(result: Any) -> None:
    if inspect.isawaitable(result):
        await result
