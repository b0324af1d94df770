"""Assignor for stateful members: a partition moves only when its next owner's copy has little lag (KIP-441).

It has no entry in the registry. An application creates an instance with two callbacks: one returns
the member's copies, the other receives the plan.

    warm = WarmAssignor(copies=store.copies, planned=tell_the_others, standbys=1)
    Consumer(..., partition_assignment_strategy=[warm])

Each member lists its copies in its user data. The member that computes the assignment gives each
partition to a member that can process it now, and plans the copies that each member makes
meanwhile. The application sends the plan to the other members and makes the copies. Then it
triggers another rebalance (`enforce_rebalance`), until the wanted assignment is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from kohort.assignor.api import RebalanceProtocol
from kohort.assignor.claims import ResolvedClaims, settle
from kohort.assignor.copies import Copies, decode_copies, encode_copies
from kohort.assignor.mixed import assign_mixed
from kohort.assignor.order import as_assignments, topic_sets
from kohort.assignor.uniform import assign_uniformly
from kohort.assignor.user_data import Claim
from kohort.assignor.warming import Even, RebalanceInput, Shares, warm_up
from kohort.errors import ConfigError
from kohort.model import TopicPartition
from kohort.wire.messages.consumer_protocol import Assignment, Subscription

ACCEPTABLE_LAG = 10_000
"""Kafka Streams' default of `acceptable.recovery.lag`."""
MAX_WARMUPS = 2
"""Kafka Streams' default of `max.warmup.replicas`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Work to do after a rebalance. The keys are the members' own names (`Copies.name`)."""

    copies: Mapping[str, Sequence[TopicPartition]]
    """Partitions that each member copies without owning them: first those that will move to it, then standbys."""
    moving: Mapping[str, Sequence[TopicPartition]]
    """The partitions in `copies` that will move to the member once copied. More may follow after these moves."""

    @property
    def waiting(self) -> int:
        """Number of partitions that still have to move; 0 means that the wanted assignment is reached."""
        return sum(map(len, self.moving.values()))


class WarmAssignor:
    """Moves toward an even assignment without giving a partition to a member that must first restore its state.

    In a classic group the assignor is cooperative. In a consumer group (`group_local_assignors`)
    the coordinator itself withholds a moving partition from its next owner until the old owner has
    revoked it, so the assignor withholds nothing: `protocol` is EAGER there.
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
        """Create an assignor.

        `copies` returns this member's copies. `planned` receives the plan that this member computed
        for its group, and must not block. `acceptable_lag`, `standbys` and `max_warmups` are Kafka
        Streams' `acceptable.recovery.lag`, `num.standby.replicas` and `max.warmup.replicas`.
        `max_warmups` is a limit for the whole group and does not include standbys.
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
        """Return this member's current copies."""
        return encode_copies(self._copies())

    def assign(
        self,
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        instance_ids: Mapping[str, str | None] | None = None,
    ) -> Mapping[str, Assignment]:
        """See `Assignor.assign`."""
        topics = topic_sets(members)
        claims = {m: Claim(entry.owned_partitions, entry.generation_id) for m, entry in members.items()}
        settled = settle(claims, topics, partitions)
        told = {member_id: decode_copies(entry.user_data) for member_id, entry in members.items()}
        facts = RebalanceInput(
            settled.owned, {m: entry.lags for m, entry in told.items()}, topics, self._acceptable_lag
        )
        everything = [
            TopicPartition(topic, number)
            for topic in frozenset().union(*topics.values())
            for number in range(partitions.get(topic, 0))
        ]
        made = warm_up(everything, facts, _evenly(partitions, topics), self._standbys, self._max_warmups)
        names = {member_id: entry.name for member_id, entry in told.items() if entry.name}
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

    def _given(self, now: Shares, claims: Mapping[str, Claim], settled: ResolvedClaims) -> Shares:
        """Withhold partitions that another member may still process, unless the coordinator does that (EAGER)."""
        if self.protocol is RebalanceProtocol.EAGER:
            return now
        claimed = frozenset().union(*(claim.partitions for claim in claims.values()))
        return {
            m: [partition for partition in share if partition not in claimed or settled.owner.get(partition) == m]
            for m, share in now.items()
        }


def _evenly(partitions: Mapping[str, int], topics: Mapping[str, frozenset[str]]) -> Even:
    distinct = set(topics.values())
    if len(distinct) > 1:
        return lambda held: assign_mixed(partitions, topics, held)
    counts = {topic: partitions[topic] for wanted in distinct for topic in wanted if topic in partitions}
    return lambda held: assign_uniformly(counts, held)
