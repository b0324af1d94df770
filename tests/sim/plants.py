"""Bugs of classic groups, of durability, and of members; see planting."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from pytest import MonkeyPatch

from kohort.assignor.range import RangeAssignor
from kohort.broker.apis import find_coordinator
from kohort.broker.shard import Shard
from kohort.coordinator import classic_group, expiry, join, join_phase, membership, offsets, sessions
from kohort.coordinator import shard as coordinator_shard
from kohort.coordinator import sync as syncing
from kohort.coordinator.effects import Effects, Record
from kohort.coordinator.events import Cause, Why
from kohort.errors import ErrorCode
from kohort.log.memory import MemoryStore
from kohort.member.classic import member as classic_member
from kohort.member.classic import standing
from kohort.sim.disk import DiskStore
from kohort.wire.find_coordinator import Coordinator
from kohort.wire.group_records import GroupMetadataKey
from kohort.wire.offset_commit import OffsetCommitRequest
from tests.sim.planting import plant

# Durability and failover


@plant("S7", "S10", "S8")
def an_answer_does_not_wait_for_the_disk(patch: MonkeyPatch) -> None:
    patch.setattr(Shard, "_answer", lambda self, waiter, response: waiter.reply(response))


@plant("S10", "S7", "S8", "S13", "S4", hint=2)
def a_shard_lives_on_after_its_append_failed(patch: MonkeyPatch) -> None:
    patch.setattr(Shard, "_lost", lambda self, commit: None)


@plant("S10", "S7", hint=10)
def a_load_forgets_what_was_committed(patch: MonkeyPatch) -> None:
    real = coordinator_shard.GroupShard.loaded

    def forgetful(self: Any, now: int) -> Effects:
        for group in self.groups.values():
            group.offsets.clear()
        out: Effects = real(self, now)
        return out

    patch.setattr(coordinator_shard.GroupShard, "loaded", forgetful)


@plant("S9", "S10", "S4", "S8", "S7", hint=2)
def an_append_does_not_check_who_owns_the_log(patch: MonkeyPatch) -> None:
    patch.setattr(DiskStore, "_check_owner", lambda self: None)


@plant("S10", "S7", hint=4)
def a_failed_append_is_kept_in_memory(patch: MonkeyPatch) -> None:
    patch.setattr(MemoryStore, "fail", lambda self, pending, error: self.settle(pending))


@plant("S14", hint=81)
def a_static_members_new_id_is_not_written_in_a_rebalance(patch: MonkeyPatch) -> None:
    patch.setattr(join, "keep_new_id", lambda group, instance_id, new_id, out: None)


@plant("S10", "S14", "S12", hint=26)
def a_static_members_new_id_is_not_written_at_all(patch: MonkeyPatch) -> None:
    patch.setattr(join, "take_over", lambda group, now, out: None)  # KAFKA-10284


@plant("S7", "S8")
def a_commit_loses_its_leader_epoch(patch: MonkeyPatch) -> None:
    real = offsets.commit

    def careless(groups: Any, request: OffsetCommitRequest, *rest: Any) -> None:
        for topic in request.topics:
            for one in topic.partitions:
                one.committed_leader_epoch = -1
        real(groups, request, *rest)

    patch.setattr(coordinator_shard, "commit", careless)


@plant("S7", hint=10)
def offsets_expire_under_a_living_group(patch: MonkeyPatch) -> None:
    patch.setattr(expiry, "_wish", lambda group: lambda topic: False)  # KAFKA-13636


# Who may do what


@plant("S6", "S8")
def a_commit_of_an_old_generation_is_taken(patch: MonkeyPatch) -> None:
    patch.setattr(offsets, "_commit_refusal", lambda group, request, context: ErrorCode.NONE)


@plant("S5")
def a_heartbeat_of_a_stranger_is_taken(patch: MonkeyPatch) -> None:
    patch.setattr(coordinator_shard, "heartbeat", lambda groups, request, now: ErrorCode.NONE)


@plant("S12", hint=26)
def a_static_member_that_returns_rebalances_its_group(patch: MonkeyPatch) -> None:
    real = join._join_static

    def as_another(groups: Any, group: Any, instance_id: str, one: Any, out: Effects) -> None:
        old_id = group.static_ids.get(instance_id)
        if old_id is not None:
            membership._remove(groups, group, Why(Cause.STATIC_MEMBER_RETURNED, old_id), out)
        real(groups, group, instance_id, one, out)

    patch.setattr(join, "_join_static", as_another)


@plant("S13")
def a_join_touches_another_group(patch: MonkeyPatch) -> None:
    real = join.join

    def join_and_more(groups: Any, request: Any, context: Any, now: int, out: Effects) -> None:
        real(groups, request, context, now, out)
        if out.records:
            out.records.append(Record(GroupMetadataKey(group="another"), None))

    patch.setattr(coordinator_shard, "join", join_and_more)


@plant("S13")
def what_follows_a_members_end_crashes(patch: MonkeyPatch) -> None:
    def crash(*arguments: Any) -> None:
        raise KeyError("a bug of ours")

    patch.setattr(membership, "_go_on_without", crash)  # KAFKA-8896


@plant("S14", hint=8)
def a_wrong_error_code(patch: MonkeyPatch) -> None:
    real = syncing._refusal

    def other(*arguments: Any) -> ErrorCode:
        code: ErrorCode = real(*arguments)
        return ErrorCode.REQUEST_TIMED_OUT if code is ErrorCode.REBALANCE_IN_PROGRESS else code

    patch.setattr(syncing, "_refusal", other)


# Rebalances


@plant("L4", "L1")
def nobody_waits_for_members_that_do_not_sync(patch: MonkeyPatch) -> None:
    real = join_phase._start_generation

    def without_timer(groups: Any, group: Any, now: int, out: Effects) -> None:
        real(groups, group, now, out)
        for timer in [timer for timer in out.timers if type(timer).__name__ == "SyncTimeout"]:
            del out.timers[timer]

    patch.setattr(join_phase, "_start_generation", without_timer)  # KAFKA-12890


@plant("L4", "L1")
def a_rebalance_waits_for_ever(patch: MonkeyPatch) -> None:
    real = join_phase.proceed

    def without_timer(groups: Any, group: Any, began: bool, now: int, out: Effects) -> None:
        real(groups, group, began, now, out)
        for timer in [timer for timer in out.timers if type(timer).__name__ == "RebalanceTimeout"]:
            out.timers[timer] = None

    for module in (join_phase, join):
        patch.setattr(module, "proceed", without_timer)


@plant("L3")
def a_dead_member_is_never_evicted(patch: MonkeyPatch) -> None:
    patch.setattr(membership, "has_expired", lambda group, member, now, out: False)


@plant("L3")
def a_session_is_ten_times_as_long(patch: MonkeyPatch) -> None:
    real = sessions.expect_within
    patch.setattr(
        sessions, "expect_within", lambda group, member, timeout, now, out: real(group, member, 10 * timeout, now, out)
    )


@plant("S4", "S10", "L1", "S1", "S5")
def a_generation_has_the_number_of_the_last(patch: MonkeyPatch) -> None:
    real = join_phase._start_generation

    def same_number(groups: Any, group: Any, now: int, out: Effects) -> None:
        group.generation -= 2 if group.generation > 2 else 0
        real(groups, group, now, out)

    patch.setattr(join_phase, "_start_generation", same_number)


@plant("L2")
def a_load_rebalances_every_group(patch: MonkeyPatch) -> None:
    real = coordinator_shard.GroupShard.loaded

    def busy(self: Any, now: int) -> Effects:
        out: Effects = real(self, now)
        for group in self.groups.values():
            if group.members:
                join_phase.begin_and_proceed(self._groups, group, Why(Cause.GROUP_TOO_LARGE), now, out)
        return out

    patch.setattr(coordinator_shard.GroupShard, "loaded", busy)


@plant("L6")
def no_coordinator_is_ever_named(patch: MonkeyPatch) -> None:
    def nobody(broker: Any, key: str, key_type: int) -> Coordinator:
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)

    patch.setattr(find_coordinator, "_find", nobody)


# Assignments and members


@plant("S1", hint=2)
def an_assignor_gives_a_partition_twice(patch: MonkeyPatch) -> None:
    real = RangeAssignor.assign

    def generous(self: Any, counts: Any, subscriptions: Mapping[str, Any], instance_ids: Any) -> Any:
        shares = dict(real(self, counts, subscriptions, instance_ids))
        richest = max(shares.values(), key=lambda share: len(share.partitions))
        return {name: copy(richest) for name in shares} if len(shares) > 1 else shares

    patch.setattr(RangeAssignor, "assign", generous)


@plant("S3", "L5", hint=2)
def an_assignor_leaves_a_partition_out(patch: MonkeyPatch) -> None:
    real = RangeAssignor.assign

    def forgetful(self: Any, counts: Mapping[str, int], subscriptions: Any, instance_ids: Any) -> Any:
        return real(self, {topic: max(count - 1, 0) for topic, count in counts.items()}, subscriptions, instance_ids)

    patch.setattr(RangeAssignor, "assign", forgetful)


@plant("S2", hint=11)
def a_leader_assigns_what_nobody_asked_for(patch: MonkeyPatch) -> None:
    real = RangeAssignor.assign

    def pushy(self: Any, counts: Mapping[str, int], subscriptions: Mapping[str, Any], instance_ids: Any) -> Any:
        topics = tuple(sorted({topic for one in subscriptions.values() for topic in one.topics}))
        wider = {name: type(one)(topics) for name, one in subscriptions.items()}
        return real(self, counts, wider, instance_ids)

    patch.setattr(RangeAssignor, "assign", pushy)


@plant("S1")
def an_eager_member_joins_with_its_hands_full(patch: MonkeyPatch) -> None:
    real = standing.Standing.prepare

    def hasty(self: Any, reason: str) -> None:
        real(self, reason)
        self.callbacks.forget_waiting()

    patch.setattr(standing.Standing, "prepare", hasty)


@plant("L5", "S7")
def commits_are_not_sent(patch: MonkeyPatch) -> None:
    patch.setattr(classic_member, "send_commit_if_possible", lambda member: None)


@plant("S11")
def a_member_commits_one_more_than_it_has_seen(patch: MonkeyPatch) -> None:
    real = offsets.commit

    def eager(groups: Any, request: OffsetCommitRequest, *rest: Any) -> None:
        for topic in request.topics:
            for one in topic.partitions:
                one.committed_offset += 1
        real(groups, request, *rest)

    patch.setattr(coordinator_shard, "commit", eager)


@plant("S8", "S7")
def the_first_commit_of_a_partition_wins(patch: MonkeyPatch) -> None:
    real = offsets._position

    def oldest(index: int, record: Record | None, topic_id: Any) -> Any:
        first = _first.setdefault(id(record.key), record) if record is not None else None
        return real(index, first, topic_id)

    _first: dict[int, Record] = {}
    patch.setattr(offsets, "_position", oldest)


@plant("S13", hint=61)
def of_two_static_members_both_live(patch: MonkeyPatch) -> None:
    real = classic_group.ClassicGroup.check_member

    def kind(self: Any, member_id: str, instance_id: str | None) -> ErrorCode:
        code: ErrorCode = real(self, member_id, instance_id)
        return ErrorCode.NONE if code is ErrorCode.FENCED_INSTANCE_ID else code

    patch.setattr(classic_group.ClassicGroup, "check_member", kind)  # KAFKA-8500
