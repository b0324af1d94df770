"""Properties that an assignor guarantees in addition to completeness (S3): even shares, and few moves.

`lag`, `rate` and `weighted` do not equalize the numbers of partitions, and custom assignors
guarantee nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Set
from itertools import permutations
from math import ceil
from typing import NamedTuple, TypeVar

EVEN = frozenset({"uniform", "rack", "roundrobin", "sticky", "cooperative-sticky"})
"""Assignors that give no member two partitions more than a member that could take one of them."""

MOVES_LITTLE = frozenset({"uniform", "rack", "sticky", "cooperative-sticky"})
"""Assignors that move at most one member's share of partitions when one member joins or leaves.

`rack` guarantees it only if no racks are known, which is the case here.
"""

_Topic = TypeVar("_Topic", bound=Hashable)
_Partition = TypeVar("_Partition", bound=tuple[str, int])


def unbalanced(
    assignor: str,
    wanted: Mapping[str, Set[_Topic]],
    shares: Mapping[str, Set[tuple[_Topic, int]]],
) -> str:
    """Return how the assignment violates the assignor's guarantee, or "".

    `wanted` has the topics that each member subscribes to.
    """
    if assignor == "range":
        return _not_in_ranges(wanted, shares)
    # Round robin skips members that do not subscribe to a topic, and does not compensate for that.
    if assignor in EVEN and (assignor != "roundrobin" or len(set(map(frozenset, wanted.values()))) == 1):
        return _uneven(wanted, shares)
    return ""


def _uneven(wanted: Mapping[str, Set[_Topic]], shares: Mapping[str, Set[tuple[_Topic, int]]]) -> str:
    for rich, poor in permutations(shares, 2):
        movable = sorted(partition for partition in shares[rich] if partition[0] in wanted[poor])
        if len(shares[rich]) >= len(shares[poor]) + 2 and movable:
            sizes = len(shares[rich]), len(shares[poor])
            return f"{rich} has {sizes[0]} partitions, and {poor} has {sizes[1]} and could take {movable[0]}"
    return ""


def _not_in_ranges(wanted: Mapping[str, Set[_Topic]], shares: Mapping[str, Set[tuple[_Topic, int]]]) -> str:
    ranges: defaultdict[_Topic, dict[str, list[int]]] = defaultdict(dict)
    for member, topics in wanted.items():
        for topic in topics:
            ranges[topic][member] = sorted(number for other, number in shares[member] if other == topic)
    for topic, by_member in ranges.items():
        sizes = {len(numbers) for numbers in by_member.values()}
        torn = [numbers for numbers in by_member.values() if numbers and numbers[-1] - numbers[0] + 1 != len(numbers)]
        if torn or max(sizes) - min(sizes) > 1:
            return f"{topic} is not in even ranges: {dict(sorted(by_member.items()))}"
    return ""


class Shares(NamedTuple):
    """Target of a group whose members all have the same subscription."""

    topics: frozenset[str]
    owners: Mapping[str, str]
    """Target owner of each partition, by instance id if the member has one."""
    members: frozenset[str]


def needless_moves(before: Shares, after: Shares) -> str:
    """Return which partitions moved needlessly between members that stayed, or "".

    A member that joins gets its share from the others; one that leaves is replaced, and nothing
    else moves.
    """
    stayed = before.members & after.members
    if before.topics != after.topics or before.owners.keys() != after.owners.keys() or not stayed:
        return ""
    joined, left = after.members - stayed, before.members - stayed
    counts = [sum(owner == member for owner in before.owners.values()) for member in before.members]
    if len(joined) + len(left) > 1 or max(counts) - min(counts) > 1:
        return ""
    moved = sorted(
        partition for partition, owner in before.owners.items() if owner in stayed and after.owners[partition] != owner
    )
    most = ceil(len(after.owners) / len(after.members)) if joined else 0
    if len(moved) <= most:
        return ""
    change = (
        " and ".join([*(f"{member} joined" for member in joined), *(f"{member} left" for member in left)])
        or "nobody joined"
    )
    return f"{change}, and {len(moved)} partitions moved between the others, not at most {most}: {', '.join(moved)}"


def needlessly_taken(held: Mapping[str, Set[_Partition]], shares: Mapping[str, Set[_Partition]]) -> str:
    """Return which partitions a sticky assignor took from members needlessly, or "".

    All members have the same subscription. `held` has the undisputed partitions of each, `shares`
    the new ones. A partition in no share waits until its owner gives it up.
    """
    # The leader may not know partitions after the last assigned one: its metadata may be older than the
    # growth of the topic, or lack the topic.
    known: dict[str, int] = {}
    for topic, number in set[tuple[str, int]]().union(*shares.values()):
        known[topic] = max(number, known.get(topic, 0))
    kept = {
        member: {partition for partition in held.get(member, ()) if partition[1] <= known.get(partition[0], -1)}
        for member in shares
    }
    total = len(set[_Partition]().union(*shares.values(), *kept.values()))
    quota, spare = divmod(total, len(shares))
    above = [len(have) - quota for have in kept.values() if len(have) > quota]
    most = sum(above) - min(spare, len(above))
    taken = sorted(partition for member, have in kept.items() for partition in have - shares[member])
    if len(taken) <= most:
        return ""
    named = ", ".join(f"{topic}-{number}" for topic, number in taken)
    return f"{len(taken)} partitions were taken from members that had them, not at most {most}: {named}"
