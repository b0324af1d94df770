"""Requests of bad clients that a coordinator must reject."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kohort.coordinator import GroupConfig, GroupShard
from kohort.sim.faults import bad_clients
from kohort.sim.faults.bad_requests import TargetGroup
from kohort.wire.group_log import group_record
from kohort.wire.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)


@pytest.mark.parametrize(("epoch", "asks_as"), [(1, "m"), (0, TargetGroup("g").member_id)])
def test_no_request_is_sent_as_a_member_at_generation_0_because_one_with_generation_0_would_be_valid(
    epoch: int, asks_as: str
) -> None:
    # A classic group became a consumer group in its first rebalance, so its members are at epoch 0.
    shard = GroupShard(GroupConfig(), str)
    shard.replay(group_record(ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=1)))
    shard.replay(
        group_record(
            ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
            ConsumerGroupMemberMetadataValue(rebalance_timeout_ms=20_000),
        )
    )
    shard.replay(
        group_record(
            ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
            ConsumerGroupCurrentMemberAssignmentValue(member_epoch=epoch),
        )
    )
    settings = SimpleNamespace(group="g", topics=("t",), instance=None, protocol="classic")
    application = SimpleNamespace(settings=settings, membership=SimpleNamespace(member_id="m", generation=1))
    live = {bad_clients._shard("g"): SimpleNamespace(group=shard.consumer_groups.get)}
    world: Any = SimpleNamespace(observations=SimpleNamespace(live=live), applications=[application])
    assert bad_clients._victim(world, "g").member_id == asks_as
