"""The states of a consumer group and of its members (KIP-848). A group's state is derived from its members."""

from enum import Enum, IntEnum


class ConsumerGroupState(Enum):
    """State of a consumer group. The value is the name that Kafka displays."""

    EMPTY = "Empty"
    """No members; there may be offsets.

    Next: Assigning with the first member; none if the group is deleted or expires.
    """

    ASSIGNING = "Assigning"
    """The group epoch is newer than the target assignment.

    The next heartbeat computes a new target, unless the last one is more recent than the assignment
    interval (KIP-1263). Until then, members keep to the last target.
    """

    RECONCILING = "Reconciling"
    """The target is computed, but at least one member has not reached it."""

    STABLE = "Stable"
    """Every member owns its target."""


class MemberState(IntEnum):
    """State of a member on its way to its target. The value is the one in the log."""

    STABLE = 0
    """The member owns its target at its epoch."""

    UNREVOKED_PARTITIONS = 1
    """The member keeps its epoch until it reports that it has revoked the partitions that it must revoke."""

    UNRELEASED_PARTITIONS = 2
    """The member is at the target epoch, and waits until others revoke partitions of its target."""

    UNKNOWN = 127
    """A state that a later version wrote. The member must revoke everything and rejoin."""
