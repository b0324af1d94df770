"""Balance partitions of different cost among members of different weight.

A member's *burden* is the cost of its partitions divided by its weight. Members with a burden near
the mean are left alone: costs change all the time, and every move pauses a member.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush, heapreplace, nlargest, nsmallest
from math import inf

from kohort.assignor.server.api import MemberShape
from kohort.model import UUID

KINDS_TRIED = 8
"""Maximum number of kinds of members to trade with. It matters only if few members share a subscription."""
SMALLEST_STEP = 0.01
"""Minimum benefit of a move, as a fraction of the member's deviation; below it, the pause is not justified."""
ROUNDING = 1e-9
"""Differences below this fraction of the mean count as 0."""


class PartitionLoad:
    """One partition: its reported load, its cost in the present update, and its owner."""

    __slots__ = ("cost", "load", "number", "owner", "topic_id")

    def __init__(self, topic_id: UUID, number: int) -> None:
        self.topic_id = topic_id
        self.number = number
        self.load = 0.0
        self.cost = 1.0
        self.owner: WeightedMember | None = None


class WeightedMember:
    """A member with its partitions."""

    __slots__ = ("changed", "id", "order", "parts", "shape", "topics", "total")

    def __init__(self, member_id: str, order: int, shape: MemberShape) -> None:
        self.id = member_id
        self.order = order
        """Tie-breaker: the order in which members were added."""
        self.shape = shape
        self.topics = frozenset[UUID]()
        """Existing topics whose partitions the member may own."""
        self.parts: dict[PartitionLoad, None] = {}
        self.total = 0.0
        self.changed = True
        """Whether its partitions may differ from the target that was last returned."""

    @property
    def burden(self) -> float:
        """Cost of its partitions divided by its weight."""
        return self.total / self.shape.weight

    def take(self, part: PartitionLoad) -> None:
        """Make this member the owner, and remove the partition from its former owner."""
        if part.owner is not None:
            part.owner.drop(part)
        part.owner = self
        self.parts[part] = None
        self.total += part.cost
        self.changed = True

    def drop(self, part: PartitionLoad) -> None:
        """Remove the partition from this member."""
        part.owner = None
        del self.parts[part]
        self.total -= part.cost
        self.changed = True


Entry = tuple[float, int, WeightedMember]
Kind = tuple[frozenset[UUID], float]


class LoadBalancer:
    """All members that may own partitions, for the duration of one update."""

    def __init__(self, members: Iterable[WeightedMember], parts: Iterable[PartitionLoad]) -> None:
        """Create the balance; `parts` are the partitions that some member may own."""
        self._light: dict[Kind, list[Entry]] = {}
        """By subscription and weight, lightest first. An entry is stale if its burden is not the member's."""
        self._heavy: dict[Kind, list[Entry]] = {}
        """By subscription and weight, heaviest first, with stale entries as in `_light`."""
        self._members = [member for member in members if member.topics]
        self._moves_left = inf
        for member in self._members:
            self._light.setdefault(_kind(member), []).append((member.burden, member.order, member))
        for heap in self._light.values():
            heapify(heap)
        weights = sum(member.shape.weight for member in self._members)
        costs = [part.cost for part in parts]
        self._cheapest = min(costs, default=0.0)
        self._alike = self._cheapest == max(costs, default=0.0)
        self.mean = _attainable(costs, weights, len(self._members))
        """Burden of every member if each partition could be assigned to any member."""

    def deal(self, parts: Iterable[PartitionLoad]) -> None:
        """Assign free partitions, costliest first, to the member with the least burden; call before `level`."""
        kinds: dict[UUID, list[Kind]] = {}
        for kind in self._light:
            for topic_id in kind[0]:
                kinds.setdefault(topic_id, []).append(kind)
        for part in sorted(parts, key=lambda part: -part.cost):
            winners = [self._lightest(kind) for kind in kinds.get(part.topic_id, ())]
            if winners:
                winner = min(winners, key=lambda candidate: (candidate.total + part.cost / 2) / candidate.shape.weight)
                winner.take(part)
                heapreplace(self._light[_kind(winner)], (winner.burden, winner.order, winner))

    def level(self, tolerance: float, most_moves: float = inf) -> bool:
        """Relieve overloaded members and fill underloaded ones, as far as single moves and swaps can.

        A member whose burden differs from the mean by more than `tolerance`, a fraction of the
        mean, is brought to within half of that. The loop terminates because each step lowers the
        sum of the squared burdens. Returns whether it finished within `most_moves` moves.
        """
        self._moves_left = most_moves
        for member in self._members:
            self._heavy.setdefault(_kind(member), []).append((-member.burden, member.order, member))
        for heap in self._heavy.values():
            heapify(heap)
        high, low = self.mean * (1 + tolerance / 2), self.mean * (1 - tolerance / 2)
        changed = True
        while changed and self._moves_left > 0:
            changed = self._relieve(self._beyond(self._heavy.values(), -self.mean * (1 + tolerance)), high)
            for heap in list(self._light.values()):
                changed |= self._fill(self._beyond([heap], self.mean * (1 - tolerance)), low)
        return self._moves_left > 0

    def _beyond(self, heaps: Iterable[list[Entry]], limit: float) -> list[Entry]:
        """Return the current entries below a limit, as a heap."""
        entries = {entry for heap in heaps for entry in heap if entry[0] < limit and abs(entry[0]) == entry[2].burden}
        return sorted(entries, key=lambda entry: entry[:2])

    def _relieve(self, givers: list[Entry], enough: float) -> bool:
        """Let the heaviest of these members give partitions to the lightest ones until their burden is `enough`.

        Returns whether anything moved.
        """
        changed = False
        while givers and self._moves_left > 0:
            _, order, giver = givers[0]
            lightest = nsmallest(KINDS_TRIED, map(self._lightest, self._light), key=_rank)
            if giver.burden > enough and any(self._trade(giver, receiver) for receiver in lightest):
                heapreplace(givers, (-giver.burden, order, giver))
                changed = True
            else:
                heappop(givers)
        return changed

    def _fill(self, receivers: list[Entry], enough: float) -> bool:
        """Let the lightest of these members, all of one kind, take from the heaviest, until their burden is `enough`.

        A member that could give nothing to one of them, such as the owner of one hot partition, is
        not tried for the next. Returns whether anything moved.
        """
        changed = False
        asked: list[tuple[Kind, Entry]] = []
        while receivers and self._moves_left > 0:
            _, order, receiver = receivers[0]
            if receiver.burden < enough and self._take(receiver, asked):
                heapreplace(receivers, (receiver.burden, order, receiver))
                changed = True
            else:
                heappop(receivers)
        for kind, entry in asked:
            heappush(self._heavy[kind], entry)
        return changed

    def _take(self, receiver: WeightedMember, asked: list[tuple[Kind, Entry]]) -> bool:
        kinds = [kind for kind, heap in self._heavy.items() if heap and not receiver.topics.isdisjoint(kind[0])]
        for kind in nlargest(KINDS_TRIED, kinds, key=lambda kind: -self._heavy[kind][0][0]):
            while (giver := self._heaviest(kind)) is not None and giver.burden > receiver.burden:
                if self._trade(giver, receiver):
                    return True
                asked.append((kind, heappop(self._heavy[kind])))
        return False

    def _trade(self, giver: WeightedMember, receiver: WeightedMember) -> bool:
        """Move one partition or several, or swap two, if that makes the burdens more equal; return whether it did."""
        apart = giver.burden - receiver.burden
        even = apart / (1 / giver.shape.weight + 1 / receiver.shape.weight)
        # Moving twice the difference to the even state would only exchange the burdens.
        most = 2 * even - self.mean * ROUNDING
        if most <= (self._cheapest if self._alike else 0):
            return False
        wanted = min(giver.total - self.mean * giver.shape.weight, self.mean * receiver.shape.weight - receiver.total)
        if wanted <= 0:
            wanted = even
        least = wanted * SMALLEST_STEP
        gives = [part for part in giver.parts if part.topic_id in receiver.topics]
        misses = ((abs(part.cost - wanted), n) for n, part in enumerate(gives) if least <= part.cost < most)
        miss, index = min(misses, default=(inf, 0))
        if miss > wanted / 4:
            several = _largest_that_fit(gives, wanted)
            if len(several) > 1 and sum(part.cost for part in several) >= wanted / 2:
                for part in several:
                    self._move(part, receiver)
                return True
        if miss > wanted / 2 and not self._alike:
            takes = [part for part in receiver.parts if part.topic_id in giver.topics]
            # Two moves must be clearly better than one.
            swap = _swap(gives, takes, wanted, least, min(most, wanted + miss / 2))
            if swap is not None:
                self._move(swap[0], receiver)
                self._move(swap[1], giver)
                return True
        if miss == inf:
            return False
        self._move(gives[index], receiver)
        return True

    def _move(self, part: PartitionLoad, receiver: WeightedMember) -> None:
        self._moves_left -= 1
        giver = part.owner
        receiver.take(part)
        for member in (giver, receiver):
            if member is not None:
                heappush(self._light[_kind(member)], (member.burden, member.order, member))
                heappush(self._heavy[_kind(member)], (-member.burden, member.order, member))

    def _lightest(self, kind: Kind) -> WeightedMember:
        heap = self._light[kind]
        while heap[0][0] != heap[0][2].burden:
            heappop(heap)
        return heap[0][2]

    def _heaviest(self, kind: Kind) -> WeightedMember | None:
        heap = self._heavy[kind]
        while heap and heap[0][0] != -heap[0][2].burden:
            heappop(heap)
        return heap[0][2] if heap else None


def _attainable(costs: Sequence[float], weights: float, members: int) -> float:
    """Return the mean burden, excluding members with a partition that is larger than a fair share.

    Otherwise one hot partition would raise the mean, and all other members would be below it.
    """
    total, each = sum(costs), weights / members if members else 0.0
    largest = [-cost for cost in costs]
    heapify(largest)
    while largest and members > 1 and -largest[0] > total / members:
        total += heappop(largest)
        members -= 1
    return total / (members * each) if members else 0.0


def _kind(member: WeightedMember) -> Kind:
    return member.topics, member.shape.weight


def _rank(member: WeightedMember) -> tuple[float, int]:
    return member.burden, member.order


def _largest_that_fit(parts: Iterable[PartitionLoad], wanted: float) -> list[PartitionLoad]:
    """Return the largest partitions that together cost at most `wanted`: few moves that approximate it."""
    fitting = []
    for part in sorted(parts, key=lambda part: -part.cost):
        if part.cost <= wanted:
            fitting.append(part)
            wanted -= part.cost
    return fitting


def _swap(
    gives: Iterable[PartitionLoad], takes: Iterable[PartitionLoad], wanted: float, least: float, most: float
) -> tuple[PartitionLoad, PartitionLoad] | None:
    """Return the pair whose swap is nearest to moving `wanted`, and moves at least `least` and less than `most`."""
    back = sorted(((part.cost, n, part) for n, part in enumerate(takes)))
    best: tuple[float, PartitionLoad, PartitionLoad] | None = None
    for part in gives:
        at = bisect_left(back, (part.cost - wanted,))
        for cost, _, other in back[max(at - 1, 0) : at + 1]:
            miss = abs(part.cost - cost - wanted)
            if least <= part.cost - cost < most and (best is None or miss < best[0]):
                best = (miss, part, other)
    return None if best is None else best[1:]
