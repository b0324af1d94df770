"""Members that compute their group's target (docs/decisions/005): who can, who is asked, and what of an answer counts.

All of it is soft: after a failover members say again what they offer, and what was on its way is computed anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kohort.assignor.server import Target, check_targets
from kohort.coordinator.config import EVEN, Weights
from kohort.coordinator.consumer.metadata import MetadataImage
from kohort.coordinator.consumer.partitions import Partitions
from kohort.coordinator.consumer.planning import is_drained, member_shape
from kohort.errors import AssignorError, ErrorCode, KafkaError
from kohort.model import UUID, Millis
from kohort.wire.consumer_group_heartbeat import (
    Computation,
    Computed,
    MemberToAssign,
    OfferedAssignor,
    TopicPartitions,
    TopicToAssign,
)

if TYPE_CHECKING:
    from kohort.coordinator.consumer.group import ConsumerGroup
    from kohort.coordinator.consumer.member import ConsumerMember
    from kohort.coordinator.consumer.planning import Coming


@dataclass(slots=True)
class Asked:
    """One member was asked for the target of one group epoch."""

    epoch: int
    assignor: str
    member_id: str
    until: Millis
    """From then on the server's assignor computes for that epoch."""


class Computing:
    """Of one group: what its members offer, and who was asked last."""

    __slots__ = ("_asked", "_found", "_offers", "failure", "made_by", "weights")

    def __init__(self) -> None:
        self.made_by: str | None = None
        """The members' assignor by which the present target was computed; None where the server's was."""
        self.failure: str | None = None
        """Why the last target that a member computed does not count; None once there is one that does."""
        self.weights: Weights = EVEN
        """The operator's weights of the members, as a member was last asked to compute with them."""
        self._offers: dict[str, tuple[OfferedAssignor, ...]] = {}
        self._asked: Asked | None = None
        self._found: tuple[tuple[int, int], str | None] | None = None
        """What the members had in common, and of how many members at which epoch; None where offers changed since."""

    def offered(self, member_id: str, offers: list[OfferedAssignor]) -> None:
        """A member says by what it can compute: all that it says of this counts until it says it again."""
        before = self._offers.pop(member_id, ())
        if offers:
            self._offers[member_id] = tuple(offers)
        if [one.name for one in before] != [one.name for one in offers]:
            self._found = None

    def knows(self, member_id: str, offers: list[OfferedAssignor]) -> bool:
        """Whether the member said just that before."""
        return self._offers.get(member_id) == tuple(offers)

    def left(self, member_id: str) -> None:
        """A member is gone, and its offer with it."""
        if self._offers.pop(member_id, None) is not None:
            self._found = None

    def was_asked(self, epoch: int) -> bool:
        """Whether somebody has what members told until now, and is to compute the target of that epoch from it."""
        return self._asked is not None and self._asked.epoch == epoch

    def waits(self, group: ConsumerGroup, epoch: int, coming: Coming | None, weights: Weights, now: Millis) -> bool:
        """Whether the target of that epoch is for a member to compute, so that the server's assignor keeps off."""
        if not self._offers or self._common(group, coming, weights) is None:
            return False
        asked = self._asked
        return asked is None or asked.epoch != epoch or asked.member_id not in group.members or now < asked.until

    def awaited_until(self, group: ConsumerGroup) -> Millis:
        """Until when a member has time that was asked for the present epoch's target; 0 where none was."""
        asked = self._asked
        is_awaited = asked is not None and asked.epoch == group.epoch and asked.member_id in group.members
        return asked.until if asked is not None and is_awaited else 0

    def ask(
        self,
        group: ConsumerGroup,
        image: MetadataImage,
        weights: Weights,
        member_id: str,
        now: Millis,
        *,
        again: bool,
    ) -> Computation | None:
        """What this member is to compute now, if anything. `again`: it may not have got what it was told before."""
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
        self._asked = Asked(group.epoch, assignor, member_id, until)
        self.weights = weights
        return self._computation(group, image, assignor)

    def take(
        self, group: ConsumerGroup, image: MetadataImage, member_id: str, computed: Computed, epoch: int, now: Millis
    ) -> Mapping[str, Target]:
        """The targets that change by what a member computed.

        Raises KafkaError where it is late, or nobody asked for it. Raises AssignorError where its assignor failed, and
        then the server's assignor computes at once, or gave what cannot be. The last target counts on.
        """
        asked = self._asked
        if asked is None or asked.member_id != member_id or group.target_epoch >= epoch:
            raise _refusal("nobody asked this member for a target")
        if not asked.epoch == computed.group_epoch == epoch:
            raise _refusal(f"it is for the group epoch {computed.group_epoch}, and the group is at {epoch}")
        if computed.error is not None:
            asked.until = now
            raise AssignorError(computed.error)
        try:
            targets = _checked(group, image, self.weights, computed)
        except AssignorError as problem:
            self.failure = f"What {member_id} computed by {asked.assignor!r} is not followed: {problem}."
            raise
        self.made_by, self.failure = asked.assignor, None
        return {name: new for name, new in targets.items() if new != group.target_of(name).by_topic}

    @property
    def asked_assignor(self) -> str:
        """By which assignor a member was last asked to compute."""
        return "" if self._asked is None else self._asked.assignor

    def server_computed(self) -> None:
        """The present target is the server assignor's."""
        self.made_by = self.failure = None

    def _common(self, group: ConsumerGroup, coming: Coming | None, weights: Weights) -> str | None:
        """The assignor that all members offer, and that most prefer."""
        if coming is not None:
            members = {one: member for one, member in group.members.items() if one != coming.replaces}
            return self._in_common(members | {coming.member.member_id: coming.member}, weights)
        # Kept, as every heartbeat asks while the target is not there.
        key = len(group.members), group.epoch
        if self._found is None or self._found[0] != key:
            self._found = key, self._in_common(group.members, weights)
        return self._found[1]

    def _in_common(self, members: Mapping[str, ConsumerMember], weights: Weights) -> str | None:
        offers = [self._offers.get(member_id) for member_id in members]
        if not offers or any(offer is None for offer in offers):
            return None
        if all(is_drained(member, weights) for member in members.values()):
            return None  # there is nobody to give anything to, which assignors of members need not expect
        named = [[one.name for one in offer or ()] for offer in offers]
        common = set(named[0]).intersection(*named)
        votes = [next(name for name in names if name in common) for names in named] if common else []
        return max(sorted(common), key=votes.count, default=None)

    def _computation(self, group: ConsumerGroup, image: MetadataImage, assignor: str) -> Computation:
        topics: dict[UUID, TopicToAssign] = {}
        members = []
        for member_id, member in sorted(group.members.items()):
            if is_drained(member, self.weights):
                continue  # as for a user's server assignor, so that each assignor of a member drains
            topic_ids = sorted(group.topics.ids_of(member.subscription, image))
            for topic_id in topic_ids:
                topic = image.by_id[topic_id]
                topics[topic_id] = TopicToAssign(topic_id=topic_id, name=topic.name, partitions=topic.shape.partitions)
            [offer] = [one for one in self._offers[member_id] if one.name == assignor][:1]
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


def _checked(group: ConsumerGroup, image: MetadataImage, weights: Weights, computed: Computed) -> Mapping[str, Target]:
    """The targets of all members. Raises AssignorError with what is wrong with what a member made."""
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
