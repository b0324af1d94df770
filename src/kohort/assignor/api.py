"""Interface of client-side assignors: members and their subscriptions in, assignments out.

An assignor has no state. State that Java's assignors keep between two rebalances is an argument
here, so the same input gives the same assignment on every member, in the simulation and in a test.
"""

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Protocol, runtime_checkable

from kohort.model import TopicPartition
from kohort.wire.messages.consumer_protocol import Assignment, Subscription


class RebalanceProtocol(Enum):
    """Behaviour that an assignor requires of members between two generations (KIP-429)."""

    EAGER = "eager"
    """The member revokes all its partitions before it joins."""
    COOPERATIVE = "cooperative"
    """The member keeps its partitions when it joins.

    It revokes those that the assignment takes from it, and rejoins at once.
    """


class Assignor(Protocol):
    """An assignment strategy, which the group's leader runs.

    Every member lists its assignors by name in its order of preference.
    """

    @property
    def name(self) -> str:
        """Protocol name in JoinGroup. The group uses one that all its members list."""
        ...

    @property
    def protocol(self) -> RebalanceProtocol:
        """The newest rebalance protocol for which this assignor's assignments are safe."""
        ...

    def user_data(
        self, topics: Collection[str], last: Collection[TopicPartition] | None, generation: int
    ) -> bytes | None:
        """Return data that this member sends to the leader with its subscription, or None.

        `last` is the member's most recent assignment, revoked or not (None before the first one),
        and `generation` is the generation of that assignment (-1 before the first one).
        """
        ...

    def assign(
        self,
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        instance_ids: Mapping[str, str | None] | None = None,
    ) -> Mapping[str, Assignment]:
        """Return an assignment for each member, which may be empty.

        `partitions` maps each existing topic to its partition count; a subscribed topic that is not
        a key does not exist. `instance_ids` identifies static members, so that a static member that
        returns under a new member ID keeps its place in the order.
        """
        ...


@runtime_checkable
class RackAware(Assignor, Protocol):
    """An assignor that can prefer members in the same rack as one of the partition's replicas (KIP-881)."""

    def assign_near(
        self,
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        instance_ids: Mapping[str, str | None] | None,
        racks: Mapping[TopicPartition, frozenset[str]],
    ) -> Mapping[str, Assignment]:
        """Return an assignment for each member, as `assign` does, using the replicas' racks.

        A member's rack is in its subscription.
        """
        ...
