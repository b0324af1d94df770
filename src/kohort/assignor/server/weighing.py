"""Plans that balance the cost of partitions (lag, rate, or 1 each) by the members' weights.

Apache Kafka has no such assignors. `lag` and `rate` receive loads from the coordinator. `weighted`
counts partitions: a member of weight 5, beside others with a total weight of 95, gets one twentieth
of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, isfinite

from kohort.assignor.server.api import Load, MemberShape, Plan, Target, TopicShape, why_nothing
from kohort.assignor.server.partition_numbers import kept
from kohort.assignor.server.scales import LoadBalancer, PartitionLoad, WeightedMember
from kohort.model import UUID

IDLE_COST = 0.1
"""Cost of each partition besides its load, as a fraction of the mean load, so that members also share idle ones."""

MOST_MOVES = 1_000
"""Maximum number of moves in one update of a load-based plan; they take about 50 ms.

The update after the next measurement continues.
"""


@dataclass(frozen=True, slots=True)
class WeighingAssignor:
    """See `ServerAssignor`."""

    name: str
    load: Load | None
    """Kind of load; None if each partition costs the same."""
    tolerance: float
    """Deviation from the mean, as a fraction of it, below which a member is left alone."""

    def plan(self) -> Plan:
        """See `ServerAssignor.plan`."""
        return WeighingPlan(self.tolerance) if self.load is None else LoadedPlan(self.tolerance, self.load)


LAG = WeighingAssignor("lag", Load.LAG, 0.25)
RATE = WeighingAssignor("rate", Load.RATE, 0.15)
WEIGHTED = WeighingAssignor("weighted", None, 0.0)


class WeighingPlan:
    """See `Plan`. After a change, an update visits the whole group: 0.5 s for 100,000 partitions."""

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._topics: dict[UUID, list[PartitionLoad]] = {}
        self._members: dict[str, WeightedMember] = {}
        self._joined = 0
        self._told: dict[str, Target] = {}
        self._changed = False
        """Whether the next update has work to do."""
        self._most_moves = inf
        self._mean = 0.0

    def set_topic(self, topic_id: UUID, topic: TopicShape) -> None:
        """See `Plan.set_topic`."""
        parts = self._topics.setdefault(topic_id, [])
        self._changed |= len(parts) != topic.partitions
        while len(parts) > topic.partitions:
            _release(parts.pop())
        parts += (PartitionLoad(topic_id, number) for number in range(len(parts), topic.partitions))

    def remove_topic(self, topic_id: UUID) -> None:
        """See `Plan.remove_topic`."""
        for part in self._topics.pop(topic_id, ()):
            _release(part)
        self._changed = True

    def set_member(self, member_id: str, member: MemberShape) -> None:
        """See `Plan.set_member`. Raises ValueError if the weight is not above 0."""
        if not (isfinite(member.weight) and member.weight > 0):
            raise ValueError(f"the weight of member {member_id!r} is {member.weight}; it must be above 0")
        known = self._members.get(member_id)
        if known is None:
            self._joined += 1
            self._members[member_id] = WeightedMember(member_id, self._joined, member)
        elif known.shape == member:
            return
        else:
            known.shape = member
            for part in [part for part in known.parts if member.drained or part.topic_id not in member.topics]:
                known.drop(part)
        self._changed = True

    def remove_member(self, member_id: str) -> None:
        """See `Plan.remove_member`."""
        gone = self._members.pop(member_id, None)
        if gone is not None:
            for part in list(gone.parts):
                gone.drop(part)
            self._told.pop(member_id, None)
            self._changed = True

    def rename_member(self, old: str, new: str) -> None:
        """See `Plan.rename_member`."""
        self.remove_member(new)
        member = self._members.pop(old, None)
        if member is None:
            return
        self._members[new] = member
        member.id = new
        if old in self._told:
            self._told[new] = self._told.pop(old)

    def restore(self, targets: Mapping[str, Target]) -> None:
        """See `Plan.restore`. If two members claim a partition, the first one gets it."""
        self._told = dict(targets)
        for member_id, target in targets.items():
            member = self._members.get(member_id)
            for topic_id, numbers in target.items() if member is not None else ():
                assert member is not None
                parts = self._topics.get(topic_id, ())
                if topic_id in member.shape.topics and not member.shape.drained:
                    for number in sorted(numbers):
                        if 0 <= number < len(parts) and parts[number].owner is None:
                            member.take(parts[number])
        self._changed = True

    def update(self) -> Mapping[str, Target]:
        """See `Plan.update`."""
        if not self._changed:
            return {}
        self._changed = False
        wanted = self._wanted()
        self._price(wanted)
        scales = LoadBalancer(self._members.values(), wanted)
        scales.deal([part for part in wanted if part.owner is None])
        if self._knows_loads():
            self._changed = not scales.level(self._tolerance, self._most_moves)
        self._mean = scales.mean
        return self._tell()

    def reason(self, member_id: str) -> str:
        """See `Plan.reason`."""
        member = self._members[member_id]
        if not member.topics:
            return why_nothing(member.shape)
        fair = self._mean * member.shape.weight
        return f"{len(member.parts)} partitions; its fair share by weight {member.shape.weight:g} is {fair:.1f}"

    def _tell(self) -> dict[str, Target]:
        changed: dict[str, Target] = {}
        for member_id, member in self._members.items():
            if member.changed:
                member.changed = False
                target = _target(member)
                if self._told.get(member_id) != target:
                    self._told[member_id] = changed[member_id] = target
        return changed

    def _wanted(self) -> list[PartitionLoad]:
        """Return the partitions that some member may own; also set the topics that each member may own."""
        exist: dict[frozenset[UUID], frozenset[UUID]] = {frozenset(): frozenset()}
        for member in self._members.values():
            topics = frozenset[UUID]() if member.shape.drained else member.shape.topics
            if topics not in exist:
                exist[topics] = topics.intersection(self._topics)
            member.topics = exist[topics]
        asked = frozenset[UUID]().union(*exist.values())
        return [part for topic_id, parts in self._topics.items() if topic_id in asked for part in parts]

    def _knows_loads(self) -> bool:
        """Whether the loads are known. Members are balanced only then."""
        return True

    def _price(self, wanted: list[PartitionLoad]) -> None:
        """Set the cost of each partition for this update."""
        for member in self._members.values():
            member.total = float(len(member.parts))


class LoadedPlan(WeighingPlan):
    """A plan that receives loads; see `WeighsLoad`.

    After `restore` it moves nothing until it receives loads: without them, a balanced assignment
    looks uneven.
    """

    def __init__(self, tolerance: float, load: Load) -> None:
        super().__init__(tolerance)
        self._load = load
        self._is_blind = False
        self._most_moves = MOST_MOVES

    @property
    def weighs(self) -> Load:
        """See `WeighsLoad.weighs`."""
        return self._load

    def restore(self, targets: Mapping[str, Target]) -> None:
        """See `Plan.restore`."""
        super().restore(targets)
        self._is_blind = any(targets.values())

    def set_loads(self, topic_id: UUID, loads: Iterable[tuple[int, float]]) -> None:
        """See `WeighsLoad.set_loads`."""
        parts = self._topics.get(topic_id, ())
        changed = self._is_blind
        for partition, load in loads:
            if not 0 <= load < inf:
                raise ValueError(f"a load is {load}; it must be 0 or more")
            if 0 <= partition < len(parts) and parts[partition].load != load:
                parts[partition].load = load
                changed = True
        self._changed |= changed
        self._is_blind = False

    def reason(self, member_id: str) -> str:
        """See `Plan.reason`."""
        member = self._members[member_id]
        if not member.topics:
            return why_nothing(member.shape)
        load = sum(part.load for part in member.parts)
        fair = self._mean * member.shape.weight
        said = f"{len(member.parts)} partitions with {load:,.0f} {self._load.value}"
        if len(member.parts) == 1 and member.total > fair:
            return f"{said}: that partition alone is more than a fair share"
        share = member.total / fair if fair else 1.0
        near = f"{1 - self._tolerance:.0%} to {1 + self._tolerance:.0%}"
        return f"{said}, {share:.0%} of its fair share; {near} are near enough"

    def _knows_loads(self) -> bool:
        return not self._is_blind

    def _price(self, wanted: list[PartitionLoad]) -> None:
        total = sum([part.load for part in wanted])
        idle = IDLE_COST * total / len(wanted) if total else 1.0
        for member in self._members.values():
            member.total = 0.0
        for part in wanted:
            part.cost = part.load + idle
            if part.owner is not None:
                part.owner.total += part.cost


def _release(part: PartitionLoad) -> None:
    if part.owner is not None:
        part.owner.drop(part)


def _target(member: WeightedMember) -> Target:
    numbers: dict[UUID, set[int]] = {}
    for part in member.parts:
        numbers.setdefault(part.topic_id, set()).add(part.number)
    return {topic_id: kept(here) for topic_id, here in numbers.items()}
