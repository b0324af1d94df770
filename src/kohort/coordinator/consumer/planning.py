"""The target assignment of a group, kept up to date by a server assignor's plan.

Soft state: a plan is made anew after a failover, from the targets that the log has. It is told what changed since the
last update, so that a member that comes or goes costs as much in a large group as in a small one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kohort.assignor.server import Load, MemberShape, Plan, ServerAssignor, Target, WeighsLoad
from kohort.coordinator.config import EVEN, Weights
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.metadata import MetadataImage, Topic
from kohort.model import UUID, Millis

if TYPE_CHECKING:
    from kohort.coordinator.consumer.group import ConsumerGroup


@dataclass(frozen=True, slots=True)
class Coming:
    """A member as it will be once the records of this request are replayed."""

    member: ConsumerMember
    topics: frozenset[str]
    """The names that its subscription will come to."""
    replaces: str | None = None
    """The id that this static member had before."""


class Planning:
    """One group's plan, and what it has not been told yet."""

    __slots__ = (
        "_assignor",
        "_failure",
        "_members",
        "_plan",
        "_told",
        "_topics",
        "_weights",
        "crowd_since",
        "failed_at",
    )

    def __init__(self) -> None:
        self._members: dict[str, None] = {}
        """Who came, went, or asks for something else since the last update, the first first."""
        self._topics: set[str] = set()
        """Names that changed, or that are asked for only now, or no longer."""
        self._plan: Plan | None = None
        self._assignor = ""
        self._told: dict[str, Topic] = {}
        """The topics that the plan knows."""
        self._weights = EVEN
        self.crowd_since: Millis = 0
        """When the first of the targets was computed that followed each other within the interval (KIP-1263)."""
        self.failed_at: Millis = 0
        """When a user's assignor failed the last time."""
        self._failure: str | None = None
        """What it said then, until it succeeds."""

    def member_changed(self, member_id: str) -> None:
        """A member came, or asks for something else."""
        self._members[member_id] = None

    def member_removed(self, member_id: str) -> None:
        """A member went, and its target with it: one that is back under its id by the next update is new."""
        self._members.pop(member_id, None)
        self._members[member_id] = None
        if self._plan is not None:
            self._plan.remove_member(member_id)

    def members_changed(self, member_ids: Collection[str]) -> None:
        """What these members ask for comes to other topics than before."""
        self._members.update(dict.fromkeys(member_ids))

    def topics_changed(self, names: Collection[str]) -> None:
        """There is something else under these names, or they are asked for only now, or no longer."""
        self._topics.update(names)

    def rename(self, old: ConsumerMember, new: str, topic_ids: frozenset[UUID]) -> None:
        """A static member, which asks for these topics, comes back under another id, and keeps its target."""
        if self._plan is None:
            return
        if old.member_id in self._members:  # the plan may not know it yet
            self._plan.set_member(old.member_id, self._shape(old, topic_ids))
        self._plan.remove_member(new)  # a member that had this id before makes way
        self._plan.rename_member(old.member_id, new)

    def begin_anew(self) -> None:
        """The targets are no longer what the plan made them: the next update goes on from what the log says."""
        self._plan = None

    @property
    def is_known(self) -> bool:
        """Whether there is a plan: not after a failover, and not where members compute."""
        return self._plan is not None

    def is_of_another(self, assignor: str) -> bool:
        """Whether the plan is another assignor's than that one's."""
        return self._plan is not None and self._assignor != assignor

    def weighs_as(self, weights: Weights) -> bool:
        """Whether the plan has these weights of the members, or there is none."""
        return self._plan is None or self._weights == weights

    def why(self, member_id: str) -> str | None:
        """Why a member should have what it should have, if a plan of this coordinator's says so."""
        if self._failure is not None:
            return f"the last target counts on. {self._failure}"
        if self._plan is None:
            return None
        try:
            return self._plan.reason(member_id)
        except KeyError:  # it came a moment ago, and the plan is told with the next target
            return None

    @property
    def weighs(self) -> Load | None:
        """What the plan wants to be told of partitions, if anything."""
        return self._plan.weighs if isinstance(self._plan, WeighsLoad) else None

    def weigh(self, topic: str, loads: Sequence[float]) -> None:
        """Tell the plan what each partition of a topic costs."""
        told = self._told.get(topic)
        if told is not None and isinstance(self._plan, WeighsLoad):
            self._plan.set_loads(told.topic_id, enumerate(loads))

    def weighed(self) -> Mapping[str, Target]:
        """What is to change after `weigh`, with no other change pending: the targets of those whose target changes."""
        assert self._plan is not None
        return self._plan.update()

    def update(
        self,
        group: ConsumerGroup,
        assignor: ServerAssignor,
        image: MetadataImage,
        coming: Coming | None,
        weights: Weights = EVEN,
    ) -> Mapping[str, Target]:
        """Compute; return the members whose target changed, each with its whole new target. Raises AssignorError."""
        if weights != self._weights:
            self._weights = weights
            self._members.update(dict.fromkeys(group.members))
        if self._plan is None or self._assignor != assignor.name:
            self._begin(group, assignor, image, coming)
        else:
            self._tell(self._plan, group, image, coming)
        assert self._plan is not None
        changed = self._plan.update()
        self._failure = None
        return changed

    def failed(self, problem: str, now: Millis) -> bool:
        """A user's assignor failed. Returns whether it failed otherwise than the last time, or did not fail then."""
        is_new = problem != self._failure
        self._failure, self.failed_at = problem, now
        return is_new

    def _begin(
        self, group: ConsumerGroup, assignor: ServerAssignor, image: MetadataImage, coming: Coming | None
    ) -> None:
        """Another assignor, or the first since this coordinator has the group: go on from what the log says."""
        plan = assignor.plan()
        self._told = {}
        self._topics.update(group.topics.counts)
        self._members.update(dict.fromkeys(group.members))
        self._tell(plan, group, image, coming)
        targets = {member_id: target.by_topic for member_id, target in group.targets.items()}
        if coming is not None and coming.replaces is not None:
            targets[coming.member.member_id] = targets.pop(coming.replaces, {})
        plan.restore(targets)
        self._plan, self._assignor = plan, assignor.name

    def _tell(self, plan: Plan, group: ConsumerGroup, image: MetadataImage, coming: Coming | None) -> None:
        wanted = group.topics.counts.keys() | (coming.topics if coming is not None else ())
        for name in sorted(self._topics | (coming.topics if coming is not None else frozenset())):
            self._tell_topic(plan, name, image.by_name.get(name) if name in wanted else None)
        for member_id in self._members:
            member = group.members.get(member_id)
            if member is None or (coming is not None and member_id == coming.replaces):
                plan.remove_member(member_id)
            else:
                plan.set_member(member_id, self._shape(member, group.topics.ids_of(member.subscription, image)))
        if coming is not None:
            plan.set_member(coming.member.member_id, self._shape(coming.member, image.ids_of(coming.topics)))
        self._topics.clear()
        self._members.clear()

    def _tell_topic(self, plan: Plan, name: str, topic: Topic | None) -> None:
        old = self._told.get(name)
        if old == topic:
            return
        if old is not None and (topic is None or topic.topic_id != old.topic_id):
            plan.remove_topic(old.topic_id)
            del self._told[name]
        if topic is not None:
            plan.set_topic(topic.topic_id, topic.shape)
            self._told[name] = topic

    def _shape(self, member: ConsumerMember, topic_ids: frozenset[UUID]) -> MemberShape:
        return member_shape(member, topic_ids, self._weights)


def member_shape(member: ConsumerMember, topic_ids: frozenset[UUID], weights: Weights) -> MemberShape:
    """What an assignor knows of a member that asks for these topics."""
    weight = _weight(member, weights)
    return MemberShape(topic_ids, member.rack_id, member.instance_id, weight or 1.0, drained=weight == 0)


def is_drained(member: ConsumerMember, weights: Weights) -> bool:
    """Whether the member gets nothing, because the operator or the member itself gives it the weight 0."""
    return _weight(member, weights) == 0


def _weight(member: ConsumerMember, weights: Weights) -> float:
    """An operator's weight of a member goes before the one that the member states."""
    weight = weights.of(member.instance_id, member.client_id)
    if weight is not None:
        return weight
    return 1.0 if member.weight is None else member.weight
