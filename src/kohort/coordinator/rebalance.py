"""The soft state of one rebalance: what a failover forgets, because nobody was answered on the strength of it."""

from dataclasses import dataclass, field

from kohort.coordinator.effects import Token
from kohort.model import Millis


@dataclass(slots=True)
class Parked:
    """A request that waits for its answer. Without a token the connection is gone, and nobody will read it."""

    token: Token | None
    api_version: int


@dataclass(slots=True)
class Rebalance:
    """One generation in the making, from the first join to the last sync; it is replaced when the next one begins."""

    initial: bool = False
    """The group was empty: it waits for the whole delay, even when all members that it knows have joined."""
    delay_ms: Millis = 0
    """How long the initial delay's present leg takes."""
    remaining_ms: Millis = 0
    """How much longer the initial delay may be extended."""
    member_added: bool = False
    """A member came during the initial delay's present leg, which is what extends it."""
    joining: dict[str, Parked] = field(default_factory=dict)
    """By member id: who has joined and waits for the others."""
    syncing: dict[str, Parked] = field(default_factory=dict)
    """By member id: who waits for the leader's assignment."""
    collecting: bool = False
    """Held heartbeats are not told yet that the members shall join again: some members cannot be told now, the
    successor of one that left is awaited, or more newcomers may come."""
    collects_until: Millis = 0
    """When eager members are told at the latest, though some cannot be told then."""
    gathers_until: Millis | None = None
    """Until when at most the members are not told because more newcomers may come; None where nobody waits for any."""
    givers: frozenset[str] | None = None
    """Who was told to give up something, while the answers of all others wait for them to join again."""
    sync_due: set[str] = field(default_factory=set)
    """Who was told the generation and has not sent SyncGroup yet."""
