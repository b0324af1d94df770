"""What all coordinators of a world are held to together: what is durable, who serves, and what was seen of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kohort.broker.groups import group_partition
from kohort.coordinator import GroupShard
from kohort.coordinator.classic_group import ClassicGroup
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.target import chosen_assignor
from kohort.errors import ErrorCode
from kohort.model import UUID
from kohort.sim.durable_state import same_at
from kohort.sim.ledger import Ledger
from kohort.sim.shadow import Shadow
from kohort.sim.watched import Watched


@dataclass(slots=True)
class Kept:
    """An assignment that a classic group keeps while static members return (KIP-345)."""

    generation: int
    leader_at: float | None = None
    """When the leader returned last, which does not know from which topics the assignment was computed (KIP-814)."""
    for_others: bool = False
    """Whether a member returned with another subscription than the one that the assignment was computed for."""


class Watch:
    """What all coordinators of a world are held to. `live` are those that serve, by partition."""

    def __init__(self, ledger: Ledger, shards: int, note: Callable[[str], None]) -> None:
        """`note` is told what belongs into the history."""
        self.shards = shards
        self.note = note
        self.shadows = [Shadow(ledger) for _ in range(shards)]
        self.live: dict[int, Watched] = {}
        self.states: Counter[tuple[str, str]] = Counter()
        """Transitions seen, from and to."""
        self.errors: Counter[tuple[str, ErrorCode]] = Counter()
        """Answers seen, by request."""
        self.rebalances: Counter[str] = Counter()
        """Rebalances begun, by group."""
        self.join_phase_over: Callable[[str], None] = lambda group_id: None
        """Called when the members of a classic group are told their generation, which is not written yet."""
        self.kept: dict[str, Kept] = {}
        """By classic group, what its static members that returned kept of an assignment, as its latest return says."""
        self.now: Callable[[], float] = float
        """The world's time, whatever the clocks of its brokers say."""
        self.behind_at_downgrade: Callable[[str], None] = ledger.excused.add
        """Called with a consumer group that becomes a classic group while a member is not at the group epoch."""
        self.names: Callable[[], dict[UUID, str]] = dict
        """The topics that there are."""

    def watched(self, machine: GroupShard, partition: int, owns: Callable[[], bool]) -> GroupShard:
        """The machine, and somebody who looks. `owns` says whether its broker still has the log."""
        stand_in: Any = Watched(self, machine, partition, owns)
        result: GroupShard = stand_in
        return result

    def pending(self) -> bool:
        """Whether any group has handed out a member id that nobody used yet, or waits for one that joined first."""
        return any(
            group.pending or group.rebalance.joining
            for live in self.live.values()
            for group in live.machine.groups.values()
            if isinstance(group, ClassicGroup)
        )

    def took_over(self, group_id: str, generation: int, *, leads: bool, asks_for_others: bool) -> None:
        """A static member of a classic group returned without a rebalance."""
        kept = self.kept.get(group_id)
        if kept is None or kept.generation != generation:
            kept = self.kept[group_id] = Kept(generation)
        kept.for_others |= asks_for_others
        if leads:
            kept.leader_at = self.now()

    def group(self, group_id: str) -> ClassicGroup | ConsumerGroup | None:
        """The group as its coordinator has it."""
        live = self.live.get(group_partition(group_id, self.shards))
        return None if live is None else live.group(group_id)

    def assignor(self, group: ClassicGroup | ConsumerGroup) -> str:
        """The assignor of the group's present assignment."""
        if isinstance(group, ClassicGroup):
            return group.protocol or ""
        live = self.live[group_partition(group.group_id, self.shards)]
        return group.computing.made_by or chosen_assignor(live.machine._groups, group)

    def counts(self, group_id: str, member_id: str) -> bool:
        """Whether the group's coordinator has that member."""
        group = self.group(group_id)
        return group is not None and member_id in group.members

    def written(self, partition: int, pairs: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Keys and values of that partition of `__consumer_offsets` are durable."""
        shadow = self.shadows[partition]
        records = shadow.written(pairs)
        live = self.live.get(partition)
        if live is None or not live.owns():
            return
        live.unsynced -= len(records)
        if live.unsynced == 0:
            for record in records:
                same_at(live.machine, shadow.shard, record)
