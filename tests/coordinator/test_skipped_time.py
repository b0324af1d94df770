"""A clock that jumps: the dead expire, and whoever lives has as much time left as before."""

from __future__ import annotations

import pytest

from kohort.coordinator import Effects, GroupConfig, GroupState, SessionTimeout
from kohort.coordinator.timers import HeldHeartbeatsDue, RebalanceTimeout, SyncTimeout
from kohort.errors import ErrorCode
from kohort.group_events import Cause, MemberGone
from kohort.model import Millis
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordinator.held_group import HeldGroup
from tests.coordinator.shell import Shell

DAY: Millis = 86_400_000


@pytest.fixture
def shell() -> Shell:
    return Shell(GroupConfig(initial_rebalance_delay_ms=0))


def gone(effects: list[Effects]) -> list[tuple[str, Cause]]:
    events = [event for each in effects for event in each.events]
    return [(event.member.member_id, event.cause) for event in events if isinstance(event, MemberGone)]


def join(shell: Shell, token: str, member_id: str = "", instance_id: str | None = None, version: int = 3) -> Effects:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="any",
        protocols=[JoinGroupRequestProtocol(name="one", metadata=b"")],
    )
    return shell.handle(request, token, version)


def joined(effects: list[Effects]) -> dict[object, JoinGroupResponse]:
    replies = [reply for each in effects for reply in each.replies.items()]
    return {token: reply for token, reply in replies if isinstance(reply, JoinGroupResponse)}


def classic_group(shell: Shell, count: int = 2) -> list[str]:
    """A stable group; returns its members, of which the first leads."""
    join(shell, "first")
    [answer] = joined(list(shell.wait(0))).values()
    ids = [answer.member_id]
    if count > 1:
        told = [join(shell, f"member {number}") for number in range(1, count)]
        told.append(join(shell, "first again", ids[0]))
        answers = joined(told)
        ids += [answers[f"member {number}"].member_id for number in range(1, count)]
    generation = shell.shard.groups["g"].generation
    for number, member_id in enumerate(reversed(ids)):
        assignments = [SyncGroupRequestAssignment(member_id=one, assignment=b"x") for one in ids]
        request = SyncGroupRequest(
            group_id="g",
            member_id=member_id,
            generation_id=generation,
            assignments=assignments if number == count - 1 else [],
        )
        shell.handle(request, f"sync {member_id}", 3)
    assert shell.shard.groups["g"].state is GroupState.STABLE
    return ids


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


def keys(*member_ids: str) -> set[tuple[str, str]]:
    return {("g", member_id) for member_id in member_ids}


def test_the_dead_of_a_classic_group_expire_and_the_living_keep_their_time(shell: Shell) -> None:
    alive, dead = classic_group(shell)
    list(shell.wait(1_000))
    assert gone(shell.skip(44_000, keys(alive))) == [(dead, Cause.SESSION_EXPIRED)]
    list(shell.wait(43_999))
    assert alive in shell.shard.members("g")
    assert gone(list(shell.wait(1))) == [(alive, Cause.SESSION_EXPIRED)]


def test_the_dead_of_a_consumer_group_expire_and_the_living_keep_their_time(shell: Shell) -> None:
    consumer_member(shell, "alive")
    consumer_member(shell, "dead")
    list(shell.wait(1_000))
    assert gone(shell.skip(44_000, keys("alive"))) == [("dead", Cause.SESSION_EXPIRED)]
    list(shell.wait(43_999))
    assert list(shell.shard.members("g")) == ["alive"]
    assert gone(list(shell.wait(1))) == [("alive", Cause.SESSION_EXPIRED)]


def test_a_static_member_that_lives_is_spared_too(shell: Shell) -> None:
    consumer_member(shell, "alive", "one")
    consumer_member(shell, "dead", "two")
    assert gone(shell.skip(DAY, keys("alive"))) == [("dead", Cause.SESSION_EXPIRED)]


def test_a_member_that_is_declared_dead_expires_although_it_is_connected(shell: Shell) -> None:
    consumer_member(shell, "one")
    consumer_member(shell, "two")
    assert gone(shell.skip(DAY, keys("one", "two"), keys("two"))) == [("two", Cause.SESSION_EXPIRED)]


def test_a_member_that_is_connected_and_silent_does_not_live(shell: Shell) -> None:
    consumer_member(shell, "frozen")
    epoch = shell.shard.consumer_groups["g"].members["frozen"].epoch
    shell.handle(ConsumerGroupHeartbeatRequest(group_id="g", member_id="frozen", member_epoch=epoch), "beat", 1)
    list(shell.wait(22_500))
    assert not gone(shell.skip(22_499, keys("frozen")))
    list(shell.wait(1))
    assert gone(shell.skip(DAY, keys("frozen"))) == [("frozen", Cause.SESSION_EXPIRED)]


def test_a_rebalance_goes_on_waiting_for_members_that_live(shell: Shell) -> None:
    slow, dead = classic_group(shell)
    list(shell.wait(1_000))
    join(shell, "new")
    assert shell.shard.groups["g"].state is GroupState.PREPARING_REBALANCE
    told = shell.skip(70_000, keys(slow))
    assert gone(told) == [(dead, Cause.SESSION_EXPIRED)]
    assert slow in shell.shard.members("g") and not joined(told)
    at, _ = shell.timers[RebalanceTimeout("g")]
    assert at == shell.now + 60_000
    assert joined([join(shell, "slow again", slow)]).keys() == {"new", "slow again"}


def test_a_rebalance_does_not_wait_longer_for_the_dead(shell: Shell) -> None:
    ids = classic_group(shell)
    join(shell, "new")
    told = shell.skip(60_000)
    assert dict(gone(told)).keys() == set(ids)
    assert joined(told).keys() == {"new"}


def test_members_that_live_may_take_their_time_to_sync(shell: Shell) -> None:
    first, second = classic_group(shell)
    list(shell.wait(1_000))
    join(shell, "first once more", first)
    join(shell, "second once more", second)
    assert shell.shard.groups["g"].state is GroupState.COMPLETING_REBALANCE
    before, _ = shell.timers[SyncTimeout("g")]
    assert not gone(shell.skip(DAY, keys(first, second)))
    after, _ = shell.timers[SyncTimeout("g")]
    assert after == before + DAY


def test_an_id_that_was_just_handed_out_may_be_used_after_the_jump(shell: Shell) -> None:
    answer = joined([join(shell, "who am I", version=9)])["who am I"]
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    shell.skip(DAY)
    told = [join(shell, "it is me", answer.member_id, version=9), *shell.wait(0)]
    assert joined(told)["it is me"].error_code == ErrorCode.NONE


def test_a_held_heartbeat_stays_held_for_as_long_as_before_and_hears_of_the_dead_at_once() -> None:
    shell = Shell(GroupConfig(initial_rebalance_delay_ms=0, heartbeat_hold_ms=9_000))
    alive, dead = classic_group(shell)
    list(shell.wait(1_000))
    shell.beat(HeartbeatRequest(group_id="g", member_id=alive, generation_id=2), "held")
    [held] = shell.shard.held
    due_in = held.due_at - shell.now
    assert not shell.skip(30_000), "nothing is due yet"
    assert held.due_at - shell.now == due_in
    assert shell.shard.holds_end_at is not None and abs(shell.shard.holds_end_at - held.due_at) < 1_000
    # It lives because its heartbeat is held, whatever is known of connections.
    assert gone(shell.skip(20_000)) == [(dead, Cause.SESSION_EXPIRED)]
    told = shell.apply(shell.shard.answer_news(shell.now))
    assert [getattr(reply, "error_code", None) for reply in told.replies.values()] == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_held_heartbeats_are_answered_in_the_order_of_members_after_a_jump() -> None:
    """Not in an order that is another one in each process, as that of a set of strings."""
    group = HeldGroup().at_rest(12)
    group.shell.skip(1_000)
    told = group.shell.shard.fire(HeldHeartbeatsDue(), group.shell.now + 10_000)
    assert list(told.replies) == group.members


def test_a_jump_does_not_make_an_inferred_interval_longer() -> None:
    shell = Shell(GroupConfig(initial_rebalance_delay_ms=0, heartbeat_hold_ms=9_000, disconnect_grace_ms=-1))
    [alone] = classic_group(shell, 1)
    beat = HeartbeatRequest(group_id="g", member_id=alone, generation_id=1)
    for _ in range(3):
        list(shell.wait(3_000))
        shell.shard.heartbeat(beat, shell.now)
    assert shell.shard.grace_ms("g", alone) == 5_500
    list(shell.wait(1_500))
    shell.skip(40_000, keys(alone))
    list(shell.wait(1_500))
    shell.shard.heartbeat(beat, shell.now)
    assert shell.shard.grace_ms("g", alone) == 5_500


def test_a_member_that_gives_up_partitions_has_as_much_time_for_it_as_before(shell: Shell) -> None:
    shell.set_topics({"orders": 2})
    consumer_member(shell, "one")
    owned = [TopicPartitions(topic_id=shell.topic_id("orders"), partitions=[0, 1])]
    beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="one", member_epoch=2, topic_partitions=owned)
    shell.handle(beat, "owned", 1)
    consumer_member(shell, "two")
    list(shell.wait(2_000))
    shell.handle(ConsumerGroupHeartbeatRequest(group_id="g", member_id="one", member_epoch=2), "revoke", 1)
    assert shell.shard.consumer_groups["g"].members["one"].revoking
    assert not gone(shell.skip(DAY, keys("one", "two")))
    assert gone(list(shell.wait(42_999))) == []
    assert SessionTimeout("g", "one") in shell.timers


def test_a_member_is_expired_by_hand_with_the_cause_of_a_session_that_ended(shell: Shell) -> None:
    consumer_member(shell, "one")
    consumer_member(shell, "two")
    assert gone([shell.apply(shell.shard.expire_member("g", "one", shell.now))]) == [("one", Cause.SESSION_EXPIRED)]
    assert not gone([shell.apply(shell.shard.expire_member("g", "one", shell.now))])
    assert not gone([shell.apply(shell.shard.expire_member("no group", "one", shell.now))])
    assert list(shell.shard.members("g")) == ["two"]
