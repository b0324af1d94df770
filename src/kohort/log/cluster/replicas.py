"""Replicas of partitions: the brokers that may lead one, in order of preference, and their placement.

All brokers of a cluster read and write the same store, so a replica is not a copy: it is a broker
that takes over the partition in preference to others. Every live broker is in sync.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kohort.errors import KohortError

ANY: tuple[int, ...] = ()
"""Replicas of a partition with replication factor 1: its leader is its replica, and any broker may lead it."""


class TooFewBrokers(KohortError):
    """A replication factor exceeds the number of brokers."""


class Placement(NamedTuple):
    """Placement of replicas for the new partitions of a topic."""

    factor: int = 1
    assigned: Sequence[Sequence[int]] = ()
    """Replicas of the new partitions that an administrator assigned; `factor` applies to the others."""


ONE_REPLICA = Placement()


class Replicas(NamedTuple):
    """Replicas of one partition as clients see them; the first one is the preferred leader."""

    nodes: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    """Replicas that a reassignment in progress will remove."""
    in_progress: bool = False
    factor: int = 1
    """Replication factor of partitions that are added to the topic."""


def place_replicas(
    turn: Sequence[int], racks: Sequence[str | None], number: int, factor: int, away: Sequence[int] = ()
) -> tuple[int, ...]:
    """Return the replicas of the partition with that number; `turn` lists the brokers in the order in which they lead.

    Each broker is preferred in turn. The other replicas are in other racks if possible, and are
    rotated by one in each round, so that all other brokers share the partitions of a broker that
    dies. The brokers in `away` are dead; they become the last replicas, and only if there are too
    few live brokers.
    """
    if factor > len(turn) + len(away):
        raise TooFewBrokers(f"{factor} replicas need {factor} brokers, and there are {len(turn) + len(away)}.")
    missing = max(0, factor - len(turn))
    late = [away[(number + step) % len(away)] for step in range(missing)]
    return (*_among(turn, racks, number, factor - missing), *late)


def _among(turn: Sequence[int], racks: Sequence[str | None], number: int, factor: int) -> tuple[int, ...]:
    count = len(turn)
    first, shift = number % count, number // count
    rest = [(first + 1 + (shift + step) % (count - 1)) % count for step in range(count - 1)]
    chosen = [first]
    while len(chosen) < factor:
        used = [racks[place] for place in chosen]
        best = min((place for place in rest if place not in chosen), key=lambda place: used.count(racks[place]))
        chosen.append(best)
    return tuple(turn[place] for place in chosen)
