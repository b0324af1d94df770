"""Heartbeats of consumer groups without changes: when they are answered without Effects, and what is not overlooked."""

from __future__ import annotations

import pytest

from kohort.coordinator import GroupConfig, GroupSettings
from kohort.errors import ErrorCode
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OfferedAssignor,
    TopicPartitions,
)
from tests.coordinator.shell import Shell


@pytest.fixture
def shell() -> Shell:
    made = Shell(settings=GroupSettings(assignment_interval_ms=0))
    made.set_topics({"orders": 2})
    return made


def join(shell: Shell, member_id: str, **fields: object) -> ConsumerGroupHeartbeatRequest:
    """A member joins; returns its heartbeat without changes."""
    joining = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        rebalance_timeout_ms=60_000,
        topic_partitions=[],
        subscribed_topic_names=["orders"],
    )
    for name, value in fields.items():
        setattr(joining, name, value)
    epoch = answer(shell, joining).member_epoch
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch)


def answer(shell: Shell, request: ConsumerGroupHeartbeatRequest, client_id: str = "") -> ConsumerGroupHeartbeatResponse:
    (response,) = shell.handle(request, object(), 1, client_id).replies.values()
    assert isinstance(response, ConsumerGroupHeartbeatResponse)
    assert response.error_code == ErrorCode.NONE, response
    return response


def quiet(shell: Shell, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse | None:
    response = shell.shard.quiet_heartbeat(request, shell.now)
    assert response is None or isinstance(response, ConsumerGroupHeartbeatResponse)
    return response


def test_the_answer_without_effects_is_that_with_effects(shell: Shell) -> None:
    beat = join(shell, "a")
    first = quiet(shell, beat)
    assert first == answer(shell, beat)
    assert quiet(shell, beat) is first


def test_a_new_interval_and_a_new_epoch_are_in_the_next_answer(shell: Shell) -> None:
    beat = join(shell, "a")
    before = quiet(shell, beat)
    assert before is not None
    shell.settings = GroupSettings(assignment_interval_ms=0, heartbeat_interval_ms=1_234)
    after = quiet(shell, beat)
    assert after is not None and (before.heartbeat_interval_ms, after.heartbeat_interval_ms) == (5_000, 1_234)
    join(shell, "b")
    epoch = answer(
        shell, ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=beat.member_epoch)
    ).member_epoch
    owned = [TopicPartitions(topic_id=shell.topic_id("orders"), partitions=[0])]
    report = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch, topic_partitions=owned)
    epoch = answer(shell, report).member_epoch
    assert epoch > beat.member_epoch
    later = quiet(shell, ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch))
    assert later is not None and later.member_epoch == epoch


def test_what_may_be_news_is_not_answered_without_effects(shell: Shell) -> None:
    beat = join(shell, "a", instance_id="i")
    epoch = beat.member_epoch
    assert quiet(shell, beat) is not None
    others = [
        ConsumerGroupHeartbeatRequest(group_id="h", member_id="a", member_epoch=epoch),
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="b", member_epoch=epoch),
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch - 1),
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch, topic_partitions=[]),
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch, instance_id="j"),
    ]
    assert [quiet(shell, other) for other in others] == [None] * len(others)
    join(shell, "b")
    assert quiet(shell, beat) is None, "there is a new target"


def described(shell: Shell) -> tuple[str | None, str, str]:
    """Rack, client ID and host of the only member."""
    request = ConsumerGroupDescribeRequest(group_ids=["g"])
    (response,) = shell.handle(request, object(), 1).replies.values()
    assert isinstance(response, ConsumerGroupDescribeResponse)
    (member,) = response.groups[0].members
    return member.rack_id, member.client_id, member.client_host


def test_a_heartbeat_that_only_names_another_rack_or_comes_from_another_host_changes_its_member(shell: Shell) -> None:
    beat = join(shell, "a", rack_id="r1")
    assert described(shell) == ("r1", "", "/")
    answer(shell, beat, "elsewhere")
    assert described(shell) == ("r1", "elsewhere", "/elsewhere")
    beat.rack_id = "r2"
    answer(shell, beat, "elsewhere")
    assert described(shell) == ("r2", "elsewhere", "/elsewhere")


def test_a_group_tells_since_when_it_has_its_target(shell: Shell) -> None:
    shell.now += 5_000
    join(shell, "a")
    at = shell.now
    shell.now += 5_000
    request = ConsumerGroupDescribeRequest(group_ids=["g"])
    (response,) = shell.handle(request, object(), 1).replies.values()
    assert isinstance(response, ConsumerGroupDescribeResponse)
    assert response.groups[0].target_since_ms == at


@pytest.mark.parametrize(("size", "code"), [(100, ErrorCode.NONE), (101, ErrorCode.INVALID_REQUEST)])
def test_offered_assignors_and_their_data_are_as_large_as_a_subscription_at_most(size: int, code: ErrorCode) -> None:
    shell = Shell(GroupConfig(max_subscription_bytes=100))
    shell.set_topics({"orders": 2})
    offers = [OfferedAssignor(name="mine", user_data=bytes(size - 4 - 5)), OfferedAssignor(name="yours")]
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        rebalance_timeout_ms=60_000,
        topic_partitions=[],
        subscribed_topic_names=["orders"],
        offered_assignors=offers,
    )
    (response,) = shell.handle(request, object(), 1).replies.values()
    assert isinstance(response, ConsumerGroupHeartbeatResponse)
    assert response.error_code == code
