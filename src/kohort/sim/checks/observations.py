"""Observations of all coordinators of a world: durable state, serving coordinators, and events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kohort.broker.groups import group_partition
from kohort.coordinator import GroupRecord, GroupShard
from kohort.coordinator.classic import ClassicGroup
from kohort.coordinator.consumer import ConsumerGroup, chosen_assignor
from kohort.errors import ErrorCode
from kohort.model import UUID, TopicPartition
from kohort.sim.checks.checked_coordinator import CheckedCoordinator
from kohort.sim.checks.durable_groups import DurableGroups
from kohort.sim.checks.durable_state import same_at
from kohort.sim.checks.group_progress import GroupProgress


@dataclass(slots=True)
class KeptAssignment:
    """Assignment that a classic group keeps while static members return (KIP-345)."""

    generation: int
    leader_at: float | None = None
    """Time of the last return of the leader, which does not know the topics of the assignment (KIP-814)."""
    for_others: bool = False
    """Whether a member returned with another subscription than that for which the assignment was computed."""


@dataclass(frozen=True, slots=True)
class ComputedAssignment:
    """The assignment of a group, and the assignor that computed it."""

    kind: type[ClassicGroup | ConsumerGroup]
    epoch: int
    assignor: str


class Observations:
    """Observer of all coordinators of a world. `live` has those that serve, by partition."""

    def __init__(self, progress: GroupProgress, shards: int, note: Callable[[str], None]) -> None:
        """Create the observer; `note` is called with events for the history."""
        self.shards = shards
        self.note = note
        self.most: Callable[[str], int] = lambda topic: 0
        """Function that returns the maximum partition count that a topic of that name has had."""
        self._progress = progress
        self.durable_groups = [DurableGroups(self._progress, lambda topic: self.most(topic)) for _ in range(shards)]
        self.live: dict[int, CheckedCoordinator] = {}
        self.states: Counter[tuple[str, str]] = Counter()
        """Number of observed transitions by old and new state."""
        self.errors: Counter[tuple[str, ErrorCode]] = Counter()
        """Number of observed responses by request and error code."""
        self.rebalances: Counter[str] = Counter()
        """Number of rebalances begun, by group."""
        self.orders: set[str] = set()
        """Pairs of consecutive events in a group, each with the state after it."""
        self._latest: dict[str, str] = {}
        self.join_phase_over: Callable[[str], None] = lambda group_id: None
        """Callback for a classic group whose members learn of their generation, which is not stored yet."""
        self.kept: dict[str, KeptAssignment] = {}
        """Assignments that classic groups kept at the last return of a static member."""
        self._assigned: dict[str, ComputedAssignment] = {}
        """Present assignment of each group that has members, by group."""
        self._inherited: dict[str, ComputedAssignment] = {}
        """Assignment that each group had when it became one of the other protocol, by group.

        It stays in force until the next epoch, as in Kafka, although another assignor is chosen now.
        """
        self.joined: dict[tuple[str, str], dict[str, float]] = {}
        """Time at which the process of each client last joined with an instance id, by group and instance id."""
        self.refused: set[tuple[str, ErrorCode]] = set()
        """Clients that a coordinator rejected for good, and the error: each run of a process is another client."""
        self.outdated: dict[tuple[str, str], float] = {}
        """Time at which a broker that had lost the log last fenced a static member, by group and instance id."""
        self.now: Callable[[], float] = float
        """Time of the world, independent of the clocks of its brokers."""
        self.lives: Callable[[str, str, float], bool] = lambda client_id, member_id, since: False
        """Function that returns whether the process of that client runs, is a member that does not leave, and could
        connect since that time."""
        self.uncommitted: Callable[[str, UUID, int], None] = self._uncommitted
        """Callback for each partition of a member that may not commit what it has processed."""
        self.names: Callable[[], dict[UUID, str]] = dict
        """Function that returns the existing topics."""

    def observed(self, machine: GroupShard, partition: int, owns: Callable[[], bool]) -> GroupShard:
        """Return the coordinator under observation. `owns` returns whether its broker still owns the log."""
        stand_in: Any = CheckedCoordinator(self, machine, partition, owns)
        result: GroupShard = stand_in
        return result

    def _uncommitted(self, group_id: str, topic_id: UUID, partition: int) -> None:
        """Record that the next owner of a partition processes records again, as in Kafka."""
        name = self.names().get(topic_id)
        if name is not None:
            self._progress.repeatable.add((group_id, topic_id, TopicPartition(name, partition)))

    def is_damaged(self, group_id: str) -> bool:
        """Return whether the disk has lost records of the group."""
        return group_id in self._progress.damaged_at

    def happened(self, group_id: str, what: str) -> None:
        """Record in `orders` which event of the group came before this one."""
        group = self.group(group_id)
        event = f"{what} {'none' if group is None else group.state.value}"
        self.orders.add(f"{self._latest.get(group_id, '')} > {event}")
        self._latest[group_id] = event

    def fault_happened(self, what: str) -> None:
        """Record a fault, which may concern any group."""
        for group_id in self._latest:
            self.happened(group_id, what)

    def pending(self) -> bool:
        """Return whether a group has an unused member id, or a member that waits for others to join."""
        return any(
            group.pending or group.rebalance.joining
            for live in self.live.values()
            for group in live.machine.groups.values()
            if isinstance(group, ClassicGroup)
        )

    def took_over(self, group_id: str, generation: int, *, leads: bool, asks_for_others: bool) -> None:
        """Record that a static member of a classic group returned without a rebalance."""
        kept = self.kept.get(group_id)
        if kept is None or kept.generation != generation:
            kept = self.kept[group_id] = KeptAssignment(generation)
        kept.for_others |= asks_for_others
        if leads:
            kept.leader_at = self.now()

    def group(self, group_id: str) -> ClassicGroup | ConsumerGroup | None:
        """Return the group as its coordinator has it."""
        live = self.live.get(group_partition(group_id, self.shards))
        return None if live is None else live.group(group_id)

    def assignor(self, group: ClassicGroup | ConsumerGroup) -> str:
        """Return the assignor of the group's present assignment."""
        inherited = self._inherited.get(group.group_id)
        if inherited is not None and inherited.epoch == _assigned_epoch(group):
            return inherited.assignor
        if isinstance(group, ClassicGroup):
            return group.protocol or ""
        live = self.live[group_partition(group.group_id, self.shards)]
        return group.computing.made_by or chosen_assignor(live.machine._groups, group)

    def changed(self, group_id: str, group: ClassicGroup | ConsumerGroup | None) -> None:
        """Record the assignment of a group that may have changed; None if it does not exist any more."""
        if group is None or not group.members:
            self._assigned.pop(group_id, None)
            self._inherited.pop(group_id, None)
            return
        epoch, before = _assigned_epoch(group), self._assigned.get(group_id)
        if before is not None and before.kind is not type(group) and before.epoch == epoch:
            self._inherited[group_id] = before
        self._assigned[group_id] = ComputedAssignment(type(group), epoch, self.assignor(group))

    def counts(self, group_id: str, member_id: str) -> bool:
        """Return whether the group's coordinator has that member."""
        group = self.group(group_id)
        return group is not None and member_id in group.members

    def written(self, partition: int, data: bytes) -> None:
        """Process durable batches of that partition of `__consumer_offsets`."""
        self._compare(partition, self.durable_groups[partition].written_batches(data))

    def pairs_written(self, partition: int, pairs: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Process durable keys and values of that partition that are not part of a transaction."""
        self._compare(partition, self.durable_groups[partition].written(pairs))

    def _compare(self, partition: int, records: list[GroupRecord]) -> None:
        durable = self.durable_groups[partition]
        live = self.live.get(partition)
        if live is None or not live.owns():
            return
        live.unsynced -= len(records)
        if live.unsynced == 0:
            for record in records:
                same_at(live.machine, durable.shard, record)


def _assigned_epoch(group: ClassicGroup | ConsumerGroup) -> int:
    return group.generation if isinstance(group, ClassicGroup) else group.target_epoch
