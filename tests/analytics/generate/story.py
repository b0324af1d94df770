"""What happens in one made-up group: who comes and goes, why, and who has which partition when.

The story is made by the real assignors and told twice: as records of `__consumer_offsets`, and as the truth that the
tables are compared with. Neither is read from the other.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kohort.assignor.registry import find_assignor
from kohort.assignor.server.api import MemberShape, TopicShape
from kohort.assignor.server.registry import find_server_assignor
from kohort.model import UUID, Millis, TopicPartition
from kohort.wire.messages.consumer_protocol import Subscription

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


class Habit(StrEnum):
    """How a group lives."""

    STEADY = "steady"
    """A crash now and then."""
    DEPLOYED = "deployed"
    """All members are restarted one after the other, every day or two."""
    FLAPPING = "flapping"
    """One member comes and goes every few minutes, for an hour a day."""
    THRASHING = "thrashing"
    """Members are thrown out for polling too late and join again, over and over."""
    BEHIND = "behind"
    """It lives well, and falls further and further behind."""


class Protocol(StrEnum):
    """How a group rebalances."""

    EAGER = "range"
    COOPERATIVE = "cooperative-sticky"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class Person:
    """A member as its operator knows it; each of its lives has another member id."""

    client_id: str
    host: str


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that went from one member to another, at the time of the record that says so."""

    partition: int
    at: Millis
    from_member: str
    to_member: str


@dataclass(frozen=True, slots=True)
class Span:
    """A member that processes, and so commits, a partition."""

    begin: Millis
    end: Millis
    owner: str


@dataclass(slots=True)
class Generation:
    """The log's view after one rebalance (classic), or one step of a rebalance (consumer)."""

    at: Millis
    epoch: int
    members: dict[str, Person]
    assignment: dict[str, tuple[int, ...]]
    came: tuple[str, ...] = ()
    went: tuple[str, ...] = ()
    cause: str = ""
    """The truth for the table `rebalances`; empty for a step that is none."""


@dataclass(slots=True)
class Story:
    """One group from `begin` to `end`."""

    group_id: str
    topic: str
    topic_id: UUID
    partitions: int
    protocol: Protocol
    habit: Habit
    begin: Millis
    end: Millis
    rate: float
    """Records per second that each partition gets."""
    behind_ms: float
    """How far behind it is at the begin."""
    slower: float
    """How much of its time it falls behind."""
    generations: list[Generation] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    spans: list[list[Span]] = field(default_factory=list)
    flapping: frozenset[str] = frozenset()
    """Client ids of members that flap."""
    bursts: int = 0
    """How many times it thrashes."""

    def end_offset(self, at: Millis) -> int:
        """Where every partition of its topic ends at a time."""
        return max(0, int(self.rate * (at - self.begin) / SECOND))

    def committed(self, at: Millis) -> int:
        """Return the offset that a commit at that time contains."""
        return self.end_offset(int(at - self.behind_ms - self.slower * (at - self.begin)))


@dataclass(frozen=True, slots=True)
class _Event:
    at: Millis
    went: tuple[int, ...]
    came: tuple[int, ...]


def tell(story: Story, people: int, dice: random.Random) -> Story:
    """Fill in what happens: generations, moves and who commits when."""
    host = [Person(f"{story.group_id}-worker-{n}", f"/10.0.{dice.randrange(250)}.{n + 1}") for n in range(people)]
    group = _Consumer(story) if story.protocol is Protocol.CONSUMER else _Classic(story)
    for event in _events(story, people, dice):
        group.change(event, host, dice)
    group.finish()
    return story


def _events(story: Story, people: int, dice: random.Random) -> Iterator[_Event]:
    yield _Event(story.begin + dice.randrange(MINUTE), (), tuple(range(people)))
    at = story.begin + dice.randrange(HOUR, 3 * HOUR)
    while at < story.end - 2 * HOUR:
        match story.habit:
            case Habit.DEPLOYED:
                for n in range(people):
                    yield _Event(at, (n,), ())
                    yield _Event(at + 20 * SECOND, (), (n,))
                    at += MINUTE
                at += dice.randrange(DAY, 2 * DAY)
            case Habit.FLAPPING:
                story.flapping = frozenset({f"{story.group_id}-worker-0"})
                for _ in range(8):
                    yield _Event(at, (0,), ())
                    yield _Event(at + 90 * SECOND, (), (0,))
                    at += dice.randrange(6 * MINUTE, 7 * MINUTE)
                at += dice.randrange(DAY - HOUR, DAY + HOUR)
            case Habit.THRASHING:
                story.bursts += 1
                for n in range(20):
                    yield _Event(at, (n % people,), (n % people,))
                    at += dice.randrange(40 * SECOND, 70 * SECOND)
                at += dice.randrange(DAY // 2, DAY)
            case Habit.STEADY | Habit.BEHIND:
                n = dice.randrange(people)
                yield _Event(at, (n,), ())
                yield _Event(at + dice.randrange(12 * MINUTE, 40 * MINUTE), (), (n,))
                at += dice.randrange(2 * DAY, 4 * DAY)


class _Group(ABC):
    """State that both protocols share: the members, and the owner of each partition with its start time."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.members: dict[str, Person] = {}
        self.owned: dict[str, tuple[int, ...]] = {}
        self.owner: dict[int, tuple[str, Millis]] = {}
        self.before: dict[int, str] = {}
        self.epoch = 0
        self.lives = 0
        story.spans = [[] for _ in range(story.partitions)]

    @abstractmethod
    def change(self, event: _Event, people: list[Person], dice: random.Random) -> None:
        """One rebalance, whatever it takes."""

    def finish(self) -> None:
        """End the story: each owner commits its partitions to the end."""
        for partition in tuple(self.owner):
            self.stop(partition, self.story.end)

    def swap(self, event: _Event, people: list[Person]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Let members come and go; their ids."""
        gone_people = {people[n] for n in event.went}
        went = tuple(member for member, person in self.members.items() if person in gone_people)
        for member in went:
            del self.members[member]
            self.owned.pop(member, None)
        came = []
        for n in event.came:
            self.lives += 1
            member = f"{people[n].client_id}-{UUID(int=self.lives << 64 | hash_of(self.story.group_id))}"
            self.members[member] = people[n]
            came.append(member)
        return tuple(came), went

    def stop(self, partition: int, at: Millis) -> None:
        """Nobody commits this partition from here on."""
        owner, since = self.owner.pop(partition, ("", at))
        if since < at:
            self.story.spans[partition].append(Span(since, at, owner))

    def start(self, partition: int, owner: str, at: Millis, pause_ms: int) -> None:
        """The owner is told at `at` and commits from a pause later on."""
        before = self.before.get(partition)
        if before is not None and before != owner:
            self.story.moves.append(Move(partition, at, before, owner))
        self.before[partition] = owner
        self.owner[partition] = owner, at + pause_ms


class _Classic(_Group):
    """Eager or cooperative, by the assignor that members really use."""

    def change(self, event: _Event, people: list[Person], dice: random.Random) -> None:
        came, went = self.swap(event, people)
        empty = self.epoch == 0
        at = event.at + dice.randrange(800, 3_200)
        pause = dice.randrange(500, 20_000)
        cause = _cause(len(came), len(went), empty)
        gone = {partition for partition, (owner, _) in self.owner.items() if owner in went}
        eager = self.story.protocol is Protocol.EAGER
        for partition in tuple(self.owner) if eager else gone:
            self.stop(partition, event.at)
        left = self._assign(at, came, went, cause, pause)
        if left:
            self._assign(at + dice.randrange(1_000, 3_000), (), (), "cooperative follow-up", pause)

    def _assign(self, at: Millis, came: tuple[str, ...], went: tuple[str, ...], cause: str, pause: int) -> bool:
        """One generation; whether partitions are left over, which a cooperative assignor keeps for the next."""
        topic = self.story.topic
        asked = {
            member: Subscription(
                topics=[topic],
                owned_partitions=[TopicPartition(topic, n) for n in self.owned.get(member, ())],
                generation_id=self.epoch,
            )
            for member in sorted(self.members)
        }
        made = find_assignor(self.story.protocol.value).assign({topic: self.story.partitions}, asked)
        assignment = {m: tuple(sorted(tp.partition for tp in made[m].partitions)) for m in asked}
        self.epoch += 1
        self.story.generations.append(Generation(at, self.epoch, dict(self.members), assignment, came, went, cause))
        for partition, (owner, _) in tuple(self.owner.items()):
            if partition not in assignment.get(owner, ()):
                self.stop(partition, at)
        for member, partitions in assignment.items():
            for partition in partitions:
                if partition not in self.owner:
                    self.start(partition, member, at, pause)
        self.owned = dict(assignment)
        return sum(map(len, assignment.values())) < self.story.partitions and bool(self.members)


class _Consumer(_Group):
    """KIP-848: the coordinator computes, members give up and take one by one."""

    def __init__(self, story: Story) -> None:
        super().__init__(story)
        self.plan = find_server_assignor("uniform").plan()
        self.plan.set_topic(story.topic_id, TopicShape(story.partitions))
        self.target: dict[str, tuple[int, ...]] = {}

    def change(self, event: _Event, people: list[Person], dice: random.Random) -> None:
        at = event.at
        came, went = self.swap(event, people)
        # A member that is thrown out and joins again does so in two steps, each an epoch of its own.
        steps = [(came, went)] if not (came and went) else [((), went), (came, ())]
        steps = [((newcomer,), ()) for newcomer in came] if self.epoch == 0 else steps
        for joined, left in steps:
            self._step(at, joined, left)
            at += 5 * SECOND
        for member, partitions in sorted(self.target.items()):
            self._take(at, member, partitions, dice)
            at += dice.randrange(200, 900)

    def _step(self, at: Millis, came: tuple[str, ...], went: tuple[str, ...]) -> None:
        for member in went:
            self.plan.remove_member(member)
            self.target.pop(member, None)
        for member in came:
            self.plan.set_member(member, MemberShape(frozenset({self.story.topic_id})))
            self.target[member] = self.owned[member] = ()
        for member, target in self.plan.update().items():
            self.target[member] = tuple(sorted(target.get(self.story.topic_id, ())))
        for partition, (owner, _) in tuple(self.owner.items()):
            if owner in went:
                self.stop(partition, at)
        first = self.epoch == 0
        self.epoch += 1
        self._say(at, dict.fromkeys(came, ()), came, went, _cause(len(came), len(went), first))
        # A member releases its partitions at once; free partitions are taken when `change` reaches them.
        for member, partitions in sorted(self.owned.items()):
            keep = tuple(n for n in partitions if n in self.target[member])
            if keep != partitions:
                for n in set(partitions) - set(keep):
                    self.stop(n, at + 100)
                self.owned[member] = keep
                self._say(at + 100, {member: keep})

    def _take(self, at: Millis, member: str, partitions: tuple[int, ...], dice: random.Random) -> None:
        if self.owned.get(member) == partitions:
            return
        for n in set(partitions) - set(self.owned.get(member, ())):
            self.start(n, member, at, dice.randrange(100, 2_000))
        self.owned[member] = partitions
        self._say(at, {member: partitions})

    def _say(
        self,
        at: Millis,
        assignment: Mapping[str, tuple[int, ...]],
        came: tuple[str, ...] = (),
        went: tuple[str, ...] = (),
        cause: str = "",
    ) -> None:
        said = Generation(at, self.epoch, dict(self.members), dict(assignment), came, went, cause)
        self.story.generations.append(said)


def _cause(came: int, went: int, first: bool) -> str:
    if first:
        return "first member"
    if came and went:
        return "member came back under a new id"
    return "member joined" if came else "member left or expired"


def hash_of(text: str) -> int:
    """A number of 32 bits that is the same in every process."""
    value = 0
    for char in text:
        value = (value * 31 + ord(char)) & 0xFFFFFFFF
    return value
