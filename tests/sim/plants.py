"""Bugs of a classic group's coordinator; see planting."""

from __future__ import annotations

from typing import Any

from pytest import MonkeyPatch

from kohort.broker.apis import find_coordinator
from kohort.broker.groups import shard as broker_shard
from kohort.broker.groups.error_answers import refusal
from kohort.broker.groups.member_connections import MemberConnections
from kohort.coordinator import GroupShard, RebalanceTimeout, Token, classic_protocol, skipped_time
from kohort.coordinator import shard as coordinator_shard
from kohort.coordinator.classic import group as classic_group
from kohort.coordinator.classic import join, join_phase, membership, sessions
from kohort.coordinator.classic import sync as syncing
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.member import Member
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.effects import Effects
from kohort.coordinator.groups import Groups
from kohort.coordinator.offsets import commit_fetch
from kohort.errors import ErrorCode
from kohort.group_events import Cause, RebalanceReason
from kohort.model import Millis
from kohort.sim import Plan, Step
from kohort.sim.plans.application_settings import ApplicationSettings
from kohort.sim.steps import BrokersSkipTime, MemberResetConnections, MemberStart
from kohort.wire.group_log import Record
from kohort.wire.messages.find_coordinator import Coordinator
from kohort.wire.messages.group_records import GroupMetadataKey
from kohort.wire.messages.heartbeat import HeartbeatRequest
from tests.sim.planting import plant

# Which members may do what


@plant("S6", "S8", hint=14)
def a_commit_of_an_old_generation_is_accepted(patch: MonkeyPatch) -> None:
    patch.setattr(commit_fetch, "_commit_refusal", lambda group, request, context: ErrorCode.NONE)


@plant("S14", "S11")
def a_commit_before_the_rebalance_is_refused(patch: MonkeyPatch) -> None:
    real = commit_fetch._commit_refusal

    def strict(group: Any, request: Any, context: Any) -> ErrorCode:
        code: ErrorCode = real(group, request, context)
        prepares = group is not None and group.state is GroupState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if code is ErrorCode.NONE and prepares else code

    patch.setattr(commit_fetch, "_commit_refusal", strict)


@plant("S11", hint=90)
def a_commit_before_the_rebalance_counts_as_old(patch: MonkeyPatch) -> None:
    real = commit_fetch._commit_refusal

    def strict(group: Any, request: Any, context: Any) -> ErrorCode:
        code: ErrorCode = real(group, request, context)
        prepares = group is not None and group.state is GroupState.PREPARING_REBALANCE
        return ErrorCode.ILLEGAL_GENERATION if code is ErrorCode.NONE and prepares else code

    patch.setattr(commit_fetch, "_commit_refusal", strict)


@plant("S5", hint=1)
def a_heartbeat_of_an_unknown_member_is_accepted(patch: MonkeyPatch) -> None:

    def accepted(shard: GroupShard, request: HeartbeatRequest, now: Millis, token: Token | None = None) -> ErrorCode:
        return ErrorCode.NONE

    patch.setattr(GroupShard, "heartbeat", accepted)


@plant("S12", hint=1)
def a_static_member_that_returns_rebalances_its_group(patch: MonkeyPatch) -> None:
    real = join._join_static

    def as_another(groups: Any, group: Any, instance_id: str, request: Any, out: Effects) -> None:
        old_id = group.static_ids.get(instance_id)
        if old_id is not None:
            membership._remove(groups, group, RebalanceReason(Cause.STATIC_MEMBER_RETURNED, old_id), out)
        real(groups, group, instance_id, request, out)

    patch.setattr(join, "_join_static", as_another)


@plant("S13")
def a_join_touches_another_group(patch: MonkeyPatch) -> None:
    real = classic_protocol.join

    def join_and_more(groups: Any, request: Any, context: Any, now: int, out: Effects) -> None:
        real(groups, request, context, now, out)
        if out.records:
            out.records.append(Record(GroupMetadataKey(group="another"), None))

    patch.setattr(coordinator_shard, "join", join_and_more)


@plant("S13", hint=1)
def the_rebalance_after_a_removal_crashes(patch: MonkeyPatch) -> None:
    def crash(*arguments: Any) -> None:
        raise KeyError("a bug of ours")

    patch.setattr(membership, "_rebalance_without", crash)  # KAFKA-8896


@plant("S14", hint=1)
def a_wrong_error_code(patch: MonkeyPatch) -> None:
    real = syncing._refusal

    def other(*arguments: Any) -> ErrorCode:
        code: ErrorCode = real(*arguments)
        return ErrorCode.REQUEST_TIMED_OUT if code is ErrorCode.REBALANCE_IN_PROGRESS else code

    patch.setattr(syncing, "_refusal", other)


@plant("S14", hint=2)
def the_shell_refuses_with_a_wrong_error_code(patch: MonkeyPatch) -> None:

    def other(request: Any, version: int, code: ErrorCode) -> Any:
        wrong = ErrorCode.REQUEST_TIMED_OUT if code is ErrorCode.NOT_COORDINATOR else code
        return refusal(request, version, wrong)

    patch.setattr(broker_shard, "refusal", other)


@plant("S14")
def a_member_without_an_instance_id_is_fenced_by_it(patch: MonkeyPatch) -> None:
    real = classic_group.ClassicGroup.check_member

    def rude(self: Any, member_id: str, instance_id: str | None) -> ErrorCode:
        code: ErrorCode = real(self, member_id, instance_id)
        return ErrorCode.FENCED_INSTANCE_ID if code is ErrorCode.UNKNOWN_MEMBER_ID else code

    patch.setattr(classic_group.ClassicGroup, "check_member", rude)


@plant("S14", hint=2)
def a_static_member_that_was_removed_is_fenced(patch: MonkeyPatch) -> None:
    real = classic_group.ClassicGroup.check_member

    def rude(self: Any, member_id: str, instance_id: str | None) -> ErrorCode:
        code: ErrorCode = real(self, member_id, instance_id)
        is_static = code is ErrorCode.UNKNOWN_MEMBER_ID and instance_id is not None
        return ErrorCode.FENCED_INSTANCE_ID if is_static else code

    patch.setattr(classic_group.ClassicGroup, "check_member", rude)


@plant("S14", hint=4)
def a_group_is_full_one_member_early(patch: MonkeyPatch) -> None:
    real = join._has_room

    def cautious(groups: Any, group: Any, request: Any) -> bool:
        alone = group.state is not GroupState.STABLE or request.member_id in group.members
        return real(groups, group, request) and (alone or len(group.members) < groups.config.max_size - 1)

    patch.setattr(join, "_has_room", cautious)


# Rebalances


@plant("S15", hint=1)
def a_sessions_timer_outlives_its_member(patch: MonkeyPatch) -> None:
    real = coordinator_shard.GroupShard.fire

    def endless(self: Any, timer: Any, now: int) -> Effects:
        out: Effects = real(self, timer, now)
        if type(timer).__name__ == "SessionTimeout" and out.timers.get(timer) is None:
            out.timers[timer] = now + 10_000
        return out

    patch.setattr(coordinator_shard.GroupShard, "fire", endless)


@plant("L4", "L1")
def members_that_do_not_sync_are_never_removed(patch: MonkeyPatch) -> None:
    real = join_phase._start_generation

    def without_timer(groups: Any, group: Any, now: int, out: Effects) -> None:
        real(groups, group, now, out)
        for timer in [timer for timer in out.timers if type(timer).__name__ == "SyncTimeout"]:
            del out.timers[timer]

    patch.setattr(join_phase, "_start_generation", without_timer)  # KAFKA-12890


@plant("L4", "L1")
def a_rebalance_never_times_out(patch: MonkeyPatch) -> None:
    real = join_phase.proceed

    def without_timer(groups: Any, group: Any, began: bool, now: int, out: Effects) -> None:
        real(groups, group, began, now, out)
        for timer in [timer for timer in out.timers if type(timer).__name__ == "RebalanceTimeout"]:
            out.timers[timer] = None

    for module in (join_phase, join):
        patch.setattr(module, "proceed", without_timer)


@plant("L3", hint=4)
def a_dead_member_is_never_evicted(patch: MonkeyPatch) -> None:
    patch.setattr(membership, "has_expired", lambda group, member, now, out: False)


@plant("L3")
def a_session_is_ten_times_as_long(patch: MonkeyPatch) -> None:
    real = sessions.expect_within

    def longer(groups: Groups, group: ClassicGroup, member: Member, timeout: Millis, now: Millis, out: Effects) -> None:
        real(groups, group, member, 10 * timeout, now, out)

    patch.setattr(sessions, "expect_within", longer)


@plant("S4", "S10", "L1", "S1", "S5")
def a_generation_has_the_previous_number(patch: MonkeyPatch) -> None:
    real = join_phase._start_generation

    def same_number(groups: Any, group: Any, now: int, out: Effects) -> None:
        group.generation -= 2 if group.generation > 2 else 0
        real(groups, group, now, out)

    patch.setattr(join_phase, "_start_generation", same_number)


@plant("L2", hint=6)
def a_load_rebalances_every_group(patch: MonkeyPatch) -> None:
    real = coordinator_shard.GroupShard.loaded

    def busy(self: Any, now: int) -> Effects:
        out: Effects = real(self, now)
        for group in self.groups.values():
            if group.members:
                join_phase.begin_and_proceed(self._groups, group, RebalanceReason(Cause.GROUP_TOO_LARGE), now, out)
        return out

    patch.setattr(coordinator_shard.GroupShard, "loaded", busy)


@plant("L6", hint=1)
def no_coordinator_is_ever_found(patch: MonkeyPatch) -> None:
    def nobody(broker: Any, key: str, key_type: int, listener: Any) -> Coordinator:
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)

    patch.setattr(find_coordinator, "_find", nobody)


@plant("L4", hint=71)
def a_rejected_join_of_a_full_group_does_not_end_the_join_phase(patch: MonkeyPatch) -> None:
    patch.setattr(join, "complete_if_all_joined", lambda *arguments: None)


# Closed connections


def _a_connection_that_closes_between_two_heartbeats() -> Plan:
    """The next heartbeat of a member whose connection is reset is due after up to ten seconds."""
    members = [ApplicationSettings("group-0", ("orders",), session=30_000, heartbeat=10_000) for _ in range(2)]
    settings = {"group.initial.rebalance.delay.ms": "0", "group.heartbeat.hold.ms": "0"}
    steps: list[Step] = [
        MemberStart(0.1, 0),
        MemberStart(0.2, 1),
        *(MemberResetConnections(12.0 + n, 0) for n in range(5)),
    ]
    return Plan(1, 40.0, 1, settings, {"orders": 4}, members, [1.0, 1.0], steps=steps)


@plant("S29", plan=_a_connection_that_closes_between_two_heartbeats)
def every_process_whose_connection_closes_is_presumed_dead(patch: MonkeyPatch) -> None:
    patch.setattr(MemberConnections, "_doubt", lambda self, loss: None)


# Skipped time


@plant("S22", hint=55)
def skipped_time_counts_for_members_that_live(patch: MonkeyPatch) -> None:
    patch.setattr(skipped_time, "_is_heard", lambda *arguments: False)


def _a_rebalance_in_which_time_is_skipped() -> Plan:
    """One member learns late that another one has joined, and time is skipped before."""
    members = [
        ApplicationSettings("group-0", ("orders",), session=45_000, heartbeat=3_000, max_poll=60_000) for _ in range(2)
    ]
    return Plan(
        1,
        30.0,
        1,
        {"group.initial.rebalance.delay.ms": "0", "group.heartbeat.hold.ms": "0", "group.disconnect.grace.ms": "0"},
        {"orders": 4},
        members,
        [1.0, 1.0],
        steps=[MemberStart(0.1, 0), MemberStart(8.0, 1), *(BrokersSkipTime(8.0 + n / 5, 70.0) for n in range(10))],
    )


@plant("S22", plan=_a_rebalance_in_which_time_is_skipped)
def skipped_time_ends_a_rebalance_that_waits_for_members_that_live(patch: MonkeyPatch) -> None:
    real = skipped_time._spare_in_classic_group

    def without_rebalance(groups: Any, group: ClassicGroup, living: Any, by: Millis) -> Any:
        return real(groups, group, living, by) - {RebalanceTimeout(group.group_id)}

    patch.setattr(skipped_time, "_spare_in_classic_group", without_rebalance)
