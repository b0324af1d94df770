"""Partitions that change hands in consumer groups, members that do not give them up, static members (KIP-848)."""

from __future__ import annotations

import asyncio
import functools

from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.interop.conversation.consumer_members import PATIENCE_ROUNDS, ConsumerMember, described, settle, topic
from tests.interop.conversation.stage import Stage, scene

consumer = functools.partial(scene, part="consumer")

_GROUP, _SET = 32, 0


@consumer
async def partitions_change_hands(s: Stage) -> None:
    """Move partitions with the range assignor, whose result is fixed: revoke, report it, take."""
    orders = await topic(s, "orders", 4)
    a, b, c = (ConsumerMember(s, name) for name in "abc")
    await a.joins("a joins", [orders], server_assignor="range")
    await b.joins("b joins and waits", [orders], server_assignor="range")
    await described(s, "b has nothing")
    await a.beat("a is told what to keep")
    await described(s, "a has not given up")
    await a.beat("a is told once")
    await a.beat("a still owns all", owns={orders: [0, 1, 2, 3]})
    await a.beat("a gave up less", owns={orders: [0, 1, 2]})
    await b.beat("b waits")
    await a.acknowledges("a gave up")
    await described(s, "2 and 3 are free")
    await b.beat("b takes them")
    await b.acknowledges("b owns them")
    await described(s, "both have theirs")
    await c.joins("c joins", [orders], server_assignor="range")
    await described(s, "everybody moves")
    await b.beat("b is told")
    await a.leaves("a leaves meanwhile")
    await described(s, "before b knows")
    await b.acknowledges("b gave up what it was told")
    await described(s, "b at the new epoch")
    await settle(b, c)
    await described(s, "settled")
    await c.joins("c forgot all and joins again", [orders], server_assignor="range")
    await settle(b, c)
    await b.leaves("b leaves")
    await c.beat("c gets the rest")
    await described(s, "c alone")


@consumer
async def the_majoritys_assignor(s: Stage) -> None:
    """The assignor that most members ask for computes; without requests, the broker's first one does."""
    orders = await topic(s, "orders", 3)
    a, b, c = (ConsumerMember(s, name) for name in "abc")
    await a.joins("a joins", [orders], server_assignor="range")
    await described(s, "by range")
    await b.joins("b joins", [orders], server_assignor="uniform")
    await c.joins("c joins", [orders], server_assignor="uniform")
    await settle(a, b, c)
    await described(s, "by uniform")
    await b.leaves("b leaves")
    await c.beat("c wants range", server_assignor="range")
    await settle(a, c)
    await described(s, "by range again")


@consumer
async def a_member_that_does_not_give_up(s: Stage) -> None:
    """The rebalance timeout is each member's own, and only runs while it owes something."""
    orders = await topic(s, "orders", 2)
    a, b = ConsumerMember(s, "a"), ConsumerMember(s, "b")
    await a.joins("a joins", [orders], server_assignor="range", rebalance_timeout_ms=700)
    await asyncio.sleep(1.0)
    await a.beat("a may be as slow as it likes while nothing is asked of it")
    await b.joins("b joins", [orders], server_assignor="range", rebalance_timeout_ms=700)
    await a.beat("a is told")
    await _until_members(s, 1)
    await a.acknowledges("a is too late")
    await described(s, "b alone")
    await b.beat("b has all")
    await a.joins("a comes back", [orders], server_assignor="range")
    await settle(a, b)
    await described(s, "both are in")


@consumer
async def a_session_that_ends(s: Stage) -> None:
    """The session timeout is the group's, from its configuration."""
    orders = await topic(s, "orders", 2)
    await _configure(s, {"consumer.session.timeout.ms": "3000", "consumer.heartbeat.interval.ms": "500"})
    a, b = ConsumerMember(s, "a"), ConsumerMember(s, "b")
    await a.joins("a joins, and is told the group's interval", [orders])
    await b.joins("b joins", [orders])
    await settle(a, b)
    for _ in range(40):
        await asyncio.sleep(0.1)
        await a.quietly_beats()
    await described(s, "b was silent")
    await b.beat("b is unknown")
    await settle(a)
    await a.beat("a goes on")
    await described(s, "a has all")
    await _configure(s, {"consumer.session.timeout.ms": "30000", "consumer.heartbeat.interval.ms": "6000"})
    await a.beat("another interval")
    await asyncio.sleep(3.2)
    await a.beat("a lives longer")


@consumer
async def static_consumer_members(s: Stage) -> None:
    """KIP-345 in KIP-848: -2 leaves for a while, the instance id brings its partitions back."""
    orders = await topic(s, "orders", 4)
    a, b = ConsumerMember(s, "a", instance="ia"), ConsumerMember(s, "b", instance="ib")
    await a.joins("a joins", [orders], server_assignor="range")
    await b.joins("b joins", [orders], server_assignor="range")
    await settle(a, b)
    thief = ConsumerMember(s, "thief", instance="ia")
    await thief.joins("another with its instance id", [orders])
    await thief.beat("another's heartbeat with its instance id", member_epoch=a.epoch)
    await thief.leaves("another leaves with its instance id")
    await thief.leaves("another leaves for a while with its instance id", member_epoch=-2)
    await a.beat("its own id without the instance id", instance_id=None)
    await a.beat("its own id with another instance id", instance_id="other")
    await a.leaves("away without an instance id", member_epoch=-2, instance_id=None)
    await described(s, "nothing happened")
    await a.leaves("a is away", member_epoch=-2)
    await described(s, "a is away: its partitions stay")
    await a.leaves("a is away twice", member_epoch=-2)
    await b.beat("b is not concerned")
    await a.beat("a's heartbeat while it is away", member_epoch=3)
    again = ConsumerMember(s, "a2", instance="ia")
    await again.joins("a comes back with another id", [orders], server_assignor="range")
    await described(s, "a is back")
    await a.beat("the old id's heartbeat", member_epoch=again.epoch)
    await b.beat("b's heartbeat")
    await again.leaves("a is away again", member_epoch=-2)
    back = ConsumerMember(s, "a2", instance="ia")
    await back.joins("a comes back with the same id", [orders], server_assignor="range")
    await back.leaves("and again", member_epoch=-2)
    other = ConsumerMember(s, "a3", instance="ia")
    await other.joins("a comes back and wants something else", [orders, f"{s.scene}-none"], server_assignor="range")
    await settle(other, b)
    await described(s, "a wants more")
    await other.leaves("a leaves for good")
    await settle(b)
    await described(s, "b has all")


@consumer
async def static_members_that_stay_away(s: Stage) -> None:
    """An absent member keeps its partitions for a session, static or not."""
    orders = await topic(s, "orders", 2)
    await _configure(s, {"consumer.session.timeout.ms": "1000", "consumer.heartbeat.interval.ms": "500"})
    a = ConsumerMember(s, "a", instance="ia")
    await a.joins("a joins", [orders])
    await a.leaves("a is away", member_epoch=-2)
    await described(s, "it is awaited")
    await _until_members(s, 0)
    await described(s, "it did not come")
    await a.joins("a joins anew", [orders])
    admin = [MemberIdentity(member_id="", group_instance_id="ia", reason="an admin's")]
    await s.admin.ask("an admin removes it", LeaveGroupRequest(group_id=s.group, members=admin), 5)
    await described(s, "it is removed")
    b = ConsumerMember(s, "b")
    await b.joins("b joins", [orders])
    admin = [MemberIdentity(member_id="b"), MemberIdentity(member_id="c")]
    await s.admin.ask("an admin removes b and nobody", LeaveGroupRequest(group_id=s.group, members=admin), 5)
    await described(s, "nobody is left")


async def _until_members(s: Stage, count: int) -> None:
    for _ in range(PATIENCE_ROUNDS):
        answer = await s.admin.quietly(ConsumerGroupDescribeRequest(group_ids=[s.group]), 1)
        if len(answer.groups[0].members) == count:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{s.group} does not get {count} members")


async def _configure(s: Stage, configs: dict[str, str]) -> None:
    entries = [AlterableConfig(name=name, config_operation=_SET, value=value) for name, value in configs.items()]
    resource = AlterConfigsResource(resource_type=_GROUP, resource_name=s.group, configs=entries)
    answer = await s.admin.quietly(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert not answer.responses[0].error_code, answer
    asked = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=_GROUP, resource_name=s.group)])
    for _ in range(PATIENCE_ROUNDS):
        told = await s.admin.quietly(asked, 4)
        if configs.items() <= {(config.name, config.value) for config in told.results[0].configs}:
            break
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.2)  # Kafka's coordinator learns of it from the controller, a little later than admins
