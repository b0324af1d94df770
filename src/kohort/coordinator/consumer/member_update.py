"""Apply what a member reports, in either protocol, to its consumer group (KIP-848).

The update changes the member, and possibly increases the group epoch. It computes the target
assignment if the group epoch is newer. It moves the member toward its target. Each step can cause
the next.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from kohort.assignor.server import Target
from kohort.coordinator.consumer import records
from kohort.coordinator.consumer.epochs import bump
from kohort.coordinator.consumer.group import ConsumerGroup, UnreportedAssignment
from kohort.coordinator.consumer.groups import ConsumerGroups
from kohort.coordinator.consumer.member import STATIC_LEAVE_EPOCH, ConsumerMember
from kohort.coordinator.consumer.partitions import NOTHING, Partitions
from kohort.coordinator.consumer.planning import UpdatedMember
from kohort.coordinator.consumer.rebalance_events import add_join_events, add_move_events, will_be_settled
from kohort.coordinator.consumer.reconciling import reconcile, withdraw
from kohort.coordinator.consumer.states import MemberState
from kohort.coordinator.consumer.subscribing import keep_fresh
from kohort.coordinator.consumer.target import chosen_assignor, update_target, write_target
from kohort.coordinator.consumer.topics import ResolvedExpression
from kohort.coordinator.effects import Effects
from kohort.coordinator.timers import MemberRebalanceTimeout, SessionTimeout
from kohort.group_events import Cause, GroupSettled, RebalanceReason
from kohort.model import UUID, Millis

_REPORT_INTERVALS = 2
"""Number of heartbeat intervals within which a member must report the partitions that it was assigned."""
_LONGEST_REASON = 255
"""Maximum length of a reason, in characters, as for the reasons of classic members (KIP-800)."""
_INHERITED = 0
"""Epoch in which a static member got the partitions that it inherited from its old process."""


@dataclass(slots=True)
class MemberUpdate:
    """An update that the group accepted. It takes effect when the caller replays `out`."""

    groups: ConsumerGroups
    group: ConsumerGroup
    before: ConsumerMember
    """The recorded member. A new member is not in the group; a returning static member has its old ID here."""
    after: ConsumerMember
    """The member with the reported changes."""
    resolved: dict[str, ResolvedExpression]
    """Expressions that were resolved for this member."""
    now: Millis
    out: Effects
    needs_target: bool = False
    """Whether the group was until now a classic group that needs a new target.

    It was in a rebalance, not all partitions had an owner, or a member had partitions that no longer exist.
    """
    changed_member: UpdatedMember | None = field(init=False)
    epoch: int = field(init=False)
    """Group epoch; the next one once the member's changes require a new target."""

    def __post_init__(self) -> None:
        self.changed_member = None
        self.epoch = self.group.epoch
        self.group.written_at = self.now
        if self.after is not self.before or self.after.member_id not in self.group.members:
            topics = self.group.topics.topics_of(self.after.subscription, self.resolved)
            replaces = self.before.member_id if self.before.member_id != self.after.member_id else None
            self.changed_member = UpdatedMember(self.after, topics, replaces)

    def change_member(self) -> int:
        """Write the member's changes, and return the group epoch: the next one if they require a new target."""
        group, before, after, out = self.group, self.before, self.after, self.out
        if self.changed_member is None:
            return group.epoch
        group_id = group.group_id
        add_join_events(group, before, after, out)
        if self.changed_member.replaces is not None:
            self._replace(self.changed_member.replaces)
        out.records.append(records.member_metadata(group_id, after))
        old, new = before.subscription, after.subscription
        dropped = [old] if self._replaced_member is None else [old, self._replaced_member.subscription]
        expressions = Counter(
            subscription.expression for subscription in dropped if subscription.expression is not None
        )
        for expression, times in expressions.items():
            if expression != new.expression and group.topics.expressions[expression] == times:
                out.records.append(records.no_expression(group_id, expression))
        out.records += [records.resolved_expression(group_id, name, found) for name, found in self.resolved.items()]
        if old.expression != new.expression:
            keep_fresh(self.groups, group, after, self.resolved, self.now, out)
        if not self._requires_target():
            return group.epoch
        self.epoch = bump(self.groups, group, self._reason(), out, group.topics.changes(dropped, new, self.resolved))
        return self.epoch

    def compute_anew(self, reason: str) -> int:
        """Request a new computation because a member has new facts for the assignor; return the group epoch.

        The epoch does not increase if the computation for the current one has not been requested
        yet, because it will use these facts anyway.
        """
        group = self.group
        is_told_later = group.epoch > group.target_epoch and not group.computing.was_asked(group.epoch)
        if self.epoch == group.epoch and not is_told_later:
            why = RebalanceReason(Cause.REBALANCE_ENFORCED, self.after.member_id, reason[:_LONGEST_REASON])
            self.epoch = bump(self.groups, group, why, self.out)
        return self.epoch

    @property
    def _replaced_member(self) -> ConsumerMember | None:
        """The member whose ID a returning static member now uses, if any.

        That member is removed, and its partitions need a new owner.
        """
        assert self.changed_member is not None
        if self.changed_member.replaces is None:
            return None
        return self.group.members.get(self.after.member_id)

    def _replace(self, old_id: str) -> None:
        """Replace a static member with its restarted process, which has another ID and inherits its target."""
        group, out = self.group, self.out
        out.records += records.no_member(group.group_id, old_id)
        out.records.append(records.target(group.group_id, self.after.member_id, group.target_of(old_id)))
        out.timers[SessionTimeout(group.group_id, old_id)] = None
        topic_ids = group.topics.ids_of(self.before.subscription, self.groups.metadata)
        group.planning.rename(self.before, self.after.member_id, topic_ids)

    def _requires_target(self) -> bool:
        """Return whether the member's changes may change anyone's target."""
        old, new = self.before.subscription, self.after.subscription
        if (
            self.needs_target
            or old.names != new.names
            or self._replaced_member is not None
            or self.before.weight != self.after.weight
        ):
            return True
        if old.expression != new.expression:
            found = self.resolved.get(new.expression or "")
            if found is None:
                # Another member uses the same expression, or the search takes several slices. In
                # the latter case, the topics require a new target later.
                return new.expression is None or new.expression in self.group.topics.resolved
            if found.topics:
                return True
        asked, asks = self.before.server_assignor, self.after.server_assignor
        return asked != asks and chosen_assignor(self.groups, self.group) != chosen_assignor(
            self.groups, self.group, asked, asks
        )

    def _reason(self) -> RebalanceReason:
        """Return the reason for the new epoch, for the recorder."""
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
        return RebalanceReason(cause, member_id)

    def update_target(self, epoch: int, computed: Mapping[str, Target] | None = None) -> tuple[int, Partitions]:
        """Return the target epoch and the member's target, after computing a new target if required.

        `computed` holds the changes that a member's own computation makes to the target, if there
        is one.
        """
        group = self.group
        if computed is None:
            changed = update_target(self.groups, group, epoch, self.changed_member, self.now, self.out)
        else:
            group.planning.reset()
            changed = write_target(self.groups, group, epoch, computed, self.now, self.out)
        target_epoch = group.target_epoch if changed is None else epoch
        if changed is not None and self.after.member_id in changed:
            return target_epoch, changed[self.after.member_id]
        return target_epoch, group.target_of(self.before.member_id)

    def move(self, target_epoch: int, target: Partitions, owned: Partitions | None) -> ConsumerMember:
        """Reconcile the member with its target, and write its new state."""
        group, after, out = self.group, self.after, self.out
        if owned is not None:
            self._take_report(owned)
        if self.changed_member is None:
            subscribed = group.topics.ids_of(after.subscription, self.groups.metadata)
        else:
            subscribed = self.groups.metadata.ids_of(self.changed_member.topics)
        if after.is_at(target_epoch) and after.assigned.of_topics(subscribed) is after.assigned:
            return after
        wanted = target.of_topics(subscribed)
        if self._must_report_first(wanted):
            return after
        owes = self._without_deleted_topics(after)
        moved = reconcile(owes, wanted, target_epoch=target_epoch, owned=owned, taken=group.taken)
        if moved is owes and after.revoking:
            moved = withdraw(after, subscribed)
        if moved is after or moved is owes:
            self._expect_report(after)  # another coordinator may have told it what to give up, and failed
            return after
        out.records.append(records.current(group.group_id, moved, _since(group, self.before, moved)))
        if MemberState.UNREVOKED_PARTITIONS in (moved.state, after.state):
            gives = moved.state is MemberState.UNREVOKED_PARTITIONS
            until = self.now + max(moved.rebalance_timeout_ms, 0) if gives else None
            out.timers[MemberRebalanceTimeout(group.group_id, moved.member_id)] = until
        add_move_events(group, self.before, moved, self.groups.metadata, out)
        self._expect_report(moved)
        if target_epoch == self.epoch and will_be_settled(group, self.before, moved, self.epoch):
            asked, asks = self.before.server_assignor, moved.server_assignor
            assignor = group.computing.made_by or chosen_assignor(self.groups, group, asked, asks)
            out.events.append(GroupSettled(group.group_id, self.epoch, assignor, group.weighed()))
        return moved

    def _without_deleted_topics(self, member: ConsumerMember) -> ConsumerMember:
        """Return the member without pending revocations of deleted topics, because no member waits for them.

        A client that never learned the name of such a topic cannot report its revocation.
        """
        left = member.revoking.of_topics(self.groups.metadata.by_id)
        return member if left is member.revoking else replace(member, revoking=left)

    def _must_report_first(self, wanted: Partitions) -> bool:
        """Return whether the member must first report its last assignment.

        This is the case if the new assignment equals the one that it last reported. A client that
        has not begun to apply the assignment in between would find nothing changed, and report
        nothing. The group would then wait for the member, and the member for the group, until its
        rebalance timeout ends.
        """
        unreported, assigned = self.group.unreported.get(self.after.member_id), self.after.assigned
        if unreported is None:
            return False  # unknown after a failover, so the member gets its assignment as usual
        return self.now < unreported.until and assigned & wanted == unreported.reported != assigned

    def _take_report(self, owned: Partitions) -> None:
        known = self.group.unreported.pop(self.after.member_id, None)
        if self.after.revoking.overlaps(owned):
            # It may not know what it must give up: it may repeat a heartbeat whose answer would have told it.
            until = self._report_until() if known is None else known.until
            self.group.unreported[self.after.member_id] = UnreportedAssignment(owned, until)

    def _expect_report(self, moved: ConsumerMember) -> None:
        is_same = self.before.member_id == moved.member_id and self.before.epoch != STATIC_LEAVE_EPOCH
        has = self.before.assigned if is_same else NOTHING
        known = self.group.unreported.get(moved.member_id)
        takes, gives = not moved.assigned <= has, moved.state is MemberState.UNREVOKED_PARTITIONS
        if moved.classic is not None or not (takes or (gives and known is None)):
            return
        reported = has if known is None else known.reported
        self.group.unreported[moved.member_id] = UnreportedAssignment(reported, self._report_until())

    def repeats_assignment(self) -> bool:
        """Return whether the response repeats the assignment, because the member should have reported it by now.

        The member may not know it: a join that it gave up may arrive after the one that it sent instead, and
        the answer with the assignment then goes to a connection that the member has closed. librdkafka sends
        a heartbeat whose answer did not arrive in time again as it was, not as a full request. (Kafka does not
        repeat the assignment: nobody reads new partitions until the next rebalance, and a member that must
        give some up is waited for until its rebalance timeout.)
        """
        group, member_id = self.group, self.after.member_id
        if not group.is_report_overdue(member_id, self.now):
            return False
        group.unreported[member_id] = replace(group.unreported[member_id], until=self._report_until())
        return True

    def _report_until(self) -> Millis:
        return self.now + _REPORT_INTERVALS * self.groups.settings(self.group.group_id).heartbeat_interval_ms


def _since(group: ConsumerGroup, before: ConsumerMember, moved: ConsumerMember) -> Callable[[UUID, int], int]:
    """Return a function that gives the epoch in which the member was assigned a partition.

    If a partition must be revoked and is then assigned again, the assignment is new, and the old
    epoch no longer counts (KAFKA-16147).
    """
    kept = before.assigned | moved.revoking

    def since(topic_id: UUID, partition: int) -> int:
        if partition not in kept.by_topic.get(topic_id, ()):
            return moved.epoch
        if before.member_id != moved.member_id:
            return _INHERITED
        owner = group.owner(topic_id, partition)
        return moved.epoch if owner is None else owner.since_epoch

    return since
