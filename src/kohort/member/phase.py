"""Phases of a member. `classic.phases` and `consumer.phases` list those of each protocol."""

from enum import Enum


class Phase(Enum):
    """Phase of a member; each says what the member waits for."""

    UNSUBSCRIBED = "Unsubscribed"
    """Not in a group. Commits carry no generation, like those of a simple consumer."""
    JOINING = "Joining"
    """Asked to join. Classic: the coordinator answers when every member has joined."""
    STABLE = "Stable"
    """Has its assignment."""
    STALE = "Stale"
    """Left because the application did not poll within max.poll.interval.ms; rejoins when it polls again."""
    LEAVING = "Leaving"
    """Tells the coordinator that it leaves. Classic: gives up its partitions first."""
    FATAL = "Fatal"
    """Got an error that a retry cannot fix."""

    # -- of classic groups

    PREPARING = "Preparing"
    """Will join after the application has given up partitions as required and the coordinator is known."""
    ASSIGNING = "Assigning"
    """Leads the group and waits for the partition counts of the group's topics."""
    SYNCING = "Syncing"
    """Sent SyncGroup; the coordinator answers when it has the leader's assignment."""

    # -- of consumer groups (KIP-848)

    RECONCILING = "Reconciling"
    """Has a target assignment that differs from its partitions: the application gives up some, then takes others."""
    ACKNOWLEDGING = "Acknowledging"
    """The application has done what was required; the next heartbeat reports it."""
    FENCED = "Fenced"
    """Removed by the coordinator: its partitions are lost, then it rejoins."""
    PREPARE_LEAVING = "PrepareLeaving"
    """The application gives up all partitions; heartbeats continue until it has."""
