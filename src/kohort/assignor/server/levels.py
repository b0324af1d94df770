"""Members of a group by number of partitions, to find the least and the most loaded members at once.

Members with the same subscription in the same rack are interchangeable: they form a `MemberClass`. A group
has few kinds, so a set of kinds is an integer with one bit per kind. Finding a topic's least loaded
subscriber takes one AND per distinct load.
"""

from bisect import bisect_left
from collections.abc import Iterator, Set
from math import inf

from kohort.assignor.server.api import MemberShape, TopicShape
from kohort.model import UUID


class Topic:
    """A topic to which members may subscribe."""

    __slots__ = ("free", "id", "kinds", "shape")

    def __init__(self, topic_id: UUID, shape: TopicShape) -> None:
        self.id = topic_id
        self.shape = shape
        self.kinds = 0
        """Subscribers of the topic, as a set of kinds."""
        self.free: list[int] = list(range(shape.partitions))
        """Partitions that have no owner."""


class MemberClass:
    """A class of interchangeable members."""

    __slots__ = ("bit", "having", "held", "rack", "shape", "size", "topics")

    def __init__(self, bit: int, topics: frozenset[UUID], rack: str | None) -> None:
        self.bit = bit
        self.topics = topics
        self.rack = rack
        self.size = 0
        self.having: dict[int, list[Member]] = {}
        """Members by load, in arbitrary order; there are no empty lists."""
        self.held: dict[Topic, int] = {}
        """Number of partitions per topic that the members of this kind own together."""
        self.shape: MemberShape | None = None
        """Shape of the member that was added last."""

    def alike(self, shape: MemberShape) -> MemberShape:
        """Return an equal shape that members share, which saves memory because most members have equal shapes."""
        if self.shape != shape:
            self.shape = shape
        assert self.shape is not None
        return self.shape


class Member:
    """A member with its target.

    `load` is the number of its partitions, `slot` its position in the list of members of its kind
    and load.
    """

    __slots__ = ("id", "kind", "load", "shape", "slot", "target", "turn")

    def __init__(self, member_id: str, shape: MemberShape, kind: MemberClass) -> None:
        self.id = member_id
        self.shape = shape
        self.kind = kind
        self.load = self.slot = 0
        self.target: dict[UUID, Set[int]] = {}
        """Partition numbers by topic, in immutable sets.

        In the present turn, a large one may be a mutable set that only this member uses.
        """
        self.turn = -1
        """The turn in which `target` was copied. Callers may share the target once that turn is over."""


class MembersByLoad:
    """All members by load and kind. The cost of each change is independent of the group size."""

    def __init__(self) -> None:
        self._kinds: dict[int, MemberClass] = {}
        """Kinds by the position of their bit."""
        self._bits = 0
        self._at: dict[int, int] = {}
        """Set of kinds that have members with a load, by load."""
        self._loads: list[int] = []
        """Keys of `_at` in ascending order."""

    def add_kind(self, topics: frozenset[UUID], rack: str | None) -> MemberClass:
        """Return a new kind with the lowest free bit."""
        kind = MemberClass(~self._bits & (self._bits + 1), topics, rack)
        self._kinds[kind.bit.bit_length()] = kind
        self._bits |= kind.bit
        return kind

    def remove_kind(self, kind: MemberClass) -> None:
        assert not kind.having
        del self._kinds[kind.bit.bit_length()]
        self._bits ^= kind.bit

    def highest(self, kinds: int, below: float = inf) -> tuple[int, int]:
        """Return the highest load below `below` among these kinds, and the kinds with that load, or (-1, 0)."""
        for load in reversed(self._loads):
            if load < below and (here := self._at[load] & kinds):
                return load, here
        return -1, 0

    def lowest(self, kinds: int) -> tuple[int, int]:
        """Return the lowest load among these kinds, and the kinds with that load. The kinds must have members."""
        for load in self._loads:
            if here := self._at[load] & kinds:
                return load, here
        raise AssertionError("these kinds have no members")

    def each(self, kinds: int) -> Iterator[MemberClass]:
        """Yield the kinds of a set in ascending order of their bits."""
        while kinds:
            bit = kinds & -kinds
            yield self._kinds[bit.bit_length()]
            kinds ^= bit

    def put(self, member: Member, load: int) -> None:
        """Add a member that is in no list yet."""
        here = member.kind.having.get(load)
        if here is None:
            self.put_all(member.kind, load, [member])
        else:
            member.load = load
            member.slot = len(here)
            here.append(member)

    def put_all(self, kind: MemberClass, load: int, members: list[Member]) -> None:
        """Add members of one kind that are in no list yet; takes ownership of the list."""
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
        """Remove a member from its list."""
        here = member.kind.having[member.load]
        last = here.pop()
        if last is not member:
            here[member.slot] = last
            last.slot = member.slot
        if not here:
            self._unmark(member.load, member.kind)

    def take_some(self, kind: MemberClass, load: int, count: int) -> list[Member]:
        """Remove and return `count` members of one kind and load, or all if there are fewer."""
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

    def _unmark(self, load: int, kind: MemberClass) -> None:
        del kind.having[load]
        self._at[load] ^= kind.bit
        if not self._at[load]:
            del self._at[load]
            del self._loads[bisect_left(self._loads, load)]


class Singletons(dict[int, frozenset[int]]):
    """Frozensets of one number each, created on demand and shared within one update.

    If members own one partition of each of many topics, most targets consist of such sets.
    """

    def __missing__(self, number: int) -> frozenset[int]:
        made = self[number] = frozenset((number,))
        return made
