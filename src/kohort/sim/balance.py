"""What an assignor promises beside completeness (S3): an even share for everybody, and few moves.

`lag`, `rate` and `weighted` do not make the numbers of partitions even, and assignors of users promise nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Set
from itertools import permutations
from math import ceil
from typing import NamedTuple, TypeVar

EVEN = frozenset({"uniform", "rack", "roundrobin", "sticky", "cooperative-sticky"})
"""Assignors under which nobody has two partitions more than a member that could take one of them."""

_Topic = TypeVar("_Topic", bound=Hashable)


def unbalanced(
    assignor: str,
    wanted: Mapping[str, Set[_Topic]],
    shares: Mapping[str, Set[tuple[_Topic, int]]],
) -> str:
    """What of the assignor's promise does not hold, or "". `wanted` are the topics that each member asks for."""
    if assignor == "range":
        return _not_in_ranges(wanted, shares)
    # Round robin passes members over that do not ask for a topic, and does not make up for it.
    if assignor in EVEN and (assignor != "roundrobin" or len(set(map(frozenset, wanted.values()))) == 1):
        return _uneven(wanted, shares)
    return ""


def _uneven(wanted: Mapping[str, Set[_Topic]], shares: Mapping[str, Set[tuple[_Topic, int]]]) -> str:
    for rich, poor in permutations(shares, 2):
        movable = sorted(one for one in shares[rich] if one[0] in wanted[poor])
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
        torn = [one for one in by_member.values() if one and one[-1] - one[0] + 1 != len(one)]
        if torn or max(sizes) - min(sizes) > 1:
            return f"{topic} is not in even ranges: {dict(sorted(by_member.items()))}"
    return ""


class Shares(NamedTuple):
    """A target of a group whose members all ask for the same."""

    topics: frozenset[str]
    owners: Mapping[str, str]
    """Who should own each partition, by instance id where a member has one."""
    members: frozenset[str]


def needless_moves(before: Shares, after: Shares) -> str:
    """Which partitions changed hands between members that stayed, and need not have, or "".

    A member that joins gets its share from the others; one that leaves is replaced, and nothing else moves.
    """
    stayed = before.members & after.members
    if before.topics != after.topics or before.owners.keys() != after.owners.keys() or not stayed:
        return ""
    joined, left = after.members - stayed, before.members - stayed
    counts = [sum(owner == member for owner in before.owners.values()) for member in before.members]
    if len(joined) + len(left) > 1 or max(counts) - min(counts) > 1:
        return ""
    moved = sorted(one for one, owner in before.owners.items() if owner in stayed and after.owners[one] != owner)
    most = ceil(len(after.owners) / len(after.members)) if joined else 0
    if len(moved) <= most:
        return ""
    change = " and ".join([*(f"{one} joined" for one in joined), *(f"{one} left" for one in left)]) or "nobody joined"
    return f"{change}, and {len(moved)} partitions moved between the others, not at most {most}: {', '.join(moved)}"
