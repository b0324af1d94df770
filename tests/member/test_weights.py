"""Members that say how much they want beside others, against the coordinator itself."""

from __future__ import annotations

import pytest

from kohort.coordinator import GroupSettings, RequestContext, Weights
from kohort.errors import ErrorCode
from kohort.member import ConsumerMember, ConsumerMemberConfig, CoordinatorFound, Responded, Subscribe, Weigh
from kohort.member.actions import Send
from kohort.wire.codec import decode, encode
from kohort.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.member.world import Host, World


def weighted_world(partitions: int, assignor: str = "weighted", weights: Weights | None = None) -> World:
    world = World({"t": partitions})
    world.shell.settings = GroupSettings(
        assignment_interval_ms=0, assignor=assignor, weights=weights or GroupSettings().weights
    )
    return world


def shares(*hosts: Host) -> list[int]:
    return [len(host.processing) for host in hosts]


def test_a_canary_gets_the_part_that_it_states() -> None:
    world = weighted_world(100)
    old = [world.consumer(f"v1-{n}", "t", weight=19) for n in range(5)]
    canary = world.consumer("v2", "t", weight=5)
    world.run(60_000)
    assert shares(*old, canary) == [19, 19, 19, 19, 19, 5]


def test_a_member_without_a_weight_has_weight_1() -> None:
    world = weighted_world(12)
    plain, double = world.consumer("plain", "t"), world.consumer("double", "t", weight=2)
    world.run(30_000)
    assert shares(plain, double) == [4, 8]


def test_another_weight_moves_partitions_while_the_group_runs() -> None:
    world = weighted_world(12)
    a, b = world.consumer("a", "t", weight=1), world.consumer("b", "t", weight=1)
    world.run(30_000)
    assert shares(a, b) == [6, 6]
    a.handle(Weigh(3.0))
    world.run(30_000)
    assert shares(a, b) == [9, 3]


@pytest.mark.parametrize("assignor", ["uniform", "range", "weighted"])
def test_a_drained_member_stays_and_gets_nothing_under_any_assignor(assignor: str) -> None:
    world = weighted_world(4, assignor)
    a, b = world.consumer("a", "t"), world.consumer("b", "t")
    world.run(30_000)
    a.handle(Weigh(0.0))
    world.run(30_000)
    assert shares(a, b) == [0, 4] and len(world.consumer_group.members) == 2
    a.handle(Weigh(1.0))
    world.run(30_000)
    assert shares(a, b) == [2, 2]


def test_the_log_stores_weights_so_that_a_failover_moves_nothing() -> None:
    world = weighted_world(12)
    a, b = world.consumer("a", "t", weight=3), world.consumer("b", "t", weight=0)
    world.run(30_000)
    world.fail_over()
    # A change before any heartbeat: the new coordinator plans from what the log says.
    c = world.consumer("c", "t", weight=1)
    world.run(30_000)
    assert shares(a, b, c) == [9, 0, 3]


def test_a_returning_member_sends_its_weight_again() -> None:
    world = weighted_world(12)
    a, b = world.consumer("a", "t", weight=2), world.consumer("b", "t", weight=1)
    world.run(30_000)
    a.crash()
    world.run(100_000)
    again = world.consumer("a2", "t", weight=2)
    world.run(60_000)
    assert shares(again, b) == [8, 4]


def test_a_weight_set_by_an_operator_precedes_the_members_own() -> None:
    world = weighted_world(12, weights=Weights((("a", 1.0),)))
    a, b = world.consumer("a", "t", weight=5), world.consumer("b", "t", weight=2)
    world.run(30_000)
    assert shares(a, b) == [4, 8]


@pytest.mark.parametrize("weight", [-0.5, -2.0, 1e-10, 2e9, float("inf"), float("nan")])
def test_a_weight_that_is_none_is_refused(weight: float) -> None:
    world = weighted_world(2)
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
        weight=weight,
    )
    effects = world.shell.shard.handle(request, RequestContext("x", 1, "c", "/1"), 1_000)
    response = effects.replies["x"]
    assert isinstance(response, ConsumerGroupHeartbeatResponse)
    assert response.error_code == ErrorCode.INVALID_REQUEST and "a weight is 0, or between" in str(
        response.error_message
    )
    assert not effects.records


def joining(weight: float | None) -> tuple[ConsumerMember, Send]:
    member = ConsumerMember(ConsumerMemberConfig(group_id="g", member_id="m", weight=weight))
    member.handle(Subscribe(frozenset(["t"])), 0)
    [join] = member.handle(CoordinatorFound(), 100).send
    return member, join


def answer(*, takes_weights: bool, epoch: int = 1) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        member_id="m",
        member_epoch=epoch,
        heartbeat_interval_ms=5_000,
        assignment=Assignment(),
        takes_weights=takes_weights,
    )


def test_a_broker_without_weights_is_a_warning_and_the_member_continues() -> None:
    member, join = joining(0.05)
    actions = member.handle(Responded(join.request, answer(takes_weights=False)), 110)
    assert "does not support weights" in str(actions.warning) and "0.05" in str(actions.warning)
    assert member.generation == 1 and actions.error is None


def test_no_weight_and_no_warning_unless_requested() -> None:
    member, join = joining(None)
    assert isinstance(join.message, ConsumerGroupHeartbeatRequest) and join.message.weight == -1
    assert member.handle(Responded(join.request, answer(takes_weights=False)), 110).warning is None


def test_a_weight_is_sent_once_and_when_it_changes() -> None:
    member, join = joining(2.0)
    assert isinstance(join.message, ConsumerGroupHeartbeatRequest) and join.message.weight == 2
    assert member.handle(Responded(join.request, answer(takes_weights=True)), 110).warning is None
    [changed] = member.handle(Weigh(3.0), 120).send
    assert isinstance(changed.message, ConsumerGroupHeartbeatRequest) and changed.message.weight == 3
    assert changed.message.subscribed_topic_names is None


def test_bytes_without_a_weight_are_those_of_kafka() -> None:
    plain = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=3)
    weighed = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=3, weight=0.05)
    assert encode(plain, 1).endswith(b"\x00") and len(encode(weighed, 1)) == len(encode(plain, 1)) + 11
    assert decode(ConsumerGroupHeartbeatRequest, 1, encode(weighed, 1)).weight == 0.05
