"""Members of a group by how many partitions they have, so that who has the least or the most is found at once.

Members with the same subscription in the same rack are interchangeable: they form a `Kind`. Kinds are few, so a set of
kinds is an integer with one bit each, and "the lightest subscriber of this topic" is an AND per load that occurs.
"""

from bisect import bisect_left
from collections.abc import Iterator, Set
from math import inf

from kohort.assignor.server.api import MemberShape, TopicShape
from kohort.model import UUID


class Topic:
    """A topic while somebody may subscribe to it."""

    __slots__ = ("free", "id", "kinds", "shape")

    def __init__(self, topic_id: UUID, shape: TopicShape) -> None:
        self.id = topic_id
        self.shape = shape
        self.kinds = 0
        """Who subscribes to it, as a set of kinds."""
        self.free: list[int] = list(range(shape.partitions))
        """Partitions that nobody has."""


class Kind:
    """Members that are interchangeable."""

    __slots__ = ("bit", "having", "held", "rack", "shape", "size", "topics")

    def __init__(self, bit: int, topics: frozenset[UUID], rack: str | None) -> None:
        self.bit = bit
        self.topics = topics
        self.rack = rack
        self.size = 0
        self.having: dict[int, list[Member]] = {}
        """By load, in no order that means anything; no empty lists."""
        self.held: dict[Topic, int] = {}
        """How many partitions of a topic its members have together."""
        self.shape: MemberShape | None = None
        """Of the last that came."""

    def alike(self, shape: MemberShape) -> MemberShape:
        """The same, as the very value that another member has, where most members say the same of themselves."""
        if self.shape != shape:
            self.shape = shape
        assert self.shape is not None
        return self.shape


class Member:
    """A member with its target. `load` is the number of its partitions, `slot` its place among those with as many."""

    __slots__ = ("id", "kind", "load", "shape", "slot", "target", "turn")

    def __init__(self, member_id: str, shape: MemberShape, kind: Kind) -> None:
        self.id = member_id
        self.shape = shape
        self.kind = kind
        self.load = self.slot = 0
        self.target: dict[UUID, Set[int]] = {}
        """Of each topic a frozenset, or within a turn, where there are many, a set of its own."""
        self.turn = -1
        """The turn in which `target` became its own: others may have it as soon as that is over."""


class Levels:
    """All members by load and kind. Every change costs the same, whatever the size of the group."""

    def __init__(self) -> None:
        self._kinds: dict[int, Kind] = {}
        """By the position of the bit."""
        self._bits = 0
        self._at: dict[int, int] = {}
        """By load, the kinds that have members there."""
        self._loads: list[int] = []
        """Its keys, ascending."""

    def add_kind(self, topics: frozenset[UUID], rack: str | None) -> Kind:
        """A new kind, on the lowest bit that is free."""
        kind = Kind(~self._bits & (self._bits + 1), topics, rack)
        self._kinds[kind.bit.bit_length()] = kind
        self._bits |= kind.bit
        return kind

    def remove_kind(self, kind: Kind) -> None:
        assert not kind.having
        del self._kinds[kind.bit.bit_length()]
        self._bits ^= kind.bit

    def highest(self, kinds: int, below: float = inf) -> tuple[int, int]:
        """The greatest load below some among these kinds, and those of the kinds that have it; (-1, 0) for none."""
        for load in reversed(self._loads):
            if load < below and (here := self._at[load] & kinds):
                return load, here
        return -1, 0

    def lowest(self, kinds: int) -> tuple[int, int]:
        """The least load among these kinds, which have members, and those of the kinds that have it."""
        for load in self._loads:
            if here := self._at[load] & kinds:
                return load, here
        raise AssertionError("these kinds have no members")

    def each(self, kinds: int) -> Iterator[Kind]:
        """The kinds of a set, from the lowest bit up."""
        while kinds:
            bit = kinds & -kinds
            yield self._kinds[bit.bit_length()]
            kinds ^= bit

    def put(self, member: Member, load: int) -> None:
        """Add a member that is nowhere yet."""
        here = member.kind.having.get(load)
        if here is None:
            self.put_all(member.kind, load, [member])
        else:
            member.load = load
            member.slot = len(here)
            here.append(member)

    def put_all(self, kind: Kind, load: int, members: list[Member]) -> None:
        """Add members of one kind that are nowhere yet; the list is kept."""
        here = kind.having.get(load)
        start = 0
        if here is None:
            kind.having[load] = members
            self._mark(load, kind.bit)
        else:
            start = len(here)
            here += members
        for slot, member in enumerate(members, start):
            member.load = load
            member.slot = slot

    def take(self, member: Member) -> None:
        """Remove a member from where it is."""
        here = member.kind.having[member.load]
        last = here.pop()
        if last is not member:
            here[member.slot] = last
            last.slot = member.slot
        if not here:
            self._unmark(member.load, member.kind)

    def take_some(self, kind: Kind, load: int, count: int) -> list[Member]:
        """Remove that many members of one kind and load, or all where there are fewer."""
        here = kind.having[load]
        if count < len(here):
            taken = here[-count:]
            del here[-count:]
            return taken
        self._unmark(load, kind)
        return here

    def move(self, member: Member, load: int) -> None:
        self.take(member)
        self.put(member, load)

    def _mark(self, load: int, bit: int) -> None:
        if load not in self._at:
            self._loads.insert(bisect_left(self._loads, load), load)
            self._at[load] = 0
        self._at[load] |= bit

    def _unmark(self, load: int, kind: Kind) -> None:
        del kind.having[load]
        self._at[load] ^= kind.bit
        if not self._at[load]:
            del self._at[load]
            del self._loads[bisect_left(self._loads, load)]


class Singletons(dict[int, frozenset[int]]):
    """A set of one number for every number that somebody asks for; of one update.

    Where members have one partition of each of many topics, most targets are made of these, so they share them.
    """

    def __missing__(self, number: int) -> frozenset[int]:
        made = self[number] = frozenset((number,))
        return made
