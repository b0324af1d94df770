"""The states of a consumer group and of its members (KIP-848). A group's follows from its members'; nobody sets it."""

from enum import Enum, IntEnum


class ConsumerGroupState(Enum):
    """Where a consumer group stands. The value is the name that Kafka prints."""

    EMPTY = "Empty"
    """No members; there may be offsets. Next: Assigning with the first member, gone when deleted or expired."""

    ASSIGNING = "Assigning"
    """The group epoch is ahead of the target assignment: the next heartbeat computes a new one, unless the last is
    younger than the assignment interval (KIP-1263). Members keep to the last target meanwhile."""

    RECONCILING = "Reconciling"
    """The target is computed; some member has not arrived at it."""

    STABLE = "Stable"
    """Every member owns its target."""


class MemberState(IntEnum):
    """Where a member stands on its way to its target. The value is what the log says."""

    STABLE = 0
    """It owns what its target at its epoch says."""

    UNREVOKED_PARTITIONS = 1
    """It keeps its epoch until it reports that it has given up what it was told to give up."""

    UNRELEASED_PARTITIONS = 2
    """It is at the target epoch, and waits for others to give up what it should have."""

    UNKNOWN = 127
    """What a later version wrote. The member must give up everything and begin again."""
