"""The two sticky assignors: balanced first, then as few moves as that allows (KIP-54, KIP-429)."""

from collections.abc import Collection, Mapping

from kohort.assignor.api import RebalanceProtocol
from kohort.assignor.claims import Settled, settle
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
from kohort.wire.consumer_protocol import Assignment, Subscription


class StickyAssignor:
    """Eager: members give up everything before they join, so what they had travels in the user data."""

    name = "sticky"
    protocol = RebalanceProtocol.EAGER

    def user_data(
        self, topics: Collection[str], last: Collection[TopicPartition] | None, generation: int
    ) -> bytes | None:
        """The last assignment and its generation; nothing before the first."""
        return None if last is None else encode_claim(Claim(last, generation))

    def assign(
        self,
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        instance_ids: Mapping[str, str | None] | None = None,
    ) -> Mapping[str, Assignment]:
        """See `Assignor.assign`. Stickiness is by member id: instance ids do not matter."""
        claims = {member_id: decode_claim(subscription.user_data) for member_id, subscription in members.items()}
        shares, _ = _assign(partitions, members, claims)
        return as_assignments(shares)


class CooperativeStickyAssignor:
    """Cooperative: a partition that changes hands is given to nobody until its old owner has joined without it."""

    name = "cooperative-sticky"
    protocol = RebalanceProtocol.COOPERATIVE

    def user_data(
        self, topics: Collection[str], last: Collection[TopicPartition] | None, generation: int
    ) -> bytes | None:
        """The generation, for leaders that read subscriptions below version 2."""
        return encode_generation(generation)

    def assign(
        self,
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        instance_ids: Mapping[str, str | None] | None = None,
    ) -> Mapping[str, Assignment]:
        """See `Assignor.assign`. Stickiness is by member id: instance ids do not matter."""
        claims = {member_id: _claim(subscription) for member_id, subscription in members.items()}
        shares, settled = _assign(partitions, members, claims)
        return as_assignments(_withhold(shares, claims, settled))


def _claim(subscription: Subscription) -> Claim:
    generation = subscription.generation_id
    if generation == NO_GENERATION:
        generation = decode_generation(subscription.user_data)
    return Claim(subscription.owned_partitions, generation)


def _assign(
    partitions: Mapping[str, int], members: Mapping[str, Subscription], claims: Mapping[str, Claim]
) -> tuple[dict[str, list[TopicPartition]], Settled]:
    topics = topic_sets(members)
    settled = settle(claims, topics, partitions)
    distinct = set(topics.values())
    if len(distinct) > 1:
        return assign_mixed(partitions, topics, settled.owned), settled
    counts = {topic: partitions[topic] for wanted in distinct for topic in wanted if topic in partitions}
    return assign_uniformly(counts, settled.owned), settled


def _withhold(
    shares: Mapping[str, list[TopicPartition]], claims: Mapping[str, Claim], settled: Settled
) -> dict[str, list[TopicPartition]]:
    """Take from each share what someone else may still be processing, whether or not that claim counted."""
    claimed = frozenset().union(*(claim.partitions for claim in claims.values()))
    return {
        member_id: [p for p in share if p not in claimed or settled.owner.get(p) == member_id]
        for member_id, share in shares.items()
    }
