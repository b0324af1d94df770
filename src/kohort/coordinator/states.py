"""The five states of a classic group, what each answers, and where each may come from."""

from collections.abc import Mapping
from enum import Enum


class GroupState(Enum):
    """Where a classic group stands. The value is the name that Kafka prints."""

    EMPTY = "Empty"
    """No members; there may be offsets.

    join: a first member starts a rebalance; one that names a member id gets UNKNOWN_MEMBER_ID.
    sync, heartbeat, leave: UNKNOWN_MEMBER_ID. commit: taken from whoever has no generation (a simple consumer).
    Next: PreparingRebalance with the first member, Dead when deleted or expired.
    """

    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are asked to join again; joins are parked.

    join: parked until all members have joined, or time is up.
    sync: REBALANCE_IN_PROGRESS. heartbeat: REBALANCE_IN_PROGRESS, and it keeps the session.
    commit: taken from the last generation, so that a member can save its place before it rejoins.
    Next: CompletingRebalance with the members that joined, Empty if there are none.
    """

    COMPLETING_REBALANCE = "CompletingRebalance"
    """Every member knows the new generation; the leader's assignment is missing.

    join: an unchanged member gets the generation again, a changed or new one starts another rebalance.
    sync: parked until the leader's arrives, which answers all. heartbeat: taken. commit: REBALANCE_IN_PROGRESS.
    Next: Stable with the leader's SyncGroup; PreparingRebalance when a member joins, leaves, fails or does not sync.
    """

    STABLE = "Stable"
    """Every member may fetch its assignment.

    join: an unchanged follower gets the generation again; the leader, a changed or a new member starts a rebalance.
    sync: the current assignment, at once: here ends the member that syncs late. heartbeat, commit: taken.
    Next: PreparingRebalance.
    """

    DEAD = "Dead"
    """Deleted, or its shard moved away: nobody finds the group here any more.

    What is parked gets NOT_COORDINATOR. Never UNKNOWN_MEMBER_ID, at which a static member would give up its
    identity (KAFKA-8386).
    """


PREDECESSORS: Mapping[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState) - {GroupState.DEAD},
}
"""From where a group may enter each state."""
