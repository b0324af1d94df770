"""A consumer group that is loaded from a log which lost something, or from one that another clock wrote."""

from __future__ import annotations

from kohort.assignor.server import PartitionNumbers
from kohort.coordinator import GroupConfig, GroupSettings, GroupShard
from kohort.wire.group_log import group_record
from kohort.wire.group_log.group_bytes import decode_key, decode_value, encode_value
from kohort.wire.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from tests.coordinator.consumer_checks import Epochs
from tests.member.world import World


class ForgivingWorld(World):
    """While what was lost is not noticed by all, members may have the same partition."""

    forgives = False

    def check_exclusive(self) -> None:
        if not self.forgives:
            super().check_exclusive()


def moved_group() -> ForgivingWorld:
    """Two members share four partitions, and one of them was there before the other."""
    world = ForgivingWorld({"t": 4})
    world.shell.settings = GroupSettings(assignment_interval_ms=1_000)
    world.consumer("a", "t")
    world.run(10_000)
    world.consumer("b", "t")
    world.run(30_000)
    assert len(world.owners()) == 4
    return world


def test_whichever_record_is_lost_the_group_stabilizes_without_shared_partitions() -> None:
    # A bit that flips costs its whole batch, and what is left may contradict itself: a member ahead of its group, or
    # two that have, or should have, one partition.
    for lost in range(len(moved_group().shell.log)):
        world = moved_group()
        del world.shell.log[lost]
        world.shell.epochs = Epochs()  # they may fall, this once
        world.forgives = True
        world.fail_over()
        world.run(120_000)
        world.forgives = False
        world.check_exclusive()
        assert all(host.is_settled for host in world.hosts), f"without record {lost}"


def test_a_target_of_the_future_is_not_waited_for() -> None:
    # The broker before had its clock an hour ahead: the interval since its target would last that hour.
    world = moved_group()
    for place, (key, value) in enumerate(world.shell.log):
        decoded = decode_key(key)
        if isinstance(decoded, ConsumerGroupTargetAssignmentMetadataKey) and value is not None:
            target = decode_value(decoded, value)
            assert isinstance(target, ConsumerGroupTargetAssignmentMetadataValue)
            target.assignment_timestamp += 3_600_000
            world.shell.log[place] = key, encode_value(target)
    world.fail_over()
    world.consumer("c", "t")
    world.run(30_000)
    assert len(set(world.owners().values())) == 3


def test_a_members_assignment_and_target_are_one_small_value_before_and_after_a_failover() -> None:
    # Ten partitions as a frozenset of integers take half the memory of a member.
    world = World({"t": 10})
    world.consumer("a", "t")
    world.run(10_000)
    for _ in range(2):
        group = world.shell.shard.consumer_groups["g"]
        ((member_id, member),) = group.members.items()
        (numbers,) = member.assigned.by_topic.values()
        assert type(numbers) is PartitionNumbers and numbers == frozenset(range(10))
        assert member.assigned is group.targets[member_id]
        world.fail_over()


def test_only_members_that_claim_the_same_partition_are_removed() -> None:
    world = moved_group()
    world.consumer("c", "t")
    world.run(30_000)
    group = world.shell.shard.consumer_groups["g"]
    shares = {member_id: sorted(member.assigned) for member_id, member in group.members.items()}
    greedy, robbed, other = sorted(shares, key=lambda member_id: len(shares[member_id]))
    for place, (key, value) in enumerate(world.shell.log):
        decoded = decode_key(key)
        if isinstance(decoded, ConsumerGroupCurrentMemberAssignmentKey) and decoded.member_id == greedy and value:
            current = decode_value(decoded, value)
            assert isinstance(current, ConsumerGroupCurrentMemberAssignmentValue)
            for topic in current.assigned_partitions:
                topic.partitions, topic.assignment_epochs = [shares[robbed][0][1]], [current.member_epoch]
            world.shell.log[place] = key, encode_value(current)
    world.shell.epochs = Epochs()
    world.forgives = True
    world.fail_over()
    assert world.shell.shard.consumer_groups["g"].members.keys() == {other}


def test_a_static_member_that_was_replaced_and_is_removed_late_does_not_hide_the_one_that_replaced_it() -> None:
    # A bit that flips may cost the removal of the member, which then stays until its session expires.
    shard = GroupShard(GroupConfig(), str)
    shard.replay(group_record(ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=1)))
    for member_id in ("old", "new"):
        key = ConsumerGroupMemberMetadataKey(group_id="g", member_id=member_id)
        value = ConsumerGroupMemberMetadataValue(instance_id="i0", rebalance_timeout_ms=20_000)
        shard.replay(group_record(key, value))
    shard.replay_all(shard.loaded(1_000).records)
    shard.replay_all(shard.expire_member("g", "old", 1_000).records)
    group = shard.consumer_groups["g"]
    assert group.members.keys() == {"new"}
    assert group.static_ids == {"i0": "new"}
