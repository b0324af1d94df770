"""Interface of server-side assignors, which keep a consumer group's target assignment up to date (KIP-848).

The coordinator reports changes to a `Plan` and requests the result. A plan keeps state between
rebalances, so the cost of an update depends on the number of changes and not on the group size.
Equal changes in equal order give equal targets.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from kohort.model import UUID

Target = Mapping[UUID, Set[int]]
"""Target assignment of one member: immutable sets of partition numbers by topic ID, without empty ones."""


@dataclass(frozen=True, slots=True)
class TopicShape:
    """Facts about a topic that a plan uses."""

    partitions: int
    racks: tuple[frozenset[str], ...] | None = None
    """For each partition, the racks that hold a replica; None if unknown."""
    name: str = ""
    """For user-defined assignors and for messages to people."""


@dataclass(frozen=True, slots=True)
class MemberShape:
    """Facts about a member that a plan uses."""

    topics: frozenset[UUID]
    """Subscribed topics, with regular expressions resolved.

    A topic that `Plan.set_topic` has not added yet takes effect once it is added.
    """
    rack: str | None = None
    instance_id: str | None = None
    """Set for a static member."""
    weight: float = 1.0
    """Relative share that the member should receive; above 0. Only `weighted` uses it."""
    drained: bool = False
    """Whether the member stays in the group but receives no partitions.

    If all subscribers of a topic are drained, its partitions stay unassigned.
    """


def why_nothing(member: MemberShape) -> str:
    """Return the reason why no plan can assign partitions to the member."""
    return "no partitions: it is drained" if member.drained else "no partitions: it subscribes to no existing topic"


class Plan(Protocol):
    """Target assignment of one group. The changes by `set_*` and `remove_*` take effect in `update`."""

    def set_topic(self, topic_id: UUID, topic: TopicShape) -> None:
        """Add a topic, or change its partition count or its replicas. A recreated topic has a new ID."""
        ...

    def remove_topic(self, topic_id: UUID) -> None:
        """Remove a topic that was deleted or has no subscribers; an unknown topic is not an error."""
        ...

    def set_member(self, member_id: str, member: MemberShape) -> None:
        """Add a member, or change its properties."""
        ...

    def remove_member(self, member_id: str) -> None:
        """Remove a member that left; an unknown member is not an error."""
        ...

    def rename_member(self, old: str, new: str) -> None:
        """Replace the ID of a static member that returned, and keep its target; an unknown `old` is not an error.

        An existing member with the ID `new` is removed.
        """
        ...

    def restore(self, targets: Mapping[str, Target]) -> None:
        """Continue from targets that this plan, another assignor or a former coordinator computed.

        Must be called at most once, after the topics and members are set and before the first
        update, which then returns the differences from `targets`. Topics, partitions and members
        that do not exist any more are ignored.
        """
        ...

    def update(self) -> Mapping[str, Target]:
        """Compute the assignment and return the complete new target of each member whose target changed.

        Removed members are not included. Raises AssignorError if a user-defined assignor fails or
        returns an invalid assignment; the targets then stay unchanged, and the next update tries
        again.
        """
        ...

    def reason(self, member_id: str) -> str:
        """Return one plain sentence that explains the member's target as of the last update.

        Raises KeyError if the plan does not know the member.
        """
        ...


class Load(Enum):
    """Kind of cost that a partition causes for its owner."""

    LAG = "records of lag"
    """Number of records that the group has not processed yet."""
    RATE = "records per second"
    """Number of records per second that are written to the partition."""


@runtime_checkable
class LoadAware(Protocol):
    """A plan that balances the load of partitions instead of their number."""

    @property
    def weighs(self) -> Load:
        """Kind of load that the plan needs."""
        ...

    def set_loads(self, topic_id: UUID, loads: Iterable[tuple[int, float]]) -> None:
        """Set the loads of a topic's partitions, as (partition number, load) pairs.

        A partition without a load counts as 0. Setting all loads often is cheap: targets change
        only if the improvement exceeds a threshold. Unknown partitions are ignored. Raises
        ValueError if a load is negative or not finite.
        """
        ...


class ServerAssignor(Protocol):
    """An assignment strategy of the coordinator. There is one stateless object per name."""

    @property
    def name(self) -> str:
        """Name that members specify as `group.remote.assignor`, and groups in their configuration."""
        ...

    def plan(self) -> Plan:
        """Return a new, empty plan for one group."""
        ...
