"""The five states of a classic group: their answers, and the transitions between them."""

from collections.abc import Mapping
from enum import Enum


class GroupState(Enum):
    """State of a classic group. The value is the name that Kafka prints."""

    EMPTY = "Empty"
    """No members; there may be offsets.

    join: the first member starts a rebalance; a request with a member ID gets UNKNOWN_MEMBER_ID.
    sync, heartbeat, leave: UNKNOWN_MEMBER_ID. commit: accepted without a generation (a simple consumer).
    Next: PreparingRebalance with the first member, Dead when deleted or expired.
    """

    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are asked to rejoin; joins are parked.

    join: parked until all members have joined or the rebalance times out.
    sync: REBALANCE_IN_PROGRESS. heartbeat: REBALANCE_IN_PROGRESS, and it renews the session.
    commit: accepted from the last generation, so that a member can commit before it rejoins.
    Next: CompletingRebalance with the members that joined, Empty if there are none.
    """

    COMPLETING_REBALANCE = "CompletingRebalance"
    """Every member knows the new generation; the leader's assignment is missing.

    join: an unchanged member gets the generation again, a changed or new one starts another rebalance.
    sync: parked until the leader's arrives, which answers all. heartbeat: accepted. commit: REBALANCE_IN_PROGRESS.
    Next: Stable with the leader's SyncGroup; PreparingRebalance when a member joins, leaves, fails or does not sync.
    """

    STABLE = "Stable"
    """Every member may fetch its assignment.

    join: an unchanged follower gets the generation again; the leader, a changed or a new member starts a rebalance.
    sync: the current assignment, at once; a member that syncs late ends up here. heartbeat, commit: accepted.
    Next: PreparingRebalance.
    """

    DEAD = "Dead"
    """Deleted, or its shard moved away: requests no longer find the group here.

    Parked requests get NOT_COORDINATOR, never UNKNOWN_MEMBER_ID, because a static member would then give up
    its identity (KAFKA-8386).
    """


PREDECESSORS: Mapping[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState) - {GroupState.DEAD},
}
"""Valid previous states of each state."""
