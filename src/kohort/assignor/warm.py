"""The assignor for members with state: a partition moves only when its next owner's copy is close behind (KIP-441).

It is not found by its name: an application makes one, which asks it for its copies and tells it the plan.

    warm = WarmAssignor(copies=store.copies, planned=tell_the_others, standbys=1)
    Consumer(..., partition_assignment_strategy=[warm])

Each member tells, in its user data, which copies it has. Whoever computes gives everything to who can go on with it
now, and plans what each member is to copy meanwhile; the application carries the plan to the others and copies. When
that is done, it has the group rebalance once more (`enforce_rebalance`), until what is wanted is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from kohort.assignor.api import RebalanceProtocol
from kohort.assignor.claims import Settled, settle
from kohort.assignor.copies import Copies, decode_copies, encode_copies
from kohort.assignor.mixed import assign_mixed
from kohort.assignor.order import as_assignments, topic_sets
from kohort.assignor.uniform import assign_uniformly
from kohort.assignor.user_data import Claim
from kohort.assignor.warming import Even, Facts, Shares, warm_up
from kohort.errors import ConfigError
from kohort.model import TopicPartition
from kohort.wire.consumer_protocol import Assignment, Subscription

ACCEPTABLE_LAG = 10_000
"""Kafka Streams' default of `acceptable.recovery.lag`."""
MAX_WARMUPS = 2
"""Kafka Streams' default of `max.warmup.replicas`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What comes after a rebalance, by the members' names for themselves."""

    copies: Mapping[str, Sequence[TopicPartition]]
    """What each is to copy though it does not own it: first what is to come to it, then as a standby."""
    moving: Mapping[str, Sequence[TopicPartition]]
    """Those of them that are to come to it when they are copied; more may follow when these have moved."""

    @property
    def waiting(self) -> int:
        """How many partitions are to move yet; 0: what is wanted is reached."""
        return sum(map(len, self.moving.values()))


class WarmAssignor:
    """Even shares in the end, and on the way there nothing goes to who would have to restore it first.

    In a classic group it is cooperative. In a consumer group (`group_local_assignors`) the coordinator itself keeps a
    moving partition from its next owner until it is given up, so nothing is withheld: `protocol` is EAGER there.
    """

    name = "warm"

    def __init__(
        self,
        copies: Callable[[], Copies],
        planned: Callable[[Plan], None],
        *,
        acceptable_lag: int = ACCEPTABLE_LAG,
        standbys: int = 0,
        max_warmups: int = MAX_WARMUPS,
        protocol: RebalanceProtocol = RebalanceProtocol.COOPERATIVE,
    ) -> None:
        """`copies` says what this member has; `planned` is told what it computed for its group, and must not block.

        `acceptable_lag`, `standbys` and `max_warmups` are Kafka Streams' `acceptable.recovery.lag`,
        `num.standby.replicas` and `max.warmup.replicas`; the last one counts in the whole group, standbys left out.
        """
        if max_warmups < 1:
            raise ConfigError(f"max_warmups is {max_warmups}: with less than 1 nothing could ever move.")
        self.protocol = protocol
        self._copies = copies
        self._planned = planned
        self._acceptable_lag = acceptable_lag
        self._standbys = standbys
        self._max_warmups = max_warmups

    def user_data(
        self, topics: Collection[str], last: Collection[TopicPartition] | None, generation: int
    ) -> bytes | None:
        """The copies of this member, as they are now."""
        return encode_copies(self._copies())

    def assign(
        self,
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        instance_ids: Mapping[str, str | None] | None = None,
    ) -> Mapping[str, Assignment]:
        """See `Assignor.assign`."""
        topics = topic_sets(members)
        claims = {m: Claim(one.owned_partitions, one.generation_id) for m, one in members.items()}
        settled = settle(claims, topics, partitions)
        told = {member_id: decode_copies(one.user_data) for member_id, one in members.items()}
        facts = Facts(settled.owned, {m: one.lags for m, one in told.items()}, topics, self._acceptable_lag)
        everything = [
            TopicPartition(topic, number)
            for topic in frozenset().union(*topics.values())
            for number in range(partitions.get(topic, 0))
        ]
        made = warm_up(everything, facts, _evenly(partitions, topics), self._standbys, self._max_warmups)
        names = {member_id: one.name for member_id, one in told.items() if one.name}
        moving = {
            m: set(made.copies[m]).intersection(share).difference(made.now[m]) for m, share in made.wanted.items()
        }
        self._planned(
            Plan(
                {name: made.copies[m] for m, name in names.items()},
                {name: sorted(moving[m]) for m, name in names.items()},
            )
        )
        return as_assignments(self._given(made.now, claims, settled))

    def _given(self, now: Shares, claims: Mapping[str, Claim], settled: Settled) -> Shares:
        """Without what somebody else may still process, where the members have to see to that themselves."""
        if self.protocol is RebalanceProtocol.EAGER:
            return now
        claimed = frozenset().union(*(claim.partitions for claim in claims.values()))
        return {
            m: [one for one in share if one not in claimed or settled.owner.get(one) == m] for m, share in now.items()
        }


def _evenly(partitions: Mapping[str, int], topics: Mapping[str, frozenset[str]]) -> Even:
    distinct = set(topics.values())
    if len(distinct) > 1:
        return lambda held: assign_mixed(partitions, topics, held)
    counts = {topic: partitions[topic] for wanted in distinct for topic in wanted if topic in partitions}
    return lambda held: assign_uniformly(counts, held)
