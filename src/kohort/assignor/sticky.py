"""The two sticky assignors: balance first, then as few moves as possible (KIP-54, KIP-429)."""

from collections.abc import Collection, Mapping

from kohort.assignor.api import RebalanceProtocol
from kohort.assignor.claims import ResolvedClaims, settle
from kohort.assignor.mixed import assign_mixed
from kohort.assignor.order import as_assignments, topic_sets
from kohort.assignor.uniform import assign_uniformly
from kohort.assignor.user_data import (
    NO_GENERATION,
    Claim,
    decode_claim,
    decode_generation,
    encode_claim,
    encode_generation,
)
from kohort.model import TopicPartition
from kohort.wire.messages.consumer_protocol import Assignment, Subscription


class StickyAssignor:
    """Eager: members revoke everything before they join, so user data carries their earlier partitions."""

    name = "sticky"
    protocol = RebalanceProtocol.EAGER

    def user_data(
        self, topics: Collection[str], last: Collection[TopicPartition] | None, generation: int
    ) -> bytes | None:
        """Return the last assignment and its generation, or None before the first assignment."""
        return None if last is None else encode_claim(Claim(last, generation))

    def assign(
        self,
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        instance_ids: Mapping[str, str | None] | None = None,
    ) -> Mapping[str, Assignment]:
        """See `Assignor.assign`. Stickiness is by member ID; instance IDs do not matter."""
        claims = {member_id: _last(subscription) for member_id, subscription in members.items()}
        shares, _ = _assign(partitions, members, claims)
        return as_assignments(shares)


class CooperativeStickyAssignor:
    """Cooperative: a partition that moves stays unassigned until its old owner has rejoined without it."""

    name = "cooperative-sticky"
    protocol = RebalanceProtocol.COOPERATIVE

    def user_data(
        self, topics: Collection[str], last: Collection[TopicPartition] | None, generation: int
    ) -> bytes | None:
        """Return the generation, for leaders that read only subscriptions below version 2."""
        return encode_generation(generation)

    def assign(
        self,
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        instance_ids: Mapping[str, str | None] | None = None,
    ) -> Mapping[str, Assignment]:
        """See `Assignor.assign`. Stickiness is by member ID; instance IDs do not matter."""
        claims = {member_id: _claim(subscription) for member_id, subscription in members.items()}
        shares, settled = _assign(partitions, members, claims)
        return as_assignments(_withhold(shares, claims, settled))


def _last(subscription: Subscription) -> Claim:
    """Return an eager member's earlier partitions: from its user data, or from the coordinator if that is newer.

    In a consumer group the coordinator knows each target, while the user data dates from the
    member's last heartbeat.
    """
    told = decode_claim(subscription.user_data)
    if subscription.owned_partitions and subscription.generation_id > told.generation:
        return Claim(subscription.owned_partitions, subscription.generation_id)
    return told


def _claim(subscription: Subscription) -> Claim:
    generation = subscription.generation_id
    if generation == NO_GENERATION:
        generation = decode_generation(subscription.user_data)
    return Claim(subscription.owned_partitions, generation)


def _assign(
    partitions: Mapping[str, int], members: Mapping[str, Subscription], claims: Mapping[str, Claim]
) -> tuple[dict[str, list[TopicPartition]], ResolvedClaims]:
    topics = topic_sets(members)
    settled = settle(claims, topics, partitions)
    distinct = set(topics.values())
    if len(distinct) > 1:
        return assign_mixed(partitions, topics, settled.owned), settled
    counts = {topic: partitions[topic] for wanted in distinct for topic in wanted if topic in partitions}
    return assign_uniformly(counts, settled.owned), settled


def _withhold(
    shares: Mapping[str, list[TopicPartition]], claims: Mapping[str, Claim], settled: ResolvedClaims
) -> dict[str, list[TopicPartition]]:
    """Remove partitions that another member may still process, whether or not that member's claim was accepted."""
    claimed = frozenset().union(*(claim.partitions for claim in claims.values()))
    return {
        member_id: [p for p in share if p not in claimed or settled.owner.get(p) == member_id]
        for member_id, share in shares.items()
    }
