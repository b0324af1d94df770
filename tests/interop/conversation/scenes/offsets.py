"""Commits and what is read back, by members, simple consumers and admins, in each state and version."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.delete_topics import DeleteTopicsRequest
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.list_groups import ListGroupsRequest
from kohort.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.interop.conversation.members import UNKNOWN_ID, Member, running
from tests.interop.conversation.stage import Stage, scene


async def fetch(
    s: Stage, name: str, wanted: Mapping[str, Sequence[int]] | None, v: int, group: str | None = None, **changes: Any
) -> Any:
    """OffsetFetch of one group; None wants all that it has."""
    group = s.group if group is None else group
    if v >= 8:
        topics = (
            None
            if wanted is None
            else [
                OffsetFetchRequestTopics(
                    name=topic, topic_id=s.ids.get(topic, UNKNOWN_ID), partition_indexes=list(indexes)
                )
                for topic, indexes in wanted.items()
            ]
        )
        stable = changes.pop("require_stable", False)
        fetched_group = OffsetFetchRequestGroup(group_id=group, topics=topics, **changes)
        return await s.admin.ask(name, OffsetFetchRequest(groups=[fetched_group], require_stable=stable), v)
    old = (
        None
        if wanted is None
        else [OffsetFetchRequestTopic(name=topic, partition_indexes=list(indexes)) for topic, indexes in wanted.items()]
    )
    return await s.admin.ask(name, OffsetFetchRequest(group_id=group, topics=old, **changes), v)


async def forgotten(s: Stage, topic: str) -> None:
    """Wait until the group has no offset of the topic: Kafka deletes them after the topic."""
    wanted = OffsetFetchRequest(group_id=s.group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])])
    for _ in range(200):
        answer = await s.admin.quietly(wanted, 5)
        if answer.topics[0].partitions[0].committed_offset == -1:
            return
        await asyncio.sleep(0.02)


async def is_known(s: Stage) -> None:
    """Wait until the group is described: Kafka hands out an id before the record of the new group is committed."""
    for _ in range(200):
        answer = await s.admin.quietly(DescribeGroupsRequest(groups=[s.group]), 6)
        if not answer.groups[0].error_code:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{s.group} is never described")


async def delete(s: Stage, name: str, wanted: Mapping[str, Sequence[int]], group: str | None = None) -> None:
    """OffsetDelete."""
    topics = [
        OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        )
        for topic, indexes in wanted.items()
    ]
    await s.admin.ask(name, OffsetDeleteRequest(group_id=s.group if group is None else group, topics=topics), 0)


@scene
async def a_simple_consumer(s: Stage) -> None:
    """Commits without a group, in every version, and fetches in every version."""
    orders = await s.topic("orders", partitions=3)
    one = Member(s, "one")
    for v in range(1, 11):
        await fetch(s, f"nothing yet {v}", {orders: [0, 7]}, v)
    for v in range(2, 11):
        await one.commit(f"commit {v}", {(orders, 0): v, (orders, 1): 10 * v}, v=v, metadata=f"note {v}", epoch=0)
        await fetch(s, f"fetch {min(v, 7)} after commit {v}", {orders: [0, 1, 2]}, min(v, 7))
    for v in range(1, 11):
        await fetch(s, f"some, an unknown partition and an unknown topic {v}", {orders: [1, 9, -1], "unknown": [0]}, v)
    for v in range(2, 11):
        await fetch(s, f"all {v}", None, v)
    await fetch(s, "no topics 1", {}, 1)
    await fetch(s, "no topics 7", {}, 7)
    await fetch(s, "no topics 10", {}, 10)
    await fetch(s, "no partitions 9", {orders: []}, 9)
    await fetch(s, "stable ones 7", {orders: [0]}, 7, require_stable=True)
    await fetch(s, "stable ones 10", {orders: [0]}, 10, require_stable=True)
    await fetch(s, "as a member of a group that has none", {orders: [0]}, 9, member_id="x", member_epoch=3)
    await fetch(s, "with a member id and no epoch", {orders: [0]}, 9, member_id="x")
    await fetch(s, "with an epoch and no member id", {orders: [0]}, 9, member_epoch=1)
    await fetch(s, "the same partition twice", {orders: [0, 0]}, 9)
    await s.admin.ask("described 5", DescribeGroupsRequest(groups=[s.group]), 5)
    await s.admin.ask("described 6", DescribeGroupsRequest(groups=[s.group]), 6)
    await s.admin.ask("listed", ListGroupsRequest(), 5)


@scene
async def bad_commits(s: Stage) -> None:
    """Commits that are refused, in whole or in part."""
    orders = await s.topic("orders", partitions=2)
    one = Member(s, "one")
    for v in (2, 5, 8, 9, 10):
        await one.commit(
            f"a member of no group {v}", {(orders, 0): 1}, v, generation_id_or_member_epoch=1, member_id="x"
        )
        await one.commit(f"a generation and no member {v}", {(orders, 0): 1}, v, generation_id_or_member_epoch=1)
        await one.commit(f"unknown topic {v}", {("unknown", 0): 1}, v)
        await one.commit(f"unknown partitions among others {v}", {(orders, 0): 1, (orders, 2): 1, (orders, -1): 1}, v)
        await one.commit(f"unknown topic among others {v}", {("unknown", 0): 1, (orders, 1): 1}, v)
        await one.commit(f"long metadata {v}", {(orders, 0): 5, (orders, 1): 5}, v, metadata="m" * 4_097)
    await one.commit("a member id without a generation", {(orders, 0): 1}, member_id="x")
    await one.commit("an instance id without a generation", {(orders, 0): 1}, group_instance_id="i")
    await one.commit("the longest metadata", {(orders, 0): 1}, metadata="m" * 4_096)
    await one.commit("metadata of 4096 characters, 8192 bytes", {(orders, 0): 1}, metadata="é" * 4_096)
    await one.commit("metadata of 2049 characters that take two units in Java", {(orders, 0): 1}, metadata="😀" * 2_049)
    await one.commit("null metadata", {(orders, 0): 7}, metadata=None)
    await fetch(s, "what null metadata becomes", {orders: [0]}, 9)
    await one.commit("offset -1", {(orders, 0): -1})
    await fetch(s, "after offset -1", {orders: [0]}, 9)
    await one.commit("offset -2", {(orders, 0): -2})
    await fetch(s, "after offset -2", {orders: [0]}, 9)
    await one.commit("the largest offset", {(orders, 0): 2**63 - 1})
    await one.commit("leader epoch of the future", {(orders, 0): 1}, epoch=99)
    await fetch(s, "with a leader epoch of the future", {orders: [0]}, 5)
    await one.commit("no topics", {})
    await one.commit("no topics, of a member that is unknown", {}, generation_id_or_member_epoch=1, member_id="x")
    await one.commit("generation -2", {(orders, 0): 3}, generation_id_or_member_epoch=-2)
    await one.ask(
        "no partitions", OffsetCommitRequest(group_id=s.group, topics=[OffsetCommitRequestTopic(name=orders)]), 9
    )
    twice = OffsetCommitRequest(
        group_id=s.group, topics=[OffsetCommitRequestTopic(name=orders, topic_id=s.ids[orders])] * 2
    )
    await one.ask("a topic twice, without partitions", twice, 9)
    await one.commit("retention of a second, version 4", {(orders, 1): 9}, 4, retention_time_ms=1_000)
    await one.commit("retention of 0, version 2", {(orders, 1): 9}, 2, retention_time_ms=0)
    await fetch(s, "in the end", None, 9)


@scene
async def commits_in_each_state(s: Stage) -> None:
    """Commits of a member, a non-member and a simple consumer in each state of the group."""
    orders = await s.topic("orders", partitions=4)
    other = await s.topic("other")
    wish = {"range": encode_subscription(Subscription([orders]), 1)}
    a, b, simple, stranger = (Member(s, name, protocols=wish) for name in ("a", "b", "simple", "stranger"))
    stranger.member_id, stranger.generation = "stranger-1", 1
    turn = 0

    async def everybody(state: str) -> None:
        nonlocal turn
        turn += 1
        for v in (5, 9, 10):
            await a.commit(f"a, {state} {v}", {(orders, 0): turn}, v)
        await b.commit(f"b, {state}", {(orders, 1): turn})
        await a.commit(
            f"a of the generation before, {state}", {(orders, 0): 99}, generation_id_or_member_epoch=a.generation - 1
        )
        await a.commit(
            f"a of the next generation, {state}", {(orders, 0): 99}, generation_id_or_member_epoch=a.generation + 1
        )
        await a.commit(f"a without a generation, {state}", {(orders, 0): 98}, generation_id_or_member_epoch=-1)
        await a.commit(f"a with an instance id, {state}", {(orders, 0): 97}, group_instance_id="place")
        await simple.commit(f"simple, {state}", {(orders, 2): turn})
        await stranger.commit(f"stranger, {state}", {(orders, 3): turn})
        await fetch(s, f"all, {state}", None, 9)

    await a.gets_an_id()
    await everybody("a has an id only")
    await a.join("a joins")
    await everybody("a has not synced")
    await a.sync("a assigns", {a: "all"})
    await everybody("a is alone")
    await b.knocks()
    await everybody("b waits")
    await a.join("a rejoins")
    await b.receives("b is in")
    await everybody("the assignment is awaited")
    await a.sync("a assigns to both", {a: "a", b: "b"})
    await b.sync("b's share")
    await everybody("both are there")
    await delete(s, "offsets of a topic that they do not read", {other: [0, 1]})
    await delete(s, "offsets of the topic that they read", {orders: [0, 1]})
    await delete(s, "of both", {orders: [0, 1], other: [0]})
    await s.admin.ask("delete the group while it has members", DeleteGroupsRequest(groups_names=[s.group]), 2)
    await b.leave("b leaves")
    await a.leave("a leaves")
    await everybody("all have left")
    await s.admin.ask("delete the group", DeleteGroupsRequest(groups_names=[s.group]), 2)
    await fetch(s, "nothing is left", None, 9)
    await everybody("the group is deleted")


@scene
async def fetches_of_many_groups(s: Stage) -> None:
    """KIP-709: good and bad groups in one request; groups twice; group ids that are empty."""
    orders = await s.topic("orders")
    one = Member(s, "one", group=f"{s.group}-1")
    two = Member(s, "two", group=f"{s.group}-2")
    await one.commit("one's", {(orders, 0): 1})
    await two.commit("two's", {(orders, 0): 2})

    def group(name: str, *topics: str | None, **more: Any) -> OffsetFetchRequestGroup:
        wanted = (
            None
            if topics == (None,)
            else [
                OffsetFetchRequestTopics(
                    name=t or "", topic_id=s.ids.get(t or "", UNKNOWN_ID), partition_indexes=[0, 1]
                )
                for t in topics
            ]
        )
        return OffsetFetchRequestGroup(group_id=name, topics=wanted, **more)

    for v in (8, 9, 10):
        many = [group(one.group, orders), group(two.group, None), group("unknown", orders), group("unknown", None)]
        await s.admin.ask(f"four {v}", OffsetFetchRequest(groups=many), v)
        await s.admin.ask(f"no groups {v}", OffsetFetchRequest(groups=[]), v)
        odd = [group(one.group, orders, "nowhere"), group(two.group)]
        await s.admin.ask(f"odd topics {v}", OffsetFetchRequest(groups=odd), v)
    for v in (1, 2, 5, 7):
        await fetch(s, f"unknown group {v}", {orders: [0]}, v, group="unknown")


@scene
async def the_empty_group_id(s: Stage) -> None:
    """A group without a name may have offsets, as it had in old versions, and no members."""
    orders = await s.topic("orders")
    one = Member(s, "one", group="")
    one.group = ""
    for v in (1, 2, 7, 8, 9, 10):
        await fetch(s, f"nothing yet {v}", {orders: [0]}, v, group="")
    await fetch(s, "all of nothing", None, 9, group="")
    await s.admin.ask("described before", DescribeGroupsRequest(groups=[""]), 6)
    await s.admin.ask("deleted before", DeleteGroupsRequest(groups_names=[""]), 2)
    for v in (2, 5, 8, 9, 10):
        await one.commit(f"commit {v}", {(orders, 0): v}, v)
        await fetch(s, f"after commit {v}", {orders: [0]}, min(v, 7), group="")
    await one.commit("as a member", {(orders, 0): 1}, generation_id_or_member_epoch=1, member_id="x")
    for v in (2, 7, 8, 9):
        await fetch(s, f"all {v}", None, v, group="")
    many = [OffsetFetchRequestGroup(group_id="", topics=None), OffsetFetchRequestGroup(group_id="unknown", topics=None)]
    await s.admin.ask("with another", OffsetFetchRequest(groups=many), 9)
    await s.admin.ask("described", DescribeGroupsRequest(groups=[""]), 6)
    await delete(s, "its offsets", {orders: [0]}, group="")
    await s.admin.ask("deleted", DeleteGroupsRequest(groups_names=[""]), 2)
    await s.admin.ask("described after", DescribeGroupsRequest(groups=[""]), 6)


@scene
async def a_topic_that_is_made_again(s: Stage) -> None:
    """KAFKA-19154: offsets of a deleted topic are not those of the next one of its name."""
    orders = await s.topic("orders")
    one = Member(s, "one")
    await one.commit("before", {(orders, 0): 5}, 10)
    old_id = s.ids[orders]
    await s.admin.ask("delete the topic", DeleteTopicsRequest(topic_names=[orders], timeout_ms=10_000), 5)
    await s.settled(orders, gone=True)
    await forgotten(s, orders)
    s.ids[orders] = old_id
    for v in (5, 8, 9, 10):
        await fetch(s, f"of the deleted topic {v}", {orders: [0]}, v)
        await fetch(s, f"all while it is deleted {v}", None, v)
        await one.commit(f"to the deleted topic {v}", {(orders, 0): 6}, v)
    await s.topic("orders")
    for v in (5, 8, 9, 10):
        await fetch(s, f"of the new topic {v}", {orders: [0]}, v)
        await fetch(s, f"all of the new topic {v}", None, v)
    await one.commit("to the new topic", {(orders, 0): 1}, 10)
    await fetch(s, "of the new topic after a commit", {orders: [0]}, 10)


@scene
async def offset_delete(s: Stage) -> None:
    """KIP-496, of groups with and without members, consumers' and others'."""
    orders = await s.topic("orders", partitions=2)
    await delete(s, "unknown group", {orders: [0]})
    one = Member(s, "one")
    await one.commit("commit", {(orders, 0): 1, (orders, 1): 2})
    await delete(s, "one of them, an unknown partition, an unknown topic", {orders: [0, 5], "unknown": [0]})
    await fetch(s, "the other is left", None, 9)
    await delete(s, "one that is not there", {orders: [0]})
    await delete(s, "no topics", {})
    await delete(s, "no partitions", {orders: []})
    await delete(s, "the last one", {orders: [1]})
    await s.admin.ask("is the group there", DescribeGroupsRequest(groups=[s.group]), 6)
    await fetch(s, "nothing is left", None, 9)
    task = Member(s, "task", group=f"{s.group}-connect", protocols={"eager": b"x"})
    task.protocol_type = "connect"
    await task.enters()
    await task.sync("assigns", {task: "t"})
    await task.commit("the task commits", {(orders, 0): 1})
    await delete(s, "offsets of a group that is not consumers'", {orders: [0]}, group=task.group)
    await task.leave("the task leaves")
    await delete(s, "once it has left", {orders: [0]}, group=task.group)


@scene
async def delete_groups(s: Stage) -> None:
    """KIP-229."""
    orders = await s.topic("orders")
    a, b = Member(s, "a"), Member(s, "b", group=f"{s.group}-b")
    await a.enters()
    await b.commit("b's", {(orders, 0): 1})
    both = [s.group, f"{s.group}-b", "unknown"]
    for v in (0, 1, 2):
        await s.admin.ask(f"many {v}", DeleteGroupsRequest(groups_names=both), v)
    await s.admin.ask("none", DeleteGroupsRequest(groups_names=[]), 2)
    await s.admin.ask("one twice", DeleteGroupsRequest(groups_names=["unknown", "unknown"]), 2)
    await a.leave("a leaves")
    pending = Member(s, "pending")
    await pending.gets_an_id()
    await s.admin.ask("while an id is handed out", DeleteGroupsRequest(groups_names=[s.group]), 2)
    await pending.join("the id's owner comes")
    await a.heartbeat("a member of the deleted group")


@scene
async def describe_and_list(s: Stage) -> None:
    """Groups as tools see them, in each state and version."""
    orders = await s.topic("orders")
    empty, alone, joining = (Member(s, name, group=f"{s.group}-{name}") for name in ("empty", "alone", "joining"))
    connect = Member(s, "connect", group=f"{s.group}-connect", protocols={"eager": b"bytes"})
    connect.protocol_type = "connect"
    await empty.commit("empty's", {(orders, 0): 1})
    await connect.enters()
    await connect.sync("connect assigns", {connect: "task"})
    await joining.enters()
    await running(alone)
    names = [member.group for member in (empty, alone, joining, connect)] + ["unknown", s.group + "-alone"]
    for v in range(7):
        await s.admin.ask(f"describe {v}", DescribeGroupsRequest(groups=names), v)
    for v in (3, 6):
        request = DescribeGroupsRequest(groups=names[:2], include_authorized_operations=True)
        await s.admin.ask(f"describe with operations {v}", request, v)
    await s.admin.ask("describe none", DescribeGroupsRequest(groups=[]), 5)
    for v in range(6):
        await s.admin.ask(f"list {v}", ListGroupsRequest(), v)
    filters = (
        ["Stable"],
        ["stable"],
        ["Empty", "Stable"],
        ["CompletingRebalance"],
        ["completing_rebalance"],
        ["nonsense"],
        [""],
        ["Dead"],
    )
    for states in filters:
        await s.admin.ask(f"list those in {states}", ListGroupsRequest(states_filter=states), 4)
    for types in (["classic"], ["Classic"], ["consumer"], ["share"], ["nonsense"], ["classic", "consumer"], [""]):
        await s.admin.ask(f"list those of {types}", ListGroupsRequest(types_filter=types), 5)
    await s.admin.ask("list by both", ListGroupsRequest(states_filter=["Empty"], types_filter=["classic"]), 5)


@scene
async def refused_joins_leave_no_group(s: Stage) -> None:
    """Whether a group is there after requests that failed."""
    one = Member(s, "one")
    await one.join("no protocols", protocols={})
    await s.admin.ask("described after a refused join", DescribeGroupsRequest(groups=[s.group]), 6)
    await s.admin.ask("listed after a refused join", ListGroupsRequest(), 5)
    await one.join("a member id that nobody gave", member_id="one-1")
    await s.admin.ask("deleted after a refused join", DeleteGroupsRequest(groups_names=[s.group]), 2)
    await one.gets_an_id()
    await is_known(s)
    await s.admin.ask("described after an id was handed out", DescribeGroupsRequest(groups=[s.group]), 6)
    await one.leave("the owner of the id leaves")
    await s.admin.ask("described after it left", DescribeGroupsRequest(groups=[s.group]), 6)
    await s.admin.ask("listed after it left", ListGroupsRequest(), 5)
    await one.commit("a commit to the empty group", {("unknown", 0): 1})
