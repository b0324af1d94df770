"""Where a classic member stands in its group."""

from enum import Enum


class Phase(Enum):
    """Each says what the member waits for."""

    UNSUBSCRIBED = "Unsubscribed"
    """In no group. Commits go out without a generation, as a simple consumer's."""
    PREPARING = "Preparing"
    """Wants to join: first the application gives up what it must, then the coordinator has to be known."""
    JOINING = "Joining"
    """JoinGroup is out; the coordinator answers when every member has joined."""
    ASSIGNING = "Assigning"
    """Leads the group and waits for the partition counts of the group's topics."""
    SYNCING = "Syncing"
    """SyncGroup is out; the coordinator answers when the leader's assignment is there."""
    STABLE = "Stable"
    """Has its assignment."""
    OVERDUE = "Overdue"
    """Left because the application did not poll within max.poll.interval.ms; joins again when it does."""
    LEAVING = "Leaving"
    """Gives up its partitions, then tells the coordinator that it is gone."""
    FATAL = "Fatal"
    """Met an error that repeating cannot cure."""


BEFORE: dict[Phase, frozenset[Phase]] = {
    Phase.UNSUBSCRIBED: frozenset({Phase.LEAVING}),
    Phase.PREPARING: frozenset(Phase) - {Phase.PREPARING, Phase.LEAVING},
    Phase.JOINING: frozenset({Phase.PREPARING}),
    Phase.ASSIGNING: frozenset({Phase.JOINING}),
    Phase.SYNCING: frozenset({Phase.JOINING, Phase.ASSIGNING}),
    Phase.STABLE: frozenset({Phase.SYNCING}),
    Phase.OVERDUE: frozenset({Phase.PREPARING, Phase.JOINING, Phase.ASSIGNING, Phase.SYNCING, Phase.STABLE}),
    Phase.LEAVING: frozenset(Phase) - {Phase.UNSUBSCRIBED, Phase.LEAVING},
    Phase.FATAL: frozenset(Phase) - {Phase.FATAL},
}
"""The phases from which each phase may be entered."""

IN_REBALANCE = frozenset({Phase.JOINING, Phase.ASSIGNING, Phase.SYNCING})
"""Between JoinGroup and the assignment: the coordinator takes no commits."""
