"""The replicas of partitions: the brokers that may lead one, in the order of preference, and how they are placed.

All brokers of a cluster read and write one store, so a replica is no copy: it is a broker that takes the partition over
before any other does. Each broker that lives is in sync.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kohort.errors import KohortError

ANY: tuple[int, ...] = ()
"""The replicas of a partition with a replication factor of 1: its leader is its replica, and any broker may lead it."""


class TooFewBrokers(KohortError):
    """A replication factor is larger than the number of brokers."""


class Placement(NamedTuple):
    """Where the new partitions of a topic get their replicas."""

    factor: int = 1
    assigned: Sequence[Sequence[int]] = ()
    """Replicas of each new partition, as far as an administrator chose them; `factor` is for the others."""


ONE_REPLICA = Placement()


class Replicas(NamedTuple):
    """The replicas of one partition as clients see them; the first one is preferred as leader."""

    nodes: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    """Of a reassignment that is in progress."""
    in_progress: bool = False
    factor: int = 1
    """The replication factor of partitions that the topic gets."""


def place_replicas(turn: Sequence[int], racks: Sequence[str | None], number: int, factor: int) -> tuple[int, ...]:
    """Return the replicas of the partition with that number; `turn` are the brokers in the order in which they lead.

    Each broker is preferred in turn. The other replicas are in other racks as far as possible, and shift by one with
    each round, so that all others share the partitions of a broker that dies.
    """
    if factor > len(turn):
        raise TooFewBrokers(f"{factor} replicas need {factor} brokers, and there are {len(turn)}.")
    count = len(turn)
    first, shift = number % count, number // count
    rest = [(first + 1 + (shift + step) % (count - 1)) % count for step in range(count - 1)]
    chosen = [first]
    while len(chosen) < factor:
        used = [racks[one] for one in chosen]
        best = min((one for one in rest if one not in chosen), key=lambda one: used.count(racks[one]))
        chosen.append(best)
    return tuple(turn[one] for one in chosen)
