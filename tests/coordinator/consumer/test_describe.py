"""Additions of ConsumerGroupDescribe to Apache Kafka's response: since when each member has its partitions."""

from __future__ import annotations

from kohort.coordinator import GroupSettings
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from tests.member.world import World


def since(world: World) -> dict[str, int]:
    request = ConsumerGroupDescribeRequest(group_ids=["g"])
    response = world.shell.handle(request, "describe", 1).replies["describe"]
    assert isinstance(response, ConsumerGroupDescribeResponse)
    return {member.member_id: member.since_ms for member in response.groups[0].members}


def test_since_when_a_member_has_what_it_has_is_its_own() -> None:
    world = World({"t": 2, "u": 2})
    world.shell.settings = GroupSettings(assignment_interval_ms=0)
    world.consumer("a", "t")
    world.run(10_000)
    first = since(world)["a"]
    assert world.now - 10_000 < first <= world.now - 9_000
    # Its epoch rises with the group, and nothing else happens to it.
    world.consumer("b", "u")
    world.run(30_000)
    quiet = since(world)
    assert quiet["a"] == first < quiet["b"] <= world.now - 20_000
    world.run(30_000)
    assert since(world) == quiet


def test_after_a_failover_the_reason_is_unknown_until_the_next_step() -> None:
    world = World({"t": 2})
    world.consumer("a", "t")
    world.run(10_000)
    world.fail_over()
    assert since(world) == {"a": -1}
    world.add_partitions("t", 4)
    world.run(30_000)
    assert world.now - 31_000 < since(world)["a"] <= world.now


def test_a_member_that_joins_and_gets_nothing_has_nothing_since_then() -> None:
    world = World({"t": 1})
    world.shell.settings = GroupSettings(assignment_interval_ms=0)
    world.consumer("a", "t")
    world.run(30_000)
    world.consumer("b", "t")
    world.run(30_000)
    found = since(world)
    assert world.now - 60_000 < found["a"] <= world.now - 50_000
    assert world.now - 30_000 < found["b"] <= world.now - 20_000
