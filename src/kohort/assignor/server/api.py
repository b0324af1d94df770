"""What a server assignor is: it keeps the target assignment of a consumer group up to date (KIP-848).

The coordinator tells a `Plan` what changed and asks for the outcome. A plan keeps state between two rebalances, so the
cost of an update lies in the changes and not in the size of the group. Same changes in the same order, same targets.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from kohort.model import UUID

Target = Mapping[UUID, frozenset[int]]
"""What one member should own: partition numbers by topic id; a topic without partitions is not in it."""


@dataclass(frozen=True, slots=True)
class TopicShape:
    """What a plan knows of a topic."""

    partitions: int
    racks: tuple[frozenset[str], ...] | None = None
    """Of each partition the racks that hold a replica; None where nobody knows."""
    name: str = ""
    """For a user's assignor, and for what is said to people."""


@dataclass(frozen=True, slots=True)
class MemberShape:
    """What a plan knows of a member."""

    topics: frozenset[UUID]
    """What it subscribes to, expressions resolved. A topic that the plan was not told of counts once it is."""
    rack: str | None = None
    instance_id: str | None = None
    """Set for a static member."""
    weight: float = 1.0
    """How much it wants beside the others; above 0. Only `weighted` looks at it."""
    drained: bool = False
    """It stays in the group and gets nothing. Where all subscribers of a topic are drained, the topic waits."""


def why_nothing(member: MemberShape) -> str:
    """The reason of a member that no plan can give anything."""
    return "nothing: it is drained" if member.drained else "nothing: it asks for no topic that exists"


class Plan(Protocol):
    """The target assignment of one group. Changes are noted by `set_*` and `remove_*`, and take effect in `update`."""

    def set_topic(self, topic_id: UUID, topic: TopicShape) -> None:
        """A topic is new, has grown, or its replicas moved. One made anew under the same name has another id."""
        ...

    def remove_topic(self, topic_id: UUID) -> None:
        """A topic was deleted, or nobody asks for it any more; an unknown one is no error."""
        ...

    def set_member(self, member_id: str, member: MemberShape) -> None:
        """A member is new, or what is known of it changed."""
        ...

    def remove_member(self, member_id: str) -> None:
        """A member left; an unknown one is no error."""
        ...

    def rename_member(self, old: str, new: str) -> None:
        """A static member came back under another id, and keeps its target; an unknown `old` is no error.

        Whoever had the `new` id is gone.
        """
        ...

    def restore(self, targets: Mapping[str, Target]) -> None:
        """Go on from targets computed earlier (by this plan, another assignor, or a coordinator that is gone).

        Called once, after the topics and members are set and before the first update, which then returns what differs
        from `targets`. What no longer fits (a topic, partition or member that is gone) is passed over.
        """
        ...

    def update(self) -> Mapping[str, Target]:
        """Compute; return the members whose target changed since the last update, each with its whole new target.

        A member that was removed is not among them. Raises AssignorError where a user's assignor fails or gives what
        cannot be; the targets are then as they were, and the next update tries again.
        """
        ...

    def reason(self, member_id: str) -> str:
        """Why this member has what it has: one plain sentence with what was weighed, as of the last update.

        KeyError for a member that the plan was not told of.
        """
        ...


class Load(Enum):
    """What a partition may cost whoever has it."""

    LAG = "records of lag"
    """How many records the group has not processed yet."""
    RATE = "records per second"
    """How fast the partition grows."""


@runtime_checkable
class WeighsLoad(Protocol):
    """A plan that balances what its partitions cost rather than how many there are."""

    @property
    def weighs(self) -> Load:
        """What it wants to be told."""
        ...

    def set_loads(self, topic_id: UUID, loads: Iterable[tuple[int, float]]) -> None:
        """What partitions of a topic, by number, cost whoever has them.

        One that was never told counts as nothing. To be told of all, often, is cheap: targets move only when what is
        gained passes a threshold. Negative or not finite: ValueError. Unknown partitions are passed over.
        """
        ...


class ServerAssignor(Protocol):
    """One per name; has no state of its own."""

    @property
    def name(self) -> str:
        """What a member asks for by `group.remote.assignor`, and a group by its configuration."""
        ...

    def plan(self) -> Plan:
        """A new, empty plan for one group."""
        ...
