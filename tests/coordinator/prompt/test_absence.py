"""How long a member whose connection is gone may stay away, and what follows when it does."""

from dataclasses import replace

import pytest

from kohort.coordinator import INFERRED_GRACE, GroupConfig, GroupSettings, inferred_grace_ms, shortened_grace_ms
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


def joining(instance_id: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        group_instance_id=instance_id,
        protocol_type="any",
        protocols=[JoinGroupRequestProtocol(name="one", metadata=b"")],
    )


def classic_member(shell: Shell, rhythm_ms: int, instance_id: str | None = None) -> str:
    """The only member of a group, which has sent heartbeats in that rhythm."""
    shell.handle(joining(instance_id), "join", 5 if instance_id is not None else 3)
    list(shell.wait(0))
    [member_id] = shell.shard.members("g")
    syncing = SyncGroupRequest(group_id="g", member_id=member_id, generation_id=1)
    shell.handle(syncing, "sync", 3)
    for _ in range(3):
        shell.now += rhythm_ms
        shell.shard.heartbeat(HeartbeatRequest(group_id="g", member_id=member_id, generation_id=1), shell.now)
    return member_id


def gone(shell: Shell, member_id: str) -> list[MemberGone]:
    effects = shell.apply(shell.shard.connection_lost("g", member_id, shell.now - 500, shell.now))
    return [event for event in effects.events if isinstance(event, MemberGone)]


def test_a_member_of_a_consumer_group_is_removed_with_a_cause_of_its_own(shell: Shell) -> None:
    consumer_member(shell, "a")
    assert shell.shard.grace_ms("g", "a") == 5_500
    [event] = gone(shell, "a")
    assert (event.cause, event.silent_since) == (Cause.CONNECTION_LOST, shell.now - 500)
    assert not shell.shard.members("g")


@pytest.mark.parametrize(("rhythm_ms", "grace_ms"), [(3_000, 5_500), (2_000, 4_000), (100, 2_500), (20_000, 23_500)])
def test_a_classic_member_has_as_long_as_its_own_rhythm_suggests(shell: Shell, rhythm_ms: int, grace_ms: int) -> None:
    member_id = classic_member(shell, rhythm_ms)
    assert shell.shard.grace_ms("g", member_id) == grace_ms
    [event] = gone(shell, member_id)
    assert (event.cause, event.silent_since) == (Cause.CONNECTION_LOST, shell.now - 500)


@pytest.mark.parametrize("holds", [True, False])
def test_a_member_of_a_consumer_group_has_until_the_heartbeat_that_it_was_told_to_send(*, holds: bool) -> None:
    # With nothing else to send, its client needs no connection before.
    config = LEARNED if holds else replace(LEARNED, heartbeat_hold_ms=0)
    shell = Shell(config, settings=GroupSettings(heartbeat_interval_ms=15_000))
    consumer_member(shell, "a")
    assert shell.shard.grace_ms("g", "a") == 15_500
    assert shell.shard.short_grace_ms("g", "a", ("/", "")) == 1_500


def test_a_process_that_is_very_likely_gone_has_less_time(shell: Shell) -> None:
    consumer_member(shell, "a")
    consumer_member(shell, "static", "instance")
    found = [shell.shard.short_grace_ms("g", member, ("/", "")) for member in ("a", "static", "unknown")]
    assert found == [1_500, None, None]
    # Others that spoke for the member say nothing about its process when they go.
    assert [shell.shard.short_grace_ms("g", "a", who) for who in (("/", "other"), ("/other", ""))] == [None, None]


@pytest.mark.parametrize(("session_ms", "short"), [(6_000, 1_500), (900, None)])
def test_the_time_of_a_process_that_is_gone_is_never_longer_than_that_of_another(
    session_ms: int, short: int | None
) -> None:
    grace = inferred_grace_ms(3_000, session_ms)
    assert shortened_grace_ms(grace, INFERRED_GRACE, ("/", "app"), ("/", "app")) == short


@pytest.mark.parametrize("configured", [0, 1_000, 30_000])
def test_a_grace_period_that_an_operator_sets_is_never_shorter(configured: int) -> None:
    shell = Shell(replace(LEARNED, disconnect_grace_ms=configured))
    consumer_member(shell, "a")
    assert shell.shard.short_grace_ms("g", "a", ("/", "")) is None


def test_a_static_member_has_its_session(shell: Shell) -> None:
    consumer_member(shell, "a", "instance")
    assert shell.shard.grace_ms("g", "a") is None
    assert not gone(shell, "a")
    assert set(shell.shard.members("g")) == {"a"}


def removed(shell: Shell, member_id: str) -> MemberGone:
    """Return the end of the session of a member that says nothing more."""
    events = [event for effects in shell.wait(45_000) for event in effects.events]
    [event] = [event for event in events if isinstance(event, MemberGone)]
    assert (event.member.member_id, event.cause) == (member_id, Cause.SESSION_EXPIRED)
    return event


def test_a_member_whose_session_expires_was_heard_at_its_last_heartbeat(shell: Shell) -> None:
    member_id = classic_member(shell, 3_000)
    heard = shell.now
    assert removed(shell, member_id).silent_since == heard


def test_a_consumer_group_member_was_heard_at_its_last_heartbeat(shell: Shell) -> None:
    consumer_member(shell, "a")
    heard = shell.now
    assert removed(shell, "a").silent_since == heard


def test_a_static_member_that_returns_was_heard_at_its_last_heartbeat(shell: Shell) -> None:
    classic_member(shell, 3_000, "instance")
    heard = shell.now
    shell.now += 9_000
    effects = shell.handle(joining("instance"), "return", 5)
    [event] = [event for event in effects.events if isinstance(event, MemberGone)]
    assert (event.cause, event.silent_since) == (Cause.STATIC_MEMBER_RETURNED, heard)


def test_a_member_that_left_meanwhile_is_ignored(shell: Shell) -> None:
    assert shell.shard.grace_ms("g", "a") is None
    assert not gone(shell, "a")
