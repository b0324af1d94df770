"""Where a member stands in its group. Which protocol has which phases say `classic.phases` and `consumer.phases`."""

from enum import Enum


class Phase(Enum):
    """Each says what the member waits for."""

    UNSUBSCRIBED = "Unsubscribed"
    """In no group. Commits go out without a generation, as a simple consumer's."""
    JOINING = "Joining"
    """Has asked to be let in. Classic: the coordinator answers when every member has joined."""
    STABLE = "Stable"
    """Has its assignment."""
    STALE = "Stale"
    """Left because the application did not poll within max.poll.interval.ms; joins again when it does."""
    LEAVING = "Leaving"
    """Tells the coordinator that it is gone. Classic: gives up its partitions first."""
    FATAL = "Fatal"
    """Met an error that repeating cannot cure."""

    # -- of classic groups

    PREPARING = "Preparing"
    """Wants to join: first the application gives up what it must, then the coordinator has to be known."""
    ASSIGNING = "Assigning"
    """Leads the group and waits for the partition counts of the group's topics."""
    SYNCING = "Syncing"
    """SyncGroup is out; the coordinator answers when the leader's assignment is there."""

    # -- of consumer groups (KIP-848)

    RECONCILING = "Reconciling"
    """Has another target assignment than what it owns: the application gives up, then takes over."""
    ACKNOWLEDGING = "Acknowledging"
    """The application did what it was told; the next heartbeat says so."""
    FENCED = "Fenced"
    """The coordinator no longer counts it: what it owns is lost, then it joins anew."""
    PREPARE_LEAVING = "PrepareLeaving"
    """The application gives everything up; heartbeats go on until it has."""
