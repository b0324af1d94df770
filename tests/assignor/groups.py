"""Groups as the tests of the assignors write them down, and Hypothesis strategies that make them up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st

from kohort.assignor import Assignor
from kohort.assignor.user_data import NO_GENERATION
from kohort.model import TopicPartition
from kohort.wire.messages.consumer_protocol import Subscription

steady = settings(deadline=None, derandomize=True, database=None)
"""A loaded machine fails no test, and every run tries the same."""


def parts(text: str) -> list[TopicPartition]:
    """`a-0 b-1` as partitions."""
    return [TopicPartition(topic, int(number)) for topic, _, number in (word.rpartition("-") for word in text.split())]


def shares(assignor: Assignor, partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> dict[str, str]:
    """Return the assignment in the notation that `parts` reads."""
    made = assignor.assign(partitions, members)
    return {member_id: " ".join(map(str, assignment.partitions)) for member_id, assignment in made.items()}


@dataclass
class Group:
    """Members that do what the protocol of their assignor asks of them, one generation after another."""

    assignor: Assignor
    partitions: dict[str, int]
    topics: dict[str, list[str]]
    owned: dict[str, list[TopicPartition]] = field(default_factory=dict)
    since: dict[str, int] = field(default_factory=dict)
    generation: int = 0
    racks: dict[str, str] = field(default_factory=dict)

    def subscriptions(self) -> dict[str, Subscription]:
        """Return what each member sends in JoinGroup now, with the user data of both assignors at once."""
        made = {}
        for member_id, topics in self.topics.items():
            owned, since = self.owned.get(member_id), self.since.get(member_id, NO_GENERATION)
            made[member_id] = Subscription(
                topics=topics,
                user_data=self.assignor.user_data(topics, owned, since),
                owned_partitions=[p for p in owned or [] if p.topic in topics],
                generation_id=since,
                rack_id=self.racks.get(member_id),
            )
        return made

    def rebalance(self) -> dict[str, list[TopicPartition]]:
        """One generation; everybody takes what it is given."""
        given = self.assignor.assign(self.partitions, self.subscriptions())
        self.generation += 1
        self.owned = {member_id: list(assignment.partitions) for member_id, assignment in given.items()}
        self.since = dict.fromkeys(given, self.generation)
        return self.owned

    def settle(self) -> int:
        """Rebalance until nothing changes; return after how many generations that was."""
        for rounds in range(10):
            before = {member_id: set(share) for member_id, share in self.owned.items()}
            if {member_id: set(share) for member_id, share in self.rebalance().items()} == before:
                return rounds
        raise AssertionError(f"still moving partitions after 10 generations: {self.owned}")


def sizes(owned: Mapping[str, Sequence[TopicPartition]]) -> list[int]:
    """How many each has, the fewest first."""
    return sorted(map(len, owned.values()))


TOPICS = ("t0", "t1", "t2", "t3")

counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 12), min_size=1)

member_ids = st.lists(st.text("abcdefgh", min_size=1, max_size=3), min_size=1, max_size=9, unique=True)


@st.composite
def alike(draw: st.DrawFn, assignor: Assignor) -> Group:
    """A group in which all ask for the same topics."""
    partitions = draw(counts)
    topics = sorted(draw(st.sets(st.sampled_from(TOPICS), min_size=1)))
    return Group(assignor, partitions, dict.fromkeys(draw(member_ids), topics))


@st.composite
def mixed(draw: st.DrawFn, assignor: Assignor) -> Group:
    """A group in which each asks for what it likes, some for nothing."""
    wanted = st.lists(st.sampled_from(TOPICS), unique=True).map(sorted)
    return Group(assignor, draw(counts), {member_id: draw(wanted) for member_id in draw(member_ids)})


@st.composite
def quarrelling(draw: st.DrawFn, assignor: Assignor) -> Group:
    """A mixed group whose members claim what they like, from whatever generation."""
    group = draw(mixed(assignor))
    claimable = [TopicPartition(topic, number) for topic in TOPICS for number in range(13)]
    for member_id in group.topics:
        group.owned[member_id] = draw(st.lists(st.sampled_from(claimable), max_size=12))
        group.since[member_id] = draw(st.sampled_from([NO_GENERATION, 4, 5, 5]))
    return group
