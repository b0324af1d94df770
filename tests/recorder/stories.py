"""A cooperative and an eager group's life, told to a journal as the coordinator and the fetches would tell it."""

from __future__ import annotations

from dataclasses import dataclass, field

from kohort.assignor import ASSIGNORS, RebalanceProtocol
from kohort.group_events import (
    AssignmentMade,
    Cause,
    MemberFacts,
    MemberGone,
    MemberRejoined,
    RebalanceStarted,
)
from kohort.model import Millis, TopicPartition
from kohort.recorder import Journal, RebalanceRecord
from kohort.wire.messages.consumer_protocol import Subscription

HOST = "127.0.0.1"


@dataclass
class Story:
    """A group whose steps each take a few milliseconds; `records` is what the journal wrote."""

    assignor: str = "cooperative-sticky"
    partitions: int = 6
    now: Millis = 1_700_000_000_000
    generation: int = 0
    owned: dict[str, frozenset[TopicPartition]] = field(default_factory=dict)
    records: list[RebalanceRecord] = field(default_factory=list)
    journal: Journal = field(default_factory=Journal)

    def joins(self, name: str) -> None:
        self.owned[name] = frozenset()
        first = len(self.owned) == 1
        self._rebalance(Cause.FIRST_MEMBER if first else Cause.MEMBER_JOINED, name)

    def leaves(self, name: str, cause: Cause = Cause.MEMBER_LEFT, reason: str | None = None) -> None:
        del self.owned[name]
        self._tell(MemberGone("delays", facts(name), cause, reason))
        self._rebalance(cause, name, reason)

    def _rebalance(self, cause: Cause, by: str, reason: str | None = None) -> None:
        eager = ASSIGNORS[self.assignor].protocol is RebalanceProtocol.EAGER
        self._tell(RebalanceStarted("delays", self.generation, cause, facts(by).member_id, reason, self.assignor))
        for name in sorted(self.owned, key=lambda name: name != by):
            self.now += 10
            self._tell(MemberRejoined("delays", facts(name), None if eager else self.owned[name]))
        self.now += 1
        before = self.owned
        self.owned = self._assignment()
        self.generation += 1
        self._tell(self._made())
        losers = [name for name in self.owned if before[name] - self.owned[name]]
        self.now += 20
        if losers and not eager:
            self._rebalance(Cause.OWNED_CHANGED, losers[0])
        else:
            self._read()

    def _assignment(self) -> dict[str, frozenset[TopicPartition]]:
        members = {
            name: Subscription(["flights"], owned_partitions=sorted(owned), generation_id=self.generation)
            for name, owned in self.owned.items()
        }
        made = ASSIGNORS[self.assignor].assign({"flights": self.partitions}, members)
        return {name: frozenset(assignment.partitions) for name, assignment in made.items()}

    def _made(self) -> AssignmentMade:
        members = tuple(facts(name) for name in self.owned)
        shares = {facts(name).member_id: share for name, share in self.owned.items()}
        leader = members[0].member_id if members else ""
        return AssignmentMade("delays", self.generation, self.assignor, leader, members, shares)

    def _tell(self, event: AssignmentMade | MemberGone | MemberRejoined | RebalanceStarted) -> None:
        self.records += self.journal.observe(event, self.now)

    def _read(self) -> None:
        for name, owned in self.owned.items():
            for topic, number in sorted(owned):
                self.now += 5
                self.records += self.journal.fetched(name, HOST, topic, number, self.now)


def facts(name: str) -> MemberFacts:
    """Member ids as the coordinator makes them: the client id and something random."""
    return MemberFacts(f"{name}-00000000-0000-4000-8000-{sum(name.encode()):012x}", name, HOST)


def a_day(assignor: str = "cooperative-sticky") -> list[RebalanceRecord]:
    """Two members, a third that joins, one that crashes."""
    story = Story(assignor)
    story.joins("a")
    story.now += 1000
    story.joins("b")
    story.now += 1000
    story.joins("c")
    story.now += 5000
    story.leaves("a", Cause.SESSION_EXPIRED)
    return story.records
