"""Bugs of what is durable and of failovers; see planting."""

from __future__ import annotations

from typing import Any

from pytest import MonkeyPatch

from kohort.broker.groups.shard import Shard
from kohort.coordinator import shard as coordinator_shard
from kohort.coordinator.classic import join
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.owners import Owners
from kohort.coordinator.effects import Effects
from kohort.coordinator.offsets import commit_fetch, expiry
from kohort.errors import ErrorCode
from kohort.log.memory import MemoryStore
from kohort.sim.environment.disk import DiskStore
from kohort.wire.messages.offset_commit import OffsetCommitRequest
from tests.sim.planting import plant


@plant("S7", "S10", "S8", hint=5)
def an_answer_does_not_wait_for_the_disk(patch: MonkeyPatch) -> None:
    patch.setattr(Shard, "_answer", lambda self, waiter, response: waiter.reply(response))


@plant("S13", "S10", "S7", "S8", "S4", hint=8)
def a_shard_is_not_reloaded_after_a_failed_append(patch: MonkeyPatch) -> None:
    patch.setattr(Shard, "_lost", lambda self, commit: None)


@plant("S7", "S10", hint=1)
def a_load_forgets_committed_offsets(patch: MonkeyPatch) -> None:
    real = coordinator_shard.GroupShard.loaded

    def forgetful(self: Any, now: int) -> Effects:
        for group in self.groups.values():
            group.offsets.clear()
        out: Effects = real(self, now)
        return out

    patch.setattr(coordinator_shard.GroupShard, "loaded", forgetful)


@plant("S9", "S10", "S4", "S8", "S7", hint=215)
def an_append_does_not_check_the_owner_of_the_log(patch: MonkeyPatch) -> None:
    patch.setattr(DiskStore, "_check_owner", lambda self: None)


@plant("S10", "S7", hint=44)
def a_failed_append_is_kept_in_memory(patch: MonkeyPatch) -> None:
    patch.setattr(MemoryStore, "fail", lambda self, pending, error: self.settle(pending))


@plant("S14", hint=412)
def a_static_members_new_id_is_not_written_in_a_rebalance(patch: MonkeyPatch) -> None:
    patch.setattr(join, "keep_new_id", lambda group, instance_id, new_id, out: None)


@plant("S10", "S14", "S12", hint=1)
def a_static_members_new_id_is_not_written_at_all(patch: MonkeyPatch) -> None:
    patch.setattr(join, "take_over", lambda group, now, out: None)  # KAFKA-10284


@plant("S7", "S8")
def a_commit_loses_its_leader_epoch(patch: MonkeyPatch) -> None:
    real = commit_fetch.commit

    def careless(groups: Any, request: OffsetCommitRequest, *rest: Any) -> None:
        for topic in request.topics:
            for partition in topic.partitions:
                partition.committed_leader_epoch = -1
        real(groups, request, *rest)

    patch.setattr(coordinator_shard, "commit", careless)


@plant("S7", hint=6)
def offsets_of_an_active_group_expire(patch: MonkeyPatch) -> None:
    patch.setattr(expiry, "_needs_offsets", lambda group: lambda topic: False)  # KAFKA-13636


@plant("S7", hint=39)
def offsets_of_an_active_consumer_group_expire(patch: MonkeyPatch) -> None:
    real = expiry._needs_offsets

    def only_of_classic_groups(group: Any) -> Any:
        return (lambda topic: False) if isinstance(group, ConsumerGroup) else real(group)

    patch.setattr(expiry, "_needs_offsets", only_of_classic_groups)


@plant("S7", "S11", hint=3)
def offsets_of_a_deleted_topic_are_returned_for_its_successor(patch: MonkeyPatch) -> None:
    patch.setattr(coordinator_shard, "forget_topics", lambda *arguments: None)
    patch.setattr(commit_fetch, "_is_of_another_topic", lambda stored, wanted: False)  # KAFKA-19154


@plant("S10", "S1", hint=3)
def a_load_forgets_the_owners_of_partitions(patch: MonkeyPatch) -> None:
    real = coordinator_shard.GroupShard.loaded

    def forgetful(self: Any, now: int) -> Effects:
        for group in self.consumer_groups.values():
            group.owners = Owners()
        out: Effects = real(self, now)
        return out

    patch.setattr(coordinator_shard.GroupShard, "loaded", forgetful)


@plant("S10", hint=9)
def a_load_forgets_the_number_of_members_per_assignor(patch: MonkeyPatch) -> None:
    real = coordinator_shard.GroupShard.loaded

    def forgetful(self: Any, now: int) -> Effects:
        for group in self.consumer_groups.values():
            group.assignors.clear()
        out: Effects = real(self, now)
        return out

    patch.setattr(coordinator_shard.GroupShard, "loaded", forgetful)


@plant("L8", hint=9)
def a_broker_that_leads_again_never_ends_its_holds(patch: MonkeyPatch) -> None:
    real = Shard.resign

    def keep(self: Shard, *code: ErrorCode) -> None:
        ends_at = self._holds_end_at
        real(self, *code)
        self._holds_end_at = ends_at

    patch.setattr(Shard, "resign", keep)
