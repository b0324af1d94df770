"""What an assignor is: from who is in the group and what it asks for to who gets which partition.

An assignor has no state. Whatever Java's assignors keep between two rebalances comes in as an argument, so the same
input gives the same assignment on every member, in the simulation and in a test.
"""

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Protocol, runtime_checkable

from kohort.model import TopicPartition
from kohort.wire.consumer_protocol import Assignment, Subscription


class RebalanceProtocol(Enum):
    """How a member must behave between two generations (KIP-429)."""

    EAGER = "eager"
    """It gives up everything before it joins."""
    COOPERATIVE = "cooperative"
    """It keeps what it owns, and joins again at once after giving up what the assignment takes from it."""


class Assignor(Protocol):
    """Computed by the member that leads; every member announces its assignors by name, in its order of preference."""

    @property
    def name(self) -> str:
        """What stands in JoinGroup; the group uses one that all its members announce."""
        ...

    @property
    def protocol(self) -> RebalanceProtocol:
        """The newest protocol that this assignor's assignments are safe for."""
        ...

    def user_data(
        self, topics: Collection[str], last: Collection[TopicPartition] | None, generation: int
    ) -> bytes | None:
        """What this member tells the leader beside its subscription.

        `last` is its most recent assignment, given up or not (None before the first one), and `generation` the one
        that it came in (-1 before the first).
        """
        ...

    def assign(
        self,
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        instance_ids: Mapping[str, str | None] | None = None,
    ) -> Mapping[str, Assignment]:
        """Give each member its share; every member has an entry, if an empty one.

        `partitions` counts those of each topic; a subscribed topic that is not in it does not exist. `instance_ids`
        says who is a static member, so that one that returns under a new member id keeps its place.
        """
        ...


@runtime_checkable
class RackAware(Assignor, Protocol):
    """An assignor that can let members read from replicas in their own rack (KIP-881)."""

    def assign_near(
        self,
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        instance_ids: Mapping[str, str | None] | None,
        racks: Mapping[TopicPartition, frozenset[str]],
    ) -> Mapping[str, Assignment]:
        """As `assign`, where the racks of a partition's replicas are known. A member's is in its subscription."""
        ...
