"""Bugs of consumer groups (KIP-848); see planting."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

from pytest import MonkeyPatch

from kohort.assignor.server.uniform import UniformPlan
from kohort.coordinator import Effects, SessionTimeout, classic_protocol, skipped_time
from kohort.coordinator import shard as coordinator_shard
from kohort.coordinator.consumer import admission, classic_members, fencing, member_update, refresh, timer_firing
from kohort.coordinator.consumer import group as consumer_group
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.partitions import NOTHING
from kohort.coordinator.consumer.reconciling import reconcile
from kohort.coordinator.offsets import commit_fetch
from kohort.errors import ErrorCode
from kohort.sim import Plan, Step
from kohort.sim.plans.application_settings import ApplicationSettings
from kohort.sim.steps import BrokersSkipTime, MemberStart
from kohort.wire.messages.heartbeat import HeartbeatRequest
from tests.sim.planting import plant


@plant("S1", hint=3)
def a_partition_is_assigned_before_its_owner_revokes_it(patch: MonkeyPatch) -> None:
    patch.setattr(consumer_group.ConsumerGroup, "taken", lambda self, wanted: NOTHING)


@plant("S1", "S7", "S8", hint=5)
def a_heartbeat_without_partitions_counts_as_a_revocation(patch: MonkeyPatch) -> None:
    def trusting(*arguments: Any, **facts: Any) -> Any:
        facts["owned"] = NOTHING if facts["owned"] is None else facts["owned"]
        return reconcile(*arguments, **facts)

    patch.setattr(member_update, "reconcile", trusting)


@plant("L3", hint=3)
def an_expired_member_of_a_consumer_group_stays(patch: MonkeyPatch) -> None:
    patch.setattr(timer_firing, "session_timed_out", lambda *arguments: None)


@plant("S6", "S7", "S8", hint=5)
def a_commit_of_an_old_epoch_is_accepted(patch: MonkeyPatch) -> None:
    patch.setattr(commit_fetch, "commit_refusal", lambda *arguments: ErrorCode.NONE)


@plant("S3", "S2", "L1", "L5", hint=21)
def a_join_does_not_bump_the_group_epoch(patch: MonkeyPatch) -> None:
    patch.setattr(member_update, "bump", lambda groups, group, why, out, changes=None: group.epoch)


@plant("S5", hint=5)
def any_earlier_epoch_counts_as_a_lost_response(patch: MonkeyPatch) -> None:
    def lenient(member: Any, epoch: int, owned: Any) -> None:
        if epoch > member.epoch:
            raise admission._fenced(member, epoch)

    patch.setattr(admission, "_check_epoch", lenient)


@plant("S5", hint=41)
def a_member_that_owns_too_much_may_send_the_previous_epoch(patch: MonkeyPatch) -> None:
    real = admission._check_epoch
    patch.setattr(admission, "_check_epoch", lambda member, epoch, owned: real(member, epoch, NOTHING))


@plant("S12", hint=3)
def a_static_member_that_returns_bumps_the_group_epoch(patch: MonkeyPatch) -> None:
    real = member_update.MemberUpdate._requires_target
    patch.setattr(
        member_update.MemberUpdate,
        "_requires_target",
        lambda self: self.before.member_id != self.after.member_id or real(self),
    )


@plant("S2", hint=3)
def a_target_has_a_partition_that_does_not_exist(patch: MonkeyPatch) -> None:
    real = UniformPlan.set_topic
    patch.setattr(
        UniformPlan,
        "set_topic",
        lambda self, topic_id, topic: real(self, topic_id, replace(topic, partitions=topic.partitions + 1)),
    )


@plant("S5", hint=10)
def a_classic_member_of_a_consumer_group_may_send_any_generation(patch: MonkeyPatch) -> None:
    real = classic_members.heartbeat_of_classic_member

    def lenient(groups: Any, group: Any, request: HeartbeatRequest, now: int) -> ErrorCode:
        return real(groups, group, _at_its_epoch(group, request), now)

    patch.setattr(classic_protocol, "heartbeat_of_classic_member", lenient)


def _at_its_epoch(group: Any, request: Any) -> Any:
    member, newer = group.members.get(request.member_id), copy(request)
    newer.generation_id = request.generation_id if member is None else member.epoch
    return newer


@plant("S5", hint=5)
def a_leave_of_an_unknown_member_is_confirmed(patch: MonkeyPatch) -> None:
    real = fencing.remove_by_leave_group

    def polite(*arguments: Any) -> list[ErrorCode]:
        return [ErrorCode.NONE for _ in real(*arguments)]

    patch.setattr(classic_protocol, "remove_by_leave_group", polite)


@plant("S12", hint=28)
def two_members_may_have_one_instance_id(patch: MonkeyPatch) -> None:
    real = admission._joining

    def generous(member_id: str, known: Any, holder: Any) -> Any:
        lives = holder is not None and holder.epoch >= 0 and holder.classic is None
        return known or ConsumerMember(member_id) if lives else real(member_id, known, holder)

    patch.setattr(admission, "_joining", generous)


@plant("S13", hint=3)
def a_change_of_topics_renews_the_sessions_of_all(patch: MonkeyPatch) -> None:
    real = refresh.topics_changed

    def busy(groups: Any, old: Any, now: int, out: Effects) -> None:
        real(groups, old, now, out)
        for group in groups.by_id.values():
            if isinstance(group, consumer_group.ConsumerGroup):
                out.timers |= {SessionTimeout(group.group_id, member_id): now + 45_000 for member_id in group.members}

    patch.setattr(coordinator_shard, "topics_changed", busy)


@plant("L8")
def a_heartbeat_that_another_request_waits_behind_is_dropped(patch: MonkeyPatch) -> None:
    real = coordinator_shard.GroupShard.release

    def forgetful(*arguments: Any) -> Effects:
        out = real(*arguments)
        out.replies.clear()
        return out

    patch.setattr(coordinator_shard.GroupShard, "release", forgetful)


@plant("S11", hint=25)
def a_group_that_became_a_classic_one_refuses_commits(patch: MonkeyPatch) -> None:
    real = commit_fetch._commit_refusal

    def strict(group: Any, request: Any, context: Any) -> ErrorCode:
        code: ErrorCode = real(group, request, context)
        converted = group is not None and group.members and group.leader_id is None
        return ErrorCode.ILLEGAL_GENERATION if code is ErrorCode.NONE and converted else code

    patch.setattr(commit_fetch, "_commit_refusal", strict)


@plant("S22", hint=20)
def skipped_time_ends_the_sessions_of_a_consumer_group(patch: MonkeyPatch) -> None:
    patch.setattr(consumer_group.ConsumerGroup, "skip_time_of_member", lambda self, member_id, by: None)


def _a_revocation_in_which_time_is_skipped() -> Plan:
    """A member takes 15 s to give up partitions for another one, and time is skipped meanwhile."""
    members = [
        ApplicationSettings(
            "group-0", ("orders",), session=45_000, callback=15_000, max_poll=60_000, protocol="consumer"
        )
        for _ in range(2)
    ]
    steps: list[Step] = [MemberStart(0.1, 0), MemberStart(8.0, 1)]
    steps += [BrokersSkipTime(9.0 + number, 70.0) for number in range(10)]
    return Plan(
        1, 40.0, 1, {"group.consumer.session.timeout.ms": "45000"}, {"orders": 4}, members, [1.0, 1.0], steps=steps
    )


@plant("S22", plan=_a_revocation_in_which_time_is_skipped)
def skipped_time_ends_the_time_to_give_up_partitions(patch: MonkeyPatch) -> None:
    real = skipped_time._spare_in_consumer_group

    def without_timers(*arguments: Any) -> set[Any]:
        real(*arguments)
        return set()

    patch.setattr(skipped_time, "_spare_in_consumer_group", without_timers)
