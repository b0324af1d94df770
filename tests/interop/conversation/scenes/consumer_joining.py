"""Members of consumer groups that come, stay and go, and heartbeats that are wrong in every field (KIP-848)."""

from __future__ import annotations

import functools
from typing import Any

from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.list_groups import ListGroupsRequest
from tests.interop.conversation.consumer_members import ConsumerMember, described, settle, topic
from tests.interop.conversation.members import UNKNOWN_ID
from tests.interop.conversation.stage import Stage, scene

consumer = functools.partial(scene, part="consumer")

TWICE = [TopicPartitions(topic_id=UNKNOWN_ID, partitions=[0, 0])] * 2


@consumer
async def bad_consumer_joins(s: Stage) -> None:
    """A member that joins must state its id, its subscription, and that it owns nothing."""
    orders = await topic(s, "orders")
    a = ConsumerMember(s, "a")
    wrong: dict[str, dict[str, Any]] = {
        "no group id": {"group_id": ""},
        "a group id of spaces": {"group_id": " "},
        "no member id": {"member_id": ""},
        "an epoch below -2": {"member_epoch": -3},
        "no rebalance timeout": {"rebalance_timeout_ms": -1},
        "a negative rebalance timeout": {"rebalance_timeout_ms": -7},
        "null for what it owns": {"topic_partitions": None},
        "it owns something": {"owns": {orders: [0]}},
        "it owns what does not exist": {"topic_partitions": TWICE},
        "no subscription": {"subscribed_topic_names": None},
        "an empty instance id": {"instance_id": ""},
        "an instance id of spaces": {"instance_id": " "},
        "an empty rack": {"rack_id": ""},
        "an empty server assignor": {"server_assignor": ""},
        "an unknown server assignor": {"server_assignor": "best"},
        "a server assignor in capitals": {"server_assignor": "RANGE"},
        "an expression that is none": {"subscribed_topic_regex": "orders-["},
        "an expression of another engine": {"subscribed_topic_regex": "(?=orders)"},
        "an expression of 32,000 characters": {"subscribed_topic_regex": "a" * 32_000},
    }
    for what, fields in wrong.items():
        await a.joins(what, [orders], **fields)
        if a.epoch:
            await described(s, f"the group with {what}")
            await a.leaves(f"a leaves after {what}")
            a.epoch = 0
    await described(s, "the group after them")
    await s.admin.ask("the same in DescribeGroups", DescribeGroupsRequest(groups=[s.group]), 6)


@consumer
async def consumer_joins_that_are_odd_and_taken(s: Stage) -> None:
    """Subscriptions to nothing, to missing topics, and to invalid names."""
    orders = await topic(s, "orders", 2)
    odd: dict[str, dict[str, Any]] = {
        "nothing": {"subscribed_topic_names": []},
        "what is not there": {"subscribed_topic_names": [f"{s.scene}-none"]},
        "a topic twice": {"subscribed_topic_names": [orders, orders]},
        "no legal name": {"subscribed_topic_names": ["a b", "", "."]},
        "an empty expression": {"subscribed_topic_names": None, "subscribed_topic_regex": ""},
        "names and an empty expression": {"subscribed_topic_names": [orders], "subscribed_topic_regex": ""},
        "a rebalance timeout of 0": {"rebalance_timeout_ms": 0},
        "a long member id": {"member_id": "m" * 2_000},
        "a rack": {"rack_id": "r1"},
        "the assignor range": {"server_assignor": "range"},
    }
    for number, (what, fields) in enumerate(odd.items()):
        member = ConsumerMember(s, f"m{number}", group=f"{s.group}-{number}")
        await member.joins(what, [orders], **fields)
        await settle(member)
        await described(s, f"the group of {what}", member.group)
        await member.leaves(f"it leaves {what}")
        await described(s, f"the empty group of {what}", member.group)


@consumer
async def a_member_of_version_0(s: Stage) -> None:
    """KIP-1082: below version 1 the coordinator makes the member id."""
    orders = await topic(s, "orders", 2)
    a = ConsumerMember(s, "a")
    await a.joins("an id of its own", [orders], v=0)
    await a.beat("its heartbeat", v=0)
    await described(s, "it is there", v=0)
    b = ConsumerMember(s, "b")
    b.member_id = ""
    await b.joins("without an id", [orders], v=0)
    await settle(a, b)
    await a.beat("a's heartbeat", v=0)
    await b.beat("b's heartbeat", v=0)
    await b.beat("without the id it was given", v=0, member_id="")
    await b.leaves("b leaves", v=0)
    await settle(a)
    await described(s, "a is left")


@consumer
async def one_consumer_member(s: Stage) -> None:
    """Everything that a member alone can say, and what the group becomes."""
    orders, payments = await topic(s, "orders", 3), await topic(s, "payments", 2)
    a = ConsumerMember(s, "a")
    await described(s, "before there is a group")
    await a.beat("a member of no group", member_epoch=3)
    await a.leaves("a leaves no group")
    await a.joins("a joins", [orders])
    await described(s, "a is in")
    await s.admin.ask("listed", ListGroupsRequest(types_filter=["consumer"]), 5)
    await a.beat("nothing is new")
    await a.acknowledges("a owns it")
    await a.beat("the same names again", subscribed_topic_names=[orders])
    await a.beat("all fields unchanged", **a.joining([orders], member_epoch=a.epoch, topic_partitions=a.given))
    await a.beat("another rebalance timeout", rebalance_timeout_ms=40_000)
    await a.beat("another subscription", subscribed_topic_names=[orders, payments])
    await a.acknowledges("a owns that")
    await described(s, "a has both")
    await a.beat("less", subscribed_topic_names=[payments])
    await described(s, "a has to give up")
    await a.acknowledges("a gave up")
    await described(s, "a gave up orders")
    await a.beat("an unknown assignor", server_assignor="best")
    await a.beat("another rack", rack_id="r2")
    await described(s, "in a rack")
    await a.joins("a joins again", [payments])
    await described(s, "a came back")
    await a.leaves("a leaves")
    await described(s, "nobody is left")
    await a.leaves("a leaves twice")
    await a.beat("a's heartbeat after it left")
    await s.admin.ask("listed when empty", ListGroupsRequest(types_filter=["consumer"], states_filter=["empty"]), 5)
    await s.admin.ask("delete it", DeleteGroupsRequest(groups_names=[s.group]), 2)
    await described(s, "it is gone")
    await s.admin.ask("listed when gone", ListGroupsRequest(types_filter=["consumer"]), 5)


@consumer
async def another_assignor(s: Stage) -> None:
    """A member that is in the group may ask for another."""
    orders = await topic(s, "orders", 3)
    a = ConsumerMember(s, "a")
    await a.joins("a joins", [orders])
    await a.beat("another assignor", server_assignor="range")
    await described(s, "by range")
    await a.beat("the same assignor", server_assignor="range")


@consumer
async def member_epochs(s: Stage) -> None:
    """Epochs from the past and the future; KIP-848's answer that was lost."""
    orders = await topic(s, "orders", 4)
    a, b = ConsumerMember(s, "a"), ConsumerMember(s, "b")
    await a.joins("a joins", [orders])
    await a.beat("an epoch of the future", member_epoch=9)
    await a.beat("a is still in")
    await b.joins("b joins", [orders])
    await settle(a, b)
    await described(s, "both are in")
    await a.beat("the previous epoch, owning nothing", member_epoch=a.epoch - 1, topic_partitions=[])
    await a.beat("the previous epoch without a word", member_epoch=a.epoch - 1)
    await a.beat("the previous epoch and its partitions", member_epoch=a.epoch - 1, topic_partitions=a.given)
    await a.beat("the previous epoch and all partitions", member_epoch=a.epoch - 1, owns={orders: [0, 1, 2, 3]})
    await a.beat("two epochs ago", member_epoch=a.epoch - 2, topic_partitions=a.given)
    await described(s, "nothing moved")
    await a.joins("a joins again", [orders])
    await settle(a, b)
    await a.beat("a's heartbeat")
    stranger = ConsumerMember(s, "stranger")
    await stranger.beat("a stranger with the group's epoch", member_epoch=b.epoch)
    await stranger.beat("a stranger with the instance id of nobody", member_epoch=b.epoch, instance_id="i")
    await stranger.leaves("a stranger leaves")


@consumer
async def partitions_that_were_never_given(s: Stage) -> None:
    """A member does not become the owner of partitions by claiming them."""
    orders = await topic(s, "orders", 4)
    a, b = ConsumerMember(s, "a"), ConsumerMember(s, "b")
    await a.joins("a joins", [orders])
    await b.joins("b joins", [orders])
    await settle(a, b)
    await a.beat("a claims all", owns={orders: [0, 1, 2, 3]})
    await a.beat("a claims what does not exist", owns={orders: [0, 99]})
    await a.beat("a claims a topic that does not exist", topic_partitions=TWICE)
    await a.beat("a claims a negative partition", owns={orders: [-1]})
    await a.beat("a owns nothing", topic_partitions=[])
    await described(s, "nothing moved")
    await b.leaves("b leaves")
    await a.beat("a owns nothing and hears of the rest", topic_partitions=[])
    await described(s, "a has all")


@consumer
async def groups_of_the_other_kind(s: Stage) -> None:
    """Requests of one protocol to groups of the other."""
    orders = await topic(s, "orders")
    a = ConsumerMember(s, "a")
    await a.joins("a joins", [orders])
    ask = s.admin.ask
    for v in (0, 5, 6):
        await ask(f"a consumer group in DescribeGroups {v}", DescribeGroupsRequest(groups=[s.group]), v)
    for types in (["classic"], ["consumer"], ["Consumer", "classic"], ["share"], ["nonsense"]):
        await ask(f"of types {types}", ListGroupsRequest(types_filter=types), 5)
    for states in (["Stable"], ["stable"], ["Reconciling"], ["Assigning", "Empty"], ["nonsense"]):
        await ask(f"in states {states}", ListGroupsRequest(states_filter=states), 5)
    for v in (0, 3, 4):
        await ask(f"listed in version {v}", ListGroupsRequest(), v)
    await ask("delete it", DeleteGroupsRequest(groups_names=[s.group]), 2)
    many = ConsumerGroupDescribeRequest(
        group_ids=[s.group, f"{s.group}-none", "", s.group], include_authorized_operations=True
    )
    await ask("described among others", many, 1)
    await ask("described alone", ConsumerGroupDescribeRequest(group_ids=[]), 0)
    await s.admin.ask("a heartbeat of nobody", ConsumerGroupHeartbeatRequest(), 1)
