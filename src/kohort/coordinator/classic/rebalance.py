"""The soft state of one rebalance. A failover may lose it, because no answer depends on it."""

from dataclasses import dataclass, field

from kohort.coordinator.effects import Token
from kohort.coordinator.prompt import RebalanceNotice
from kohort.model import Millis


@dataclass(slots=True)
class WaitingMember:
    """A request that waits for its answer. `token` is None if its connection is closed."""

    token: Token | None
    api_version: int


@dataclass(slots=True)
class Rebalance:
    """One rebalance from its first join to its last sync; the next rebalance replaces it."""

    initial: bool = False
    """Whether the group was empty. It then waits for the whole delay even if all its members have joined, unless its
    former members return; see `returning_members`."""
    delay_ms: Millis = 0
    """Length of the current step of the initial delay."""
    remaining_ms: Millis = 0
    """Maximum time by which the initial delay may still be extended."""
    member_added: bool = False
    """Whether a member joined in the current step of the initial delay; only then is the delay extended."""
    joining: dict[str, WaitingMember] = field(default_factory=dict)
    """Parked joins by member ID; they wait for the other members."""
    syncing: dict[str, WaitingMember] = field(default_factory=dict)
    """Parked syncs by member ID; they wait for the leader's assignment."""
    notice: RebalanceNotice = field(default_factory=RebalanceNotice)
    """Notification of the members; unused if no heartbeats are held."""
    revoking_members: frozenset[str] | None = None
    """Members that must give up partitions, while the answers to all others wait for them to rejoin; None otherwise."""
    sync_due: set[str] = field(default_factory=set)
    """Members that know the generation and have not sent SyncGroup yet."""
