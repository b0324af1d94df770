"""What a member of a consumer group brings about by what it says, in whichever protocol it says it (KIP-848).

It changes the member, and so perhaps the group epoch; it computes the target assignment that the epoch is ahead of; it
moves the member toward its target. Each step can bring about the next.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from kohort.assignor.server import Target
from kohort.coordinator.consumer import records
from kohort.coordinator.consumer.epochs import bump
from kohort.coordinator.consumer.group import ConsumerGroup, Unseen
from kohort.coordinator.consumer.member import AWAY, ConsumerMember
from kohort.coordinator.consumer.partitions import NOTHING, Partitions
from kohort.coordinator.consumer.planning import Coming
from kohort.coordinator.consumer.reconcile import reconcile, withdraw
from kohort.coordinator.consumer.states import MemberState
from kohort.coordinator.consumer.subscribing import keep_fresh
from kohort.coordinator.consumer.target import chosen_assignor, update_target, write_target
from kohort.coordinator.consumer.telling import tell_coming, tell_move, will_be_settled
from kohort.coordinator.consumer.topics import ResolvedExpression
from kohort.coordinator.effects import Effects
from kohort.coordinator.events import Cause, GroupSettled, Why
from kohort.coordinator.groups import Groups
from kohort.coordinator.timers import MemberRebalanceTimeout, SessionTimeout
from kohort.model import UUID, Millis

_PATIENCE = 2
"""Heartbeat intervals in which a member is to report that it has what it was given."""
_LONGEST_REASON = 255
"""Characters, as of those that classic members give (KIP-800)."""
_BEFORE_ITS_LIFE = 0
"""As an epoch: in which a static member was given what it took over from its life before."""


@dataclass(slots=True)
class Beat:
    """A member says something that the group takes. What it does is on record when the caller replays `out`."""

    groups: Groups
    group: ConsumerGroup
    before: ConsumerMember
    """The member as it is on record: a new one is not, and a static one that returns is under its old id."""
    after: ConsumerMember
    """The member with what it says of itself."""
    fresh: dict[str, ResolvedExpression]
    """Expressions that were looked up for it."""
    now: Millis
    out: Effects
    cut_short: bool = False
    """The group was a classic one until now, in a rebalance: who came or went before is still to be shared for."""
    coming: Coming | None = field(init=False)
    epoch: int = field(init=False)
    """The group epoch: the next one as soon as what the member says calls for a target."""

    def __post_init__(self) -> None:
        self.coming = None
        self.epoch = self.group.epoch
        self.group.written_at = self.now
        if self.after is not self.before or self.after.member_id not in self.group.members:
            topics = self.group.topics.topics_of(self.after.subscription, self.fresh)
            replaces = self.before.member_id if self.before.member_id != self.after.member_id else None
            self.coming = Coming(self.after, topics, replaces)

    def change_member(self) -> int:
        """Write what the member says of itself; returns the group epoch, the next one where that calls for a target."""
        group, before, after, out = self.group, self.before, self.after, self.out
        if self.coming is None:
            return group.epoch
        group_id = group.group_id
        tell_coming(group, before, after, out)
        if self.coming.replaces is not None:
            self._replace(self.coming.replaces)
        out.records.append(records.member_metadata(group_id, after))
        old, new = before.subscription, after.subscription
        dropped = [old] if self._ousted is None else [old, self._ousted.subscription]
        for expression, times in Counter(one.expression for one in dropped if one.expression is not None).items():
            if expression != new.expression and group.topics.expressions[expression] == times:
                out.records.append(records.no_expression(group_id, expression))
        out.records += [records.resolved_expression(group_id, name, found) for name, found in self.fresh.items()]
        if old.expression != new.expression:
            keep_fresh(self.groups, group, after, self.fresh, self.now, out)
        if not self._calls_for_a_target():
            return group.epoch
        self.epoch = bump(self.groups, group, self._why(), out, group.topics.changes(dropped, new, self.fresh))
        return self.epoch

    def compute_anew(self, reason: str) -> int:
        """A member has news for whoever computes: the next group epoch, unless who computes for this one was not asked
        yet, and so will be told."""
        group = self.group
        is_told_later = group.epoch > group.target_epoch and not group.computing.was_asked(group.epoch)
        if self.epoch == group.epoch and not is_told_later:
            why = Why(Cause.REBALANCE_ENFORCED, self.after.member_id, reason[:_LONGEST_REASON])
            self.epoch = bump(self.groups, group, why, self.out)
        return self.epoch

    @property
    def _ousted(self) -> ConsumerMember | None:
        """Who had the id under which a static member returns: that member is gone, and what it had needs an owner."""
        if self.coming is None or self.coming.replaces is None:
            return None
        return self.group.members.get(self.after.member_id)

    def _replace(self, old_id: str) -> None:
        """A static member returns under another id, and takes over from the life before."""
        group, out = self.group, self.out
        out.records += records.no_member(group.group_id, old_id)
        out.records.append(records.target(group.group_id, self.after.member_id, group.target_of(old_id)))
        out.timers[SessionTimeout(group.group_id, old_id)] = None
        topic_ids = group.topics.ids_of(self.before.subscription, self.groups.metadata)
        group.planning.rename(self.before, self.after.member_id, topic_ids)

    def _calls_for_a_target(self) -> bool:
        """Whether what the member says changes what somebody should own."""
        old, new = self.before.subscription, self.after.subscription
        if (
            self.cut_short
            or old.names != new.names
            or self._ousted is not None
            or self.before.weight != self.after.weight
        ):
            return True
        if old.expression != new.expression:
            found = self.fresh.get(new.expression or "")
            if found is None:
                # Somebody else asks by it, too, or it takes long to look up: then its topics call for a target later.
                return new.expression is None or new.expression in self.group.topics.resolved
            if found.topics:
                return True
        asked, asks = self.before.server_assignor, self.after.server_assignor
        return asked != asks and chosen_assignor(self.groups, self.group) != chosen_assignor(
            self.groups, self.group, asked, asks
        )

    def _why(self) -> Why:
        """What the recorder is told of the new epoch."""
        member_id = self.after.member_id
        if not self.group.members:
            cause = Cause.FIRST_MEMBER
        elif self.before.member_id != member_id:
            cause = Cause.STATIC_MEMBER_RETURNED
        elif member_id not in self.group.members:
            cause = Cause.MEMBER_JOINED
        elif self.before.subscription != self.after.subscription:
            cause = Cause.SUBSCRIPTION_CHANGED
        elif self.before.weight != self.after.weight:
            cause = Cause.WEIGHT_CHANGED
        else:
            cause = Cause.ASSIGNOR_CHANGED
        return Why(cause, member_id)

    def update_target(self, epoch: int, computed: Mapping[str, Target] | None = None) -> tuple[int, Partitions]:
        """The target epoch and what the member should own, computed anew where it must be.

        `computed` is how a member's own computation changes the target, if one came.
        """
        group = self.group
        if computed is None:
            changed = update_target(self.groups, group, epoch, self.coming, self.now, self.out)
        else:
            group.planning.begin_anew()
            changed = write_target(self.groups, group, epoch, computed, self.now, self.out)
        target_epoch = group.target_epoch if changed is None else epoch
        if changed is not None and self.after.member_id in changed:
            return target_epoch, changed[self.after.member_id]
        return target_epoch, group.target_of(self.before.member_id)

    def move(self, target_epoch: int, target: Partitions, owned: Partitions | None) -> ConsumerMember:
        """Move the member toward its target, and write where it stands now."""
        group, after, out = self.group, self.after, self.out
        if owned is not None:
            group.unseen.pop(after.member_id, None)
        if self.coming is None:
            subscribed = group.topics.ids_of(after.subscription, self.groups.metadata)
        else:
            subscribed = self.groups.metadata.ids_of(self.coming.topics)
        if after.is_at(target_epoch) and after.assigned.of_topics(subscribed) is after.assigned:
            return after
        wanted = target.of_topics(subscribed)
        if self._must_report_first(wanted):
            return after
        owes = self._without_gone(after)
        moved = reconcile(owes, wanted, target_epoch=target_epoch, owned=owned, taken=group.taken)
        if moved is owes and after.revoking:
            moved = withdraw(after, subscribed)
        if moved is after or moved is owes:
            return after
        out.records.append(records.current(group.group_id, moved, _since(group, self.before, moved)))
        if MemberState.UNREVOKED_PARTITIONS in (moved.state, after.state):
            gives = moved.state is MemberState.UNREVOKED_PARTITIONS
            until = self.now + max(moved.rebalance_timeout_ms, 0) if gives else None
            out.timers[MemberRebalanceTimeout(group.group_id, moved.member_id)] = until
        tell_move(group, self.before, moved, self.groups.metadata, out)
        self._expect_report(moved)
        if target_epoch == self.epoch and will_be_settled(group, self.before, moved, self.epoch):
            asked, asks = self.before.server_assignor, moved.server_assignor
            assignor = group.computing.made_by or chosen_assignor(self.groups, group, asked, asks)
            out.events.append(GroupSettled(group.group_id, self.epoch, assignor, group.weighed()))
        return moved

    def _without_gone(self, member: ConsumerMember) -> ConsumerMember:
        """The member without what it owes of topics that are gone: nobody waits for that.

        A client that never learned the name of such a topic has nothing to report.
        """
        left = member.revoking.of_topics(self.groups.metadata.by_id)
        return member if left is member.revoking else replace(member, revoking=left)

    def _must_report_first(self, wanted: Partitions) -> bool:
        """Whether the member would be told to have again what it last reported, before it reported what it was given.

        A client that has not begun to take that would find nothing changed, and report nothing: the member would be
        waited for, and wait itself, until its rebalance timeout ends.
        """
        unseen, assigned = self.group.unseen.get(self.after.member_id), self.after.assigned
        if unseen is None:
            return False  # after a failover nobody knows, and it is told as ever
        return self.now < unseen.until and assigned & wanted == unseen.reported != assigned

    def _expect_report(self, moved: ConsumerMember) -> None:
        is_same = self.before.member_id == moved.member_id and self.before.epoch != AWAY
        has = self.before.assigned if is_same else NOTHING
        if moved.classic is not None or moved.assigned <= has:
            return
        known = self.group.unseen.get(moved.member_id)
        until = self.now + _PATIENCE * self.groups.settings(self.group.group_id).heartbeat_interval_ms
        self.group.unseen[moved.member_id] = Unseen(has if known is None else known.reported, until)


def _since(group: ConsumerGroup, before: ConsumerMember, moved: ConsumerMember) -> Callable[[UUID, int], int]:
    """In which epoch the member was given a partition.

    One that it must give up, and is then given again, it has anew: the epoch before no longer counts (KAFKA-16147).
    """
    kept = before.assigned | moved.revoking

    def since(topic_id: UUID, partition: int) -> int:
        if partition not in kept.by_topic.get(topic_id, ()):
            return moved.epoch
        if before.member_id != moved.member_id:
            return _BEFORE_ITS_LIFE
        owner = group.owner(topic_id, partition)
        return moved.epoch if owner is None else owner.since_epoch

    return since
