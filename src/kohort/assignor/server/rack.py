"""Assignor `rack`: as even as `uniform`, with as few reads across racks as possible (not in Apache Kafka).

`uniform` decides between equally loaded members one partition at a time. This assignor exchanges
partitions until no exchange, of any length, gives one more partition to a member that is near one
of its replicas. An exchange is a cycle: each member in it gives one partition and receives one, so
the loads do not change.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from kohort.assignor.server.api import Plan
from kohort.assignor.server.levels import Member, MemberClass, Topic
from kohort.assignor.server.uniform import UniformPlan

MOST_KINDS = 40
"""Maximum number of kinds of members that share topics; the search takes the cube of it."""


class RackAssignor:
    """See `ServerAssignor`. Partitions move only if at least one more becomes near."""

    name = "rack"

    def plan(self) -> Plan:
        """See `ServerAssignor.plan`."""
        return RackPlan()


class RackPlan(UniformPlan):
    """See `Plan`. If racks are known, an update visits every partition: 0.1 s for 100,000 partitions."""

    def _settle(self) -> None:
        levels, pools = self.roster.levels, self.roster.pools()
        for kinds, pool in pools.items():
            members = list(levels.each(kinds))
            racks = {kind.rack for kind in members} - {None}
            if racks and 1 < len(members) <= MOST_KINDS and any(topic.shape.racks for topic in pool):
                # With one pool, the extra partitions may move to other members, because no other
                # pool is affected.
                exchange = Exchange(self, members, pool, loads_too=len(pools) == 1)
                while exchange.improve():
                    pass


Stock = dict[int, dict[tuple[Topic, int], Member]]
"""Partitions and their owners, by the set of kinds that are near the partition."""


@dataclass(frozen=True, slots=True)
class Node:
    """A place of partitions: members of a kind, or those among them that have one extra partition and may give it."""

    kind: MemberClass
    heavy: bool = False


TURN = None
"""The node at which a light member becomes heavy, and a heavy member becomes light."""


Gains = dict[Node | None, dict[Node | None, int]]
"""By node, the nodes that can receive a partition from it, and the gain of that move: 1, 0 or -1."""


class Exchange:
    """The partitions of one pool, by their owners and by the kinds that are near them.

    They form a graph. An edge is the gain of moving a partition from one node to another. A cycle
    with a positive total gain is worth its moves.
    """

    def __init__(
        self, plan: UniformPlan, kinds: Sequence[MemberClass], pool: Sequence[Topic], *, loads_too: bool
    ) -> None:
        self._plan = plan
        self._kinds = kinds
        self._bits = sum(kind.bit for kind in kinds)
        self._pool = {topic.id: topic for topic in pool}
        loads = {load for kind in kinds for load in kind.having}
        self._high = max(loads) if loads_too and len(loads) == 2 else None
        """Load of heavy members; None if all loads are equal or must not change."""
        self._stocks: dict[Node, Stock] = {Node(kind, heavy): {} for kind in kinds for heavy in (False, True)}
        for kind in kinds:
            for member in [member for members in kind.having.values() for member in members]:
                self._file(member)

    def improve(self) -> bool:
        """Perform one kind of exchange as often as possible; return whether one with a gain was found."""
        cycle = _shortest_cycle(self._gains())
        if cycle is None:
            return False
        steps = [
            (giver, receiver, self._best(giver, receiver)) for giver, receiver in pairwise(cycle) if giver and receiver
        ]
        if TURN in cycle:
            self._exchange(steps, self._light_member(steps[-1][1]))
        else:
            for _ in range(min(len(self._stock(giver, near)) for giver, _, near in steps)):
                self._exchange(steps, None)
        return True

    def _exchange(self, steps: Sequence[tuple[Node, Node, int]], last: Member | None) -> None:
        """Move one partition from each giver to the next.

        The last giver's partition moves to `last`, or else to the first giver.
        """
        given = [next(reversed(self._stock(giver, near).items())) for giver, _, near in steps]
        assert len(dict(given)) == len(given), "a shorter cycle would have done"
        givers = [member for _, member in given]
        receivers = [*givers[1:], last or givers[0]]
        changing = [] if last is None else list(dict.fromkeys([givers[0], last]))
        for member in changing:
            self._file(member, out=True)
        for (part, giver), receiver, (_, _, near) in zip(given, receivers, steps, strict=True):
            self._plan.roster.pass_on(*part, giver, receiver)
            if giver not in changing:
                del self._stocks[self._node(giver)][near][part]
            if receiver not in changing:
                self._stocks[self._node(receiver)].setdefault(near, {})[part] = receiver
        if last is not None:
            self._plan.roster.levels.move(givers[0], givers[0].load - 1)
            self._plan.roster.levels.move(last, last.load + 1)
        for member in changing:
            self._file(member)

    def _node(self, member: Member) -> Node:
        return Node(member.kind, member.load == self._high)

    def _file(self, member: Member, *, out: bool = False) -> None:
        """Add a member's partitions of the pool to its stock, or remove them."""
        stock = self._stocks[self._node(member)]
        for topic_id, numbers in member.target.items():
            topic = self._pool.get(topic_id)
            for number in numbers if topic is not None else ():
                assert topic is not None
                here = stock.setdefault(self._plan.near_to(topic, number) & self._bits, {})
                if out:
                    del here[topic, number]
                else:
                    here[topic, number] = member

    def _stock(self, giver: Node, near: int) -> dict[tuple[Topic, int], Member]:
        """Return the partitions that the node can give; any member of a kind may pass one on, heavy or not."""
        here = self._stocks[giver].get(near)
        return here or self._stocks[Node(giver.kind, heavy=True)].get(near, {})

    def _nears(self, giver: Node) -> set[int]:
        nodes = (giver, Node(giver.kind, heavy=True))
        return {near for node in nodes for near, here in self._stocks[node].items() if here}

    def _best(self, giver: Node, receiver: Node) -> int:
        """Return the best partitions to move from one node to the other, as the set of kinds that are near them."""
        return max(self._nears(giver), key=lambda near: (_gain(near, giver, receiver), -near))

    def _light_member(self, node: Node) -> Member:
        assert self._high is not None
        return node.kind.having[self._high - 1][-1]

    def _gains(self) -> Gains:
        gains: Gains = {}
        places = [Node(kind) for kind in self._kinds]
        for node in self._stocks:
            if nears := self._nears(node):
                # A heavy member may also give a partition to a member of its own kind, which then
                # passes one on.
                others = [place for place in places if place.kind is not node.kind or node.heavy]
                gains[node] = {other: max(_gain(near, node, other) for near in nears) for other in others}
        if self._high is not None:
            gains[TURN] = {node: 0 for node in gains if node is not None and node.heavy}
            for place in places:
                if self._high - 1 in place.kind.having:
                    gains.setdefault(place, {})[TURN] = 0
        return gains


def _shortest_cycle(gains: Gains) -> list[Node | None] | None:
    """Return the shortest cycle with a positive gain; its first and last nodes are equal.

    If TURN is in the cycle, the cycle starts there.
    """
    # By start and end: the best walk with the present number of steps. The shortest closed walk
    # with a gain is a simple cycle.
    walks: dict[tuple[Node | None, Node | None], tuple[int, list[Node | None]]]
    walks = {(start, start): (0, [start]) for start in gains}
    for _ in gains:
        longer: dict[tuple[Node | None, Node | None], tuple[int, list[Node | None]]] = {}
        for (start, end), (gained, way) in walks.items():
            for after, gain in gains.get(end, {}).items():
                if (start, after) not in longer or gained + gain > longer[start, after][0]:
                    longer[start, after] = (gained + gain, [*way, after])
        for start in gains:
            gained, way = longer.get((start, start), (0, []))
            if gained > 0:
                turn = way.index(TURN) if TURN in way else 0
                return [*way[turn:-1], *way[:turn], way[turn]]
        walks = longer
    return None


def _gain(near: int, giver: Node, receiver: Node) -> int:
    return bool(near & receiver.kind.bit) - bool(near & giver.kind.bit)
