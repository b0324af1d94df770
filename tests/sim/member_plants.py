"""Bugs of assignors, of members, and of what is committed; see planting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any

from pytest import MonkeyPatch

from kohort.assignor import sticky, uniform
from kohort.assignor.range import RangeAssignor
from kohort.assignor.server.uniform import UniformPlan
from kohort.assignor.user_data import decode_claim
from kohort.coordinator import shard as coordinator_shard
from kohort.coordinator.classic import group as classic_group
from kohort.coordinator.consumer import member_update, target
from kohort.coordinator.offsets import commit_fetch
from kohort.errors import ErrorCode
from kohort.member.classic import member as classic_member
from kohort.member.classic import state
from kohort.wire.group_log import CommittedOffset
from kohort.wire.messages.consumer_protocol import Assignment
from kohort.wire.messages.offset_commit import OffsetCommitRequest
from tests.sim.planting import plant


@plant("S1", hint=2)
def an_assignor_assigns_a_partition_twice(patch: MonkeyPatch) -> None:
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


@plant("S2", hint=15)
def a_leader_assigns_topics_that_a_member_does_not_want(patch: MonkeyPatch) -> None:
    real = RangeAssignor.assign

    def pushy(self: Any, counts: Mapping[str, int], subscriptions: Mapping[str, Any], instance_ids: Any) -> Any:
        topics = tuple(sorted({topic for subscription in subscriptions.values() for topic in subscription.topics}))
        wider = {name: type(subscription)(topics) for name, subscription in subscriptions.items()}
        return real(self, counts, wider, instance_ids)

    patch.setattr(RangeAssignor, "assign", pushy)


@plant("S1")
def an_eager_member_joins_without_revoking_its_partitions(patch: MonkeyPatch) -> None:
    real = state.ClassicState.prepare

    def hasty(self: Any, reason: str) -> None:
        real(self, reason)
        self.callbacks.forget_waiting()

    patch.setattr(state.ClassicState, "prepare", hasty)


@plant("L5", "S7", hint=1)
def commits_are_not_sent(patch: MonkeyPatch) -> None:
    patch.setattr(classic_member, "send_commit_if_possible", lambda member: None)


@plant("S11")
def a_member_commits_one_record_more_than_it_processed(patch: MonkeyPatch) -> None:
    real = commit_fetch.commit

    def eager(groups: Any, request: OffsetCommitRequest, *rest: Any) -> None:
        for topic in request.topics:
            for partition in topic.partitions:
                partition.committed_offset += 1
        real(groups, request, *rest)

    patch.setattr(coordinator_shard, "commit", eager)


@plant("S8", "S7", hint=6)
def later_commits_of_a_partition_are_ignored(patch: MonkeyPatch) -> None:
    real = commit_fetch._positions

    def oldest(stored: Mapping[int, CommittedOffset], wanted: Iterable[int], topic_id: Any) -> Any:
        # Kept with the offsets of the topic in one shard: their ID must not become that of others.
        _, first = _first.setdefault(id(stored), (stored, {}))
        for index in wanted:
            if index in stored:
                first.setdefault(index, stored[index])
        return real({index: first[index] for index in wanted if index in stored}, wanted, topic_id)

    _first: dict[int, tuple[Mapping[int, CommittedOffset], dict[int, CommittedOffset]]] = {}
    patch.setattr(commit_fetch, "_positions", oldest)


@plant("S13", hint=2)
def a_replaced_static_member_is_not_fenced(patch: MonkeyPatch) -> None:
    real = classic_group.ClassicGroup.check_member

    def kind(self: Any, member_id: str, instance_id: str | None) -> ErrorCode:
        code: ErrorCode = real(self, member_id, instance_id)
        return ErrorCode.NONE if code is ErrorCode.FENCED_INSTANCE_ID else code

    patch.setattr(classic_group.ClassicGroup, "check_member", kind)  # KAFKA-8500


@plant("S3", "S2", hint=2)
def an_assignor_assigns_everything_to_one_member(patch: MonkeyPatch) -> None:
    real = RangeAssignor.assign

    def greedy(self: Any, counts: Any, subscriptions: Mapping[str, Any], instance_ids: Any) -> Any:
        shares = real(self, counts, subscriptions, instance_ids)
        everything = [partition for share in shares.values() for partition in share.partitions]
        return {name: Assignment(everything if name == min(shares) else []) for name in shares}

    patch.setattr(RangeAssignor, "assign", greedy)


@plant("S2", hint=2)
def an_assignor_assigns_partitions_that_do_not_exist(patch: MonkeyPatch) -> None:
    real = RangeAssignor.assign

    def inventive(self: Any, counts: Mapping[str, int], subscriptions: Any, instance_ids: Any) -> Any:
        return real(self, {topic: count + 1 for topic, count in counts.items()}, subscriptions, instance_ids)

    patch.setattr(RangeAssignor, "assign", inventive)


@plant("S3", hint=120)
def a_sticky_assignor_uses_outdated_claims(patch: MonkeyPatch) -> None:
    patch.setattr(sticky, "_last", lambda subscription: decode_claim(subscription.user_data))


@plant("S3", hint=9)
def a_sticky_assignor_forgets_the_previous_owners(patch: MonkeyPatch) -> None:
    patch.setattr(uniform, "_keep", lambda owned, quota, spare: {member: [] for member in sorted(owned)})


@plant("S3", hint=5)
def no_partition_moves_to_a_new_member(patch: MonkeyPatch) -> None:
    patch.setattr(UniformPlan, "_level", lambda self: None)


@plant("S3", hint=5)
def a_target_is_computed_without_the_previous_target(patch: MonkeyPatch) -> None:
    real = target.update_target

    def afresh(groups: Any, group: Any, *rest: Any) -> Any:
        if group.epoch > group.target_epoch:
            group.planning.begin_anew()
        return real(groups, group, *rest)

    patch.setattr(UniformPlan, "restore", lambda self, targets: None)
    patch.setattr(member_update, "update_target", afresh)
