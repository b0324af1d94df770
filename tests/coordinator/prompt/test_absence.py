"""How long a member whose connection is gone may stay away, and what follows when it does."""

import pytest

from kohort.coordinator import GroupConfig
from kohort.group_events import Cause, MemberGone
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.sync_group import SyncGroupRequest
from tests.coordinator.shell import Shell

LEARNED = GroupConfig(initial_rebalance_delay_ms=0, disconnect_grace_ms=-1, heartbeat_hold_ms=9_000)


@pytest.fixture
def shell() -> Shell:
    return Shell(LEARNED)


def consumer_member(shell: Shell, member_id: str, instance_id: str | None = None) -> None:
    joining = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        instance_id=instance_id,
        rebalance_timeout_ms=60_000,
        topic_partitions=[],
        subscribed_topic_names=["orders"],
    )
    shell.handle(joining, f"join {member_id}", 1)


def classic_member(shell: Shell, rhythm_ms: int) -> str:
    """The only member of a group, which has sent heartbeats in that rhythm."""
    protocols = [JoinGroupRequestProtocol(name="one", metadata=b"")]
    joining = JoinGroupRequest(
        group_id="g", session_timeout_ms=45_000, rebalance_timeout_ms=60_000, protocol_type="any", protocols=protocols
    )
    shell.handle(joining, "join", 3)
    list(shell.wait(0))
    [member_id] = shell.shard.members("g")
    syncing = SyncGroupRequest(group_id="g", member_id=member_id, generation_id=1)
    shell.handle(syncing, "sync", 3)
    for _ in range(3):
        shell.now += rhythm_ms
        shell.shard.heartbeat(HeartbeatRequest(group_id="g", member_id=member_id, generation_id=1), shell.now)
    return member_id


def gone(shell: Shell, member_id: str) -> list[MemberGone]:
    effects = shell.apply(shell.shard.connection_lost("g", member_id, shell.now))
    return [event for event in effects.events if isinstance(event, MemberGone)]


def test_a_member_of_a_consumer_group_is_removed_with_a_cause_of_its_own(shell: Shell) -> None:
    consumer_member(shell, "a")
    assert shell.shard.grace_ms("g", "a") == 5_500
    [event] = gone(shell, "a")
    assert event.cause is Cause.CONNECTION_LOST
    assert not shell.shard.members("g")


@pytest.mark.parametrize(("rhythm_ms", "grace_ms"), [(3_000, 5_500), (2_000, 4_000), (100, 2_500), (20_000, 23_500)])
def test_a_classic_member_has_as_long_as_its_own_rhythm_suggests(shell: Shell, rhythm_ms: int, grace_ms: int) -> None:
    member_id = classic_member(shell, rhythm_ms)
    assert shell.shard.grace_ms("g", member_id) == grace_ms
    [event] = gone(shell, member_id)
    assert event.cause is Cause.CONNECTION_LOST


def test_a_static_member_has_its_session(shell: Shell) -> None:
    consumer_member(shell, "a", "instance")
    assert shell.shard.grace_ms("g", "a") is None
    assert not gone(shell, "a")
    assert set(shell.shard.members("g")) == {"a"}


def test_a_member_that_left_meanwhile_is_ignored(shell: Shell) -> None:
    assert shell.shard.grace_ms("g", "a") is None
    assert not gone(shell, "a")
