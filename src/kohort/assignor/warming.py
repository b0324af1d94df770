"""Compute present owners, wanted owners and copies for stateful members (KIP-441).

A partition moves only to a member whose copy of its state has little lag. Until the wanted owner
has such a copy, the present owner continues. The result depends only on the members' data at this
rebalance: no state is kept in between.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kohort.model import TopicPartition

Lags = Mapping[TopicPartition, int]
Shares = dict[str, list[TopicPartition]]
"""Partitions by member ID, with an entry for every member."""
Even = Callable[[Mapping[str, Sequence[TopicPartition]]], Shares]
"""A function that makes shares even and complete with as few moves as possible."""


@dataclass(frozen=True, slots=True)
class WarmupPlan:
    """Result of one rebalance; every member has an entry in each mapping."""

    now: Shares
    """Partitions that each member processes from now on."""
    wanted: Shares
    """Partitions that each member processes once all copies are complete: even, as if there were no state."""
    copies: Mapping[str, Sequence[TopicPartition]]
    """Partitions that each member copies without processing them: first those that will move to it, then standbys."""


@dataclass(frozen=True, slots=True)
class RebalanceInput:
    """Input of a rebalance."""

    owned: Mapping[str, Sequence[TopicPartition]]
    """Partitions by member, without conflicts; every member has an entry."""
    lags: Mapping[str, Lags]
    """By member: number of records that each of its copies lacks. There is no entry for a missing copy."""
    topics: Mapping[str, frozenset[str]]
    """By member: subscribed topics."""
    acceptable_lag: int
    """`acceptable.recovery.lag`: maximum number of missing records for a copy to be warm."""

    def is_warm(self, member_id: str, partition: TopicPartition) -> bool:
        lag = self.lags[member_id].get(partition)
        return lag is not None and lag <= self.acceptable_lag

    def having(self) -> dict[TopicPartition, list[tuple[int, str]]]:
        """Return (lag, member) for each copy whose member subscribes to the topic, smallest lag first, by partition."""
        found = defaultdict[TopicPartition, list[tuple[int, str]]](list)
        for member_id, lags in self.lags.items():
            for partition, lag in lags.items():
                if partition.topic in self.topics[member_id]:
                    found[partition].append((lag, member_id))
        return {partition: sorted(members) for partition, members in found.items()}


def warm_up(
    partitions: Iterable[TopicPartition], facts: RebalanceInput, even: Even, standbys: int, max_warmups: int
) -> WarmupPlan:
    """Decide for all `partitions`; `standbys` members besides the owner copy each partition at all times.

    At most `max_warmups` additional copies are made at a time, for partitions that will move;
    further moves wait.
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
            continue  # no member subscribes to it any more
        present = holder.get(partition, target)
        now[target if facts.is_warm(target, partition) else present].append(partition)
    return WarmupPlan(now, wanted, _copies(now, wanted_of, having, facts, standbys, max_warmups))


def _taken_over(
    everything: Iterable[TopicPartition],
    facts: RebalanceInput,
    having: Mapping[TopicPartition, Sequence[tuple[int, str]]],
) -> dict[TopicPartition, str]:
    """Return the present owners, and owners for partitions without one.

    A free partition goes to a member with a warm copy, even if that is uneven, otherwise to the
    member with the least lag.
    """
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
    facts: RebalanceInput,
    having: Mapping[TopicPartition, Sequence[tuple[int, str]]],
    holder: Mapping[TopicPartition, str],
    even: Even,
) -> Shares:
    """Return even shares. A partition that must move goes to the member with the least lag, if balance allows."""
    held: Shares = {member_id: [] for member_id in facts.owned}
    for partition, member_id in holder.items():
        held[member_id].append(partition)
    first = even(held)
    staying = {m: [partition for partition in share if holder.get(partition) == m] for m, share in first.items()}
    room = {m: len(share) - len(staying[m]) for m, share in first.items()}
    for partition in sorted(moved for m, share in first.items() for moved in share if holder.get(moved) != m):
        nearest = next((m for _, m in having.get(partition, ()) if room[m] and m != holder.get(partition)), None)
        if nearest is not None:
            staying[nearest].append(partition)
            room[nearest] -= 1
    return even(staying)


def _copies(
    now: Shares,
    wanted_of: Mapping[TopicPartition, str],
    having: Mapping[TopicPartition, Sequence[tuple[int, str]]],
    facts: RebalanceInput,
    standbys: int,
    max_warmups: int,
) -> dict[str, list[TopicPartition]]:
    copies: dict[str, list[TopicPartition]] = {}
    for member_id, share in now.items():
        # The copy must stay warm until the last owner has revoked the partition.
        has = set(facts.owned[member_id])
        copies[member_id] = [
            partition for partition in share if partition not in has and facts.is_warm(member_id, partition)
        ]
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


def _warmups(now: Shares, wanted_of: Mapping[TopicPartition, str], facts: RebalanceInput) -> list[TopicPartition]:
    """Return partitions that will move to members that must first copy them, smallest lag first."""

    def rank(partition: TopicPartition) -> tuple[bool, int, TopicPartition]:
        lag = facts.lags[wanted_of[partition]].get(partition)
        return lag is None, lag or 0, partition

    return sorted(
        (partition for owner, share in now.items() for partition in share if wanted_of[partition] != owner), key=rank
    )


class _Standing:
    """Chooses standbys.

    It spreads the standbys of one owner over as many members as possible, so that no member is
    overloaded if the owner fails.
    """

    def __init__(self, member_ids: Sequence[str], most: int) -> None:
        self._of_owner = defaultdict[tuple[str, str], int](int)
        self._total = dict.fromkeys(member_ids, 0)
        self._most = most

    def chosen(self, owner: str, can: Iterable[str], have: set[str], count: int) -> list[str]:
        """Return `count` members, or all if there are fewer.

        Among members with equally many standbys of this owner, those with a copy come first.
        """

        def rank(member_id: str) -> tuple[bool, int, bool, int, str]:
            total = self._total[member_id]
            return total >= self._most, self._of_owner[owner, member_id], member_id not in have, total, member_id

        chosen = sorted(can, key=rank)[:count] if count else []
        for member_id in chosen:
            self._of_owner[owner, member_id] += 1
            self._total[member_id] += 1
        return chosen
