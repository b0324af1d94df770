"""The target assignment of a group, kept up to date by a server assignor's plan.

This is soft state: after a failover, a new plan is created from the targets in the log. The plan
receives only the changes since the last update, so a member that joins or leaves costs as much in a
large group as in a small one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kohort.assignor.server import Load, LoadAware, MemberShape, Plan, ServerAssignor, Target
from kohort.coordinator.config import EVEN, Weights
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.planned_group import PlannedGroup
from kohort.coordinator.topic_metadata import MetadataImage, Topic
from kohort.model import UUID, Millis


@dataclass(frozen=True, slots=True)
class UpdatedMember:
    """A member in its state after the records of this request are replayed."""

    member: ConsumerMember
    topics: frozenset[str]
    """Topic names that its subscription will resolve to."""
    replaces: str | None = None
    """Previous ID of a static member that returns under a new one."""


class Planning:
    """The plan of one group, and the changes that the plan has not received yet."""

    __slots__ = (
        "_assignor",
        "_failure",
        "_members",
        "_plan",
        "_plan_topics",
        "_topics",
        "_weights",
        "failed_at",
        "series_began_at",
    )

    def __init__(self) -> None:
        self._members: dict[str, None] = {}
        """Members that joined, left or changed their subscription since the last update, in order."""
        self._topics: set[str] = set()
        """Topic names that changed, or whose subscriptions began or ended, since the last update."""
        self._plan: Plan | None = None
        self._assignor = ""
        self._plan_topics: dict[str, Topic] = {}
        """Topics that the plan has received."""
        self._weights = EVEN
        self.series_began_at: Millis = 0
        """Time of the first in the current series of targets, each within the interval of the last (KIP-1263)."""
        self.failed_at: Millis = 0
        """Time of the last failure of a user-defined assignor."""
        self._failure: str | None = None
        """Message of that failure, until the assignor succeeds."""

    def member_changed(self, member_id: str) -> None:
        """Note that a member joined or changed its subscription."""
        self._members[member_id] = None

    def member_removed(self, member_id: str) -> None:
        """Note that a member left, and drop its target.

        If a member with the same ID joins before the next update, it is new.
        """
        self._members.pop(member_id, None)
        self._members[member_id] = None
        if self._plan is not None:
            self._plan.remove_member(member_id)

    def members_changed(self, member_ids: Collection[str]) -> None:
        """Note that the subscriptions of these members resolve to other topics than before."""
        self._members.update(dict.fromkeys(member_ids))

    def topics_changed(self, names: Collection[str]) -> None:
        """Note that these topics changed, or that their subscriptions began or ended."""
        self._topics.update(names)

    def rename(self, old: ConsumerMember, new: str, topic_ids: frozenset[UUID]) -> None:
        """Move a static member's target to its new ID. `topic_ids` are the topics of its subscription."""
        if self._plan is None:
            return
        if old.member_id in self._members:  # the plan may not have received it yet
            self._plan.set_member(old.member_id, self._shape(old, topic_ids))
        self._plan.remove_member(new)  # another member may have had this ID
        self._plan.rename_member(old.member_id, new)

    def reset(self) -> None:
        """Discard the plan because the targets are no longer its own. The next update starts from the log."""
        self._plan = None

    @property
    def is_known(self) -> bool:
        """Whether there is a plan. There is none after a failover, and none while members compute the target."""
        return self._plan is not None

    def is_of_another_assignor(self, assignor: str) -> bool:
        """Return whether the plan belongs to an assignor other than `assignor`."""
        return self._plan is not None and self._assignor != assignor

    def has_weights(self, weights: Weights) -> bool:
        """Return whether the plan uses these member weights, or there is no plan."""
        return self._plan is None or self._weights == weights

    def why(self, member_id: str) -> str | None:
        """Return the reason for a member's target, if a plan of this coordinator gives one."""
        if self._failure is not None:
            return f"the last target stays in force. {self._failure}"
        if self._plan is None:
            return None
        try:
            return self._plan.reason(member_id)
        except KeyError:  # the member has just joined, and the plan receives it with the next target
            return None

    @property
    def weighs(self) -> Load | None:
        """Kind of load that the plan uses, or None."""
        return self._plan.weighs if isinstance(self._plan, LoadAware) else None

    def weigh(self, topic: str, loads: Sequence[float]) -> None:
        """Pass the load of each partition of a topic to the plan."""
        known = self._plan_topics.get(topic)
        if known is not None and isinstance(self._plan, LoadAware):
            self._plan.set_loads(known.topic_id, enumerate(loads))

    def weighed(self) -> Mapping[str, Target]:
        """Return the targets that change because of `weigh`, by member ID. No other change may be pending."""
        assert self._plan is not None
        return self._plan.update()

    def update(
        self,
        group: PlannedGroup,
        assignor: ServerAssignor,
        image: MetadataImage,
        updated: UpdatedMember | None,
        weights: Weights = EVEN,
    ) -> Mapping[str, Target]:
        """Compute the target; return the members whose target changed, each with its complete new target.

        Raises AssignorError.
        """
        if weights != self._weights:
            self._weights = weights
            self._members.update(dict.fromkeys(group.members))
        if self._plan is None or self._assignor != assignor.name:
            self._start_plan(group, assignor, image, updated)
        else:
            self._update_plan(self._plan, group, image, updated)
        assert self._plan is not None
        changed = self._plan.update()
        self._failure = None
        return changed

    def failed(self, problem: str, now: Millis) -> bool:
        """Record a failure of a user-defined assignor. Return whether it differs from the last attempt's outcome."""
        is_new = problem != self._failure
        self._failure, self.failed_at = problem, now
        return is_new

    def _start_plan(
        self, group: PlannedGroup, assignor: ServerAssignor, image: MetadataImage, updated: UpdatedMember | None
    ) -> None:
        """Create a plan from the recorded targets, for another assignor or for a group that was just loaded."""
        plan = assignor.plan()
        self._plan_topics = {}
        self._topics.update(group.topics.counts)
        self._members.update(dict.fromkeys(group.members))
        self._update_plan(plan, group, image, updated)
        targets = {member_id: target.by_topic for member_id, target in group.targets.items()}
        if updated is not None and updated.replaces is not None:
            targets[updated.member.member_id] = targets.pop(updated.replaces, {})
        plan.restore(targets)
        self._plan, self._assignor = plan, assignor.name

    def _update_plan(
        self, plan: Plan, group: PlannedGroup, image: MetadataImage, updated: UpdatedMember | None
    ) -> None:
        wanted = group.topics.counts.keys() | (updated.topics if updated is not None else ())
        for name in sorted(self._topics | (updated.topics if updated is not None else frozenset())):
            self._update_topic(plan, name, image.by_name.get(name) if name in wanted else None)
        for member_id in self._members:
            member = group.members.get(member_id)
            if member is None or (updated is not None and member_id == updated.replaces):
                plan.remove_member(member_id)
            else:
                plan.set_member(member_id, self._shape(member, group.topics.ids_of(member.subscription, image)))
        if updated is not None:
            plan.set_member(updated.member.member_id, self._shape(updated.member, image.ids_of(updated.topics)))
        self._topics.clear()
        self._members.clear()

    def _update_topic(self, plan: Plan, name: str, topic: Topic | None) -> None:
        old = self._plan_topics.get(name)
        if old == topic:
            return
        if old is not None and (topic is None or topic.topic_id != old.topic_id):
            plan.remove_topic(old.topic_id)
            del self._plan_topics[name]
        if topic is not None:
            plan.set_topic(topic.topic_id, topic.shape)
            self._plan_topics[name] = topic

    def _shape(self, member: ConsumerMember, topic_ids: frozenset[UUID]) -> MemberShape:
        return member_shape(member, topic_ids, self._weights)


def member_shape(member: ConsumerMember, topic_ids: frozenset[UUID], weights: Weights) -> MemberShape:
    """Return the facts that an assignor uses of a member that subscribes to these topics."""
    weight = _weight(member, weights)
    return MemberShape(topic_ids, member.rack_id, member.instance_id, weight or 1.0, drained=weight == 0)


def is_drained(member: ConsumerMember, weights: Weights) -> bool:
    """Return whether the member gets no partitions because its own or the operator's weight is 0."""
    return _weight(member, weights) == 0


def _weight(member: ConsumerMember, weights: Weights) -> float:
    """Return the weight of a member. The operator's weight takes precedence over the member's own."""
    weight = weights.of(member.instance_id, member.client_id)
    if weight is not None:
        return weight
    return 1.0 if member.weight is None else member.weight
