"""Client-side assignors: choose a member that computes the group's target, and check its result (docs/decisions/005).

All of this is soft state: after a failover, members send their offers again, and a computation that
was in progress is started again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kohort.assignor.server import Target, check_targets
from kohort.coordinator.config import EVEN, Weights
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.partitions import Partitions
from kohort.coordinator.consumer.planned_group import PlannedGroup
from kohort.coordinator.consumer.planning import UpdatedMember, is_drained, member_shape
from kohort.coordinator.topic_metadata import MetadataImage
from kohort.errors import AssignorError, ErrorCode, KafkaError
from kohort.model import UUID, Millis
from kohort.wire.messages.consumer_group_heartbeat import (
    Computation,
    Computed,
    MemberToAssign,
    OfferedAssignor,
    TopicPartitions,
    TopicToAssign,
)


@dataclass(slots=True)
class ComputationRequest:
    """A request to one member to compute the target of one group epoch."""

    epoch: int
    assignor: str
    member_id: str
    until: Millis
    """Time from which the server's assignor computes the target of that epoch instead."""


class MemberComputedTargets:
    """The assignors that the members of one group offer, and the most recent computation request."""

    __slots__ = ("_asked", "_found", "_offers", "failure", "made_by", "weights")

    def __init__(self) -> None:
        self.made_by: str | None = None
        """Client-side assignor that computed the current target, or None if a server assignor did."""
        self.failure: str | None = None
        """Reason why the last target that a member computed was rejected, or None once one is accepted."""
        self.weights: Weights = EVEN
        """The operator's weights of the members when a member was last asked to compute."""
        self._offers: dict[str, tuple[OfferedAssignor, ...]] = {}
        self._asked: ComputationRequest | None = None
        self._found: tuple[tuple[int, int], str | None] | None = None
        """The number of members and the group epoch, with the assignor that the members had in common then.

        None if offers changed since.
        """

    def offered(self, member_id: str, offers: list[OfferedAssignor]) -> None:
        """Record the assignors that a member offers. They replace its earlier offer."""
        before = self._offers.pop(member_id, ())
        if offers:
            self._offers[member_id] = tuple(offers)
        if [offer.name for offer in before] != [offer.name for offer in offers]:
            self._found = None

    def knows(self, member_id: str, offers: list[OfferedAssignor]) -> bool:
        """Return whether the member's last offer is the same as `offers`."""
        return self._offers.get(member_id) == tuple(offers)

    def skip_time_of_member(self, member_id: str, by: Millis) -> None:
        """Give a member that computes a target `by` more time."""
        if self._asked is not None and self._asked.member_id == member_id:
            self._asked.until += by

    def left(self, member_id: str) -> None:
        """Drop the offer of a member that left."""
        if self._offers.pop(member_id, None) is not None:
            self._found = None

    def was_asked(self, epoch: int) -> bool:
        """Return whether a member was asked to compute the target of this epoch, from the facts known until now."""
        return self._asked is not None and self._asked.epoch == epoch

    def waits(
        self, group: PlannedGroup, epoch: int, updated: UpdatedMember | None, weights: Weights, now: Millis
    ) -> bool:
        """Return whether a member computes the target of this epoch, so that the server's assignor must not."""
        if not self._offers or self._common(group, updated, weights) is None:
            return False
        asked = self._asked
        return asked is None or asked.epoch != epoch or asked.member_id not in group.members or now < asked.until

    def awaited_until(self, group: PlannedGroup) -> Millis:
        """Return the deadline of the member that computes the current epoch's target, or 0 if none does."""
        asked = self._asked
        is_awaited = asked is not None and asked.epoch == group.epoch and asked.member_id in group.members
        return asked.until if asked is not None and is_awaited else 0

    def ask(
        self,
        group: PlannedGroup,
        image: MetadataImage,
        weights: Weights,
        member_id: str,
        now: Millis,
        *,
        again: bool,
    ) -> Computation | None:
        """Return the computation that this member is to do now, if any.

        `again` means that the member may not have received the previous response.
        """
        asked = self._asked
        if group.target_epoch >= group.epoch or not self.waits(group, group.epoch, None, weights, now):
            return None
        if asked is not None and asked.epoch == group.epoch and asked.member_id in group.members:
            if asked.member_id != member_id or not again:
                return None
            until = asked.until
        else:
            until = now + max(group.members[member_id].rebalance_timeout_ms, 0)
        assignor = self._common(group, None, weights)
        assert assignor is not None
        self._asked = ComputationRequest(group.epoch, assignor, member_id, until)
        self.weights = weights
        return self._computation(group, image, assignor)

    def take(
        self, group: PlannedGroup, image: MetadataImage, member_id: str, computed: Computed, epoch: int, now: Millis
    ) -> Mapping[str, Target]:
        """Return the targets that change according to a member's computation.

        Raises KafkaError if the computation is late or was not requested. Raises AssignorError if
        the member's assignor failed, in which case the server's assignor computes immediately, or
        if its result is invalid. The previous target stays in effect after an error.
        """
        asked = self._asked
        if asked is None or asked.member_id != member_id or group.target_epoch >= epoch:
            raise _refusal("the coordinator did not ask this member for a target")
        if not asked.epoch == computed.group_epoch == epoch:
            raise _refusal(f"it is for the group epoch {computed.group_epoch}, and the group is at {epoch}")
        if computed.error is not None:
            asked.until = now
            raise AssignorError(computed.error)
        try:
            targets = _checked(group, image, self.weights, computed)
        except AssignorError as problem:
            self.failure = f"What {member_id} computed by {asked.assignor!r} was rejected: {problem}."
            raise
        self.made_by, self.failure = asked.assignor, None
        return {name: new for name, new in targets.items() if new != group.target_of(name).by_topic}

    @property
    def asked_assignor(self) -> str:
        """Name of the assignor in the most recent computation request, or ""."""
        return "" if self._asked is None else self._asked.assignor

    def server_computed(self) -> None:
        """Record that a server assignor computed the current target."""
        self.made_by = self.failure = None

    def _common(self, group: PlannedGroup, updated: UpdatedMember | None, weights: Weights) -> str | None:
        """Return the assignor that all members offer and most members prefer."""
        if updated is not None:
            members = {
                member_id: member for member_id, member in group.members.items() if member_id != updated.replaces
            }
            return self._in_common(members | {updated.member.member_id: updated.member}, weights)
        # Cached, because every heartbeat asks for it until the target is computed.
        key = len(group.members), group.epoch
        if self._found is None or self._found[0] != key:
            self._found = key, self._in_common(group.members, weights)
        return self._found[1]

    def _in_common(self, members: Mapping[str, ConsumerMember], weights: Weights) -> str | None:
        offers = [self._offers.get(member_id) for member_id in members]
        if not offers or any(offer is None for offer in offers):
            return None
        if all(is_drained(member, weights) for member in members.values()):
            return None  # no member can get partitions; client-side assignors need not handle that case
        named = [[offered.name for offered in offer or ()] for offer in offers]
        common = set(named[0]).intersection(*named)
        votes = [next(name for name in names if name in common) for names in named] if common else []
        return max(sorted(common), key=votes.count, default=None)

    def _computation(self, group: PlannedGroup, image: MetadataImage, assignor: str) -> Computation:
        topics: dict[UUID, TopicToAssign] = {}
        members = []
        for member_id, member in sorted(group.members.items()):
            if is_drained(member, self.weights):
                continue  # as for user-defined server assignors, so that draining works with every client-side assignor
            topic_ids = sorted(group.topics.ids_of(member.subscription, image))
            for topic_id in topic_ids:
                topic = image.by_id[topic_id]
                topics[topic_id] = TopicToAssign(topic_id=topic_id, name=topic.name, partitions=topic.shape.partitions)
            [offer] = [candidate for candidate in self._offers[member_id] if candidate.name == assignor][:1]
            members.append(
                MemberToAssign(
                    member_id=member_id,
                    instance_id=member.instance_id,
                    rack_id=member.rack_id,
                    user_data=offer.user_data,
                    topic_ids=topic_ids,
                    owned=_on_the_wire(group.target_of(member_id)),
                )
            )
        return Computation(group_epoch=group.epoch, assignor=assignor, topics=list(topics.values()), members=members)


def _checked(group: PlannedGroup, image: MetadataImage, weights: Weights, computed: Computed) -> Mapping[str, Target]:
    """Return the targets of all members. Raises AssignorError if the member's result is invalid."""
    given: dict[str, dict[UUID, list[int]]] = {}
    for target in computed.targets:
        share = given.setdefault(target.member_id, {})
        for part in target.topic_partitions:
            share.setdefault(part.topic_id, []).extend(part.partitions)
    members = {
        member_id: member_shape(member, group.topics.ids_of(member.subscription, image), weights)
        for member_id, member in group.members.items()
    }
    asked = frozenset[UUID]().union(*(member.topics for member in members.values()))
    return check_targets(given, members, {topic_id: image.by_id[topic_id].shape for topic_id in asked})


def _refusal(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)


def _on_the_wire(partitions: Partitions) -> list[TopicPartitions]:
    by_topic = sorted(partitions.by_topic.items())
    return [TopicPartitions(topic_id=topic_id, partitions=sorted(numbers)) for topic_id, numbers in by_topic]
