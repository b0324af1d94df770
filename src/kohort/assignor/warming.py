"""Who processes what now, whom it should go to, and who copies it meanwhile (KIP-441).

A partition moves only to a member whose copy of its state is close behind. Until the wanted owner has one, the present
owner goes on. All of it follows from what members tell at this rebalance: nothing is remembered in between.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kohort.model import TopicPartition

Lags = Mapping[TopicPartition, int]
Shares = dict[str, list[TopicPartition]]
"""By member id, with an entry for every member."""
Even = Callable[[Mapping[str, Sequence[TopicPartition]]], Shares]
"""Make these shares even and complete, moving as few partitions as that allows."""


@dataclass(frozen=True, slots=True)
class Warming:
    """What comes of one rebalance; every member has an entry in each."""

    now: Shares
    """What each is to process from now on."""
    wanted: Shares
    """What each is to process when all that it lacks is copied: even, as if there were no state."""
    copies: Mapping[str, Sequence[TopicPartition]]
    """What each is to copy though it does not process it: first what is to come to it, then as a standby."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a rebalance begins with."""

    owned: Mapping[str, Sequence[TopicPartition]]
    """By member, without contradictions; an entry for every member."""
    lags: Mapping[str, Lags]
    """By member: records that each of its copies lacks. No entry for a copy that it does not have."""
    topics: Mapping[str, frozenset[str]]
    """By member: what it asks for."""
    acceptable_lag: int
    """`acceptable.recovery.lag`: with at most so many records to go a copy is warm."""

    def is_warm(self, member_id: str, partition: TopicPartition) -> bool:
        lag = self.lags[member_id].get(partition)
        return lag is not None and lag <= self.acceptable_lag

    def having(self) -> dict[TopicPartition, list[tuple[int, str]]]:
        """Who has a copy and may process it: (lag, member), the nearest first."""
        found = defaultdict[TopicPartition, list[tuple[int, str]]](list)
        for member_id, lags in self.lags.items():
            for partition, lag in lags.items():
                if partition.topic in self.topics[member_id]:
                    found[partition].append((lag, member_id))
        return {partition: sorted(members) for partition, members in found.items()}


def warm_up(partitions: Iterable[TopicPartition], facts: Facts, even: Even, standbys: int, max_warmups: int) -> Warming:
    """Decide for all `partitions`; `standbys` members beside its owners copy each of them at all times.

    At most `max_warmups` more copies are made at a time, for partitions that are to move; the rest waits for them.
    """
    everything = sorted(partitions)
    having = facts.having()
    holder = _taken_over(everything, facts, having)
    wanted = _wanted(facts, having, holder, even)
    wanted_of = {partition: member_id for member_id, share in wanted.items() for partition in share}
    now: Shares = {member_id: [] for member_id in facts.owned}
    for partition in everything:
        target = wanted_of.get(partition)
        if target is None:
            continue  # nobody asks for it any more
        present = holder.get(partition, target)
        now[target if facts.is_warm(target, partition) else present].append(partition)
    return Warming(now, wanted, _copies(now, wanted_of, having, facts, standbys, max_warmups))


def _taken_over(
    everything: Iterable[TopicPartition], facts: Facts, having: Mapping[TopicPartition, Sequence[tuple[int, str]]]
) -> dict[TopicPartition, str]:
    """Present owners; what has none goes to who can go on at once, however uneven that is, or is the least behind."""
    holder = {partition: member_id for member_id, share in facts.owned.items() for partition in share}
    load = {member_id: len(share) for member_id, share in facts.owned.items()}
    for partition in everything:
        if partition not in holder and partition in having:
            warm = [(load[m], lag, m) for lag, m in having[partition] if lag <= facts.acceptable_lag]
            taker = min(warm)[2] if warm else having[partition][0][1]
            holder[partition] = taker
            load[taker] += 1
    return holder


def _wanted(
    facts: Facts,
    having: Mapping[TopicPartition, Sequence[tuple[int, str]]],
    holder: Mapping[TopicPartition, str],
    even: Even,
) -> Shares:
    """Even shares; what must move goes to who has the most of it already, where that makes them no less even."""
    held: Shares = {member_id: [] for member_id in facts.owned}
    for partition, member_id in holder.items():
        held[member_id].append(partition)
    first = even(held)
    staying = {m: [one for one in share if holder.get(one) == m] for m, share in first.items()}
    room = {m: len(share) - len(staying[m]) for m, share in first.items()}
    for partition in sorted(one for m, share in first.items() for one in share if holder.get(one) != m):
        nearest = next((m for _, m in having.get(partition, ()) if room[m] and m != holder.get(partition)), None)
        if nearest is not None:
            staying[nearest].append(partition)
            room[nearest] -= 1
    return even(staying)


def _copies(
    now: Shares,
    wanted_of: Mapping[TopicPartition, str],
    having: Mapping[TopicPartition, Sequence[tuple[int, str]]],
    facts: Facts,
    standbys: int,
    max_warmups: int,
) -> dict[str, list[TopicPartition]]:
    copies: dict[str, list[TopicPartition]] = {}
    for member_id, share in now.items():
        # Until its last owner has given it up, the copy has to stay as warm as it is.
        has = set(facts.owned[member_id])
        copies[member_id] = [one for one in share if one not in has and facts.is_warm(member_id, one)]
    warmups = _warmups(now, wanted_of, facts)[:max_warmups]
    for partition in sorted(warmups):
        copies[wanted_of[partition]].append(partition)
    stand = _Standing(list(now), -(-sum(map(len, now.values())) * standbys // max(1, len(now))))
    for owner, share in now.items():
        for partition in share:
            have = {member_id for _, member_id in having.get(partition, ())}
            coming = wanted_of[partition] if partition in warmups else owner
            can = [m for m in now if m not in (owner, coming) and partition.topic in facts.topics[m]]
            for member_id in stand.chosen(owner, can, have, standbys):
                copies[member_id].append(partition)
    return copies


def _warmups(now: Shares, wanted_of: Mapping[TopicPartition, str], facts: Facts) -> list[TopicPartition]:
    """What is to move to members that have to copy it first, the nearest to their aim first."""

    def rank(partition: TopicPartition) -> tuple[bool, int, TopicPartition]:
        lag = facts.lags[wanted_of[partition]].get(partition)
        return lag is None, lag or 0, partition

    return sorted((one for owner, share in now.items() for one in share if wanted_of[one] != owner), key=rank)


class _Standing:
    """Deals out standbys: an owner's are on as many members as possible, so that its end makes nobody overloaded."""

    def __init__(self, member_ids: Sequence[str], most: int) -> None:
        self._of_owner = defaultdict[tuple[str, str], int](int)
        self._total = dict.fromkeys(member_ids, 0)
        self._most = most

    def chosen(self, owner: str, can: Iterable[str], have: set[str], count: int) -> list[str]:
        """So many, or all there are. Who has a copy goes before who has none, where both stand in for as much."""

        def rank(member_id: str) -> tuple[bool, int, bool, int, str]:
            total = self._total[member_id]
            return total >= self._most, self._of_owner[owner, member_id], member_id not in have, total, member_id

        chosen = sorted(can, key=rank)[:count] if count else []
        for member_id in chosen:
            self._of_owner[owner, member_id] += 1
            self._total[member_id] += 1
        return chosen
