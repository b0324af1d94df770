"""A static member whose heartbeat is held, and that another process replaces."""

from __future__ import annotations

import pytest

from kohort.coordinator import WaitingRequest
from kohort.errors import ErrorCode
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest
from tests.coordinator.held_group import HeldGroup


def join(group: HeldGroup) -> str:
    """Join as the instance `i`; return the member ID."""
    answer = group.answers[group.join(version=5, instance_id="i")]
    assert isinstance(answer, JoinGroupResponse)
    return answer.member_id


@pytest.mark.parametrize("version", [3, 2], ids=["with the instance ID", "before instance IDs"])
def test_a_replaced_static_member_is_fenced_while_its_heartbeat_is_held(version: int) -> None:
    group = HeldGroup()
    first = join(group)
    sync = SyncGroupRequest(group_id="g", generation_id=group.generation, member_id=first, group_instance_id="i")
    group.shell.handle(sync, "the first process syncs", 3)
    instance_id = "i" if version == 3 else None
    beat = HeartbeatRequest(
        group_id="g", generation_id=group.generation, member_id=first, group_instance_id=instance_id
    )
    assert not group.shell.beat(beat, "beat").replies, "it is held"
    second = join(group)
    assert second != first and group.members == [second]
    assert group.answer_to("beat") is (ErrorCode.FENCED_INSTANCE_ID if version == 3 else ErrorCode.UNKNOWN_MEMBER_ID)
    assert not group.shell.shard.release("beat", WaitingRequest.REQUEST, group.shell.now).replies
