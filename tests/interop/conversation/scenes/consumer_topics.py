"""Topics that are created, grow and are deleted, and regular expressions, in consumer groups (KIP-848)."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable

from kohort.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.interop.conversation.consumer_members import PATIENCE_ROUNDS, ConsumerMember, described, settle, topic
from tests.interop.conversation.stage import Stage, scene

consumer = functools.partial(scene, part="consumer")


@consumer
async def topics_that_come_and_grow(s: Stage) -> None:
    """A subscription to what is not there yet, and to what gets more partitions."""
    a, orders = ConsumerMember(s, "a"), f"{s.scene}-orders"
    await a.joins("a joins", [orders])
    await described(s, "there is nothing yet")
    await s.topic("orders", 2)
    await _hears(a, 2)
    await described(s, "two partitions")
    await s.topic("unrelated", 1)
    await a.beat("another topic changes nothing")
    await _grow(s, orders, 5)
    await _hears(a, 5)
    await a.acknowledges("a owns all five")
    await described(s, "five partitions")


@consumer
async def topics_that_go_and_come_again(s: Stage) -> None:
    """Deleted, and made again under the same name: another topic."""
    orders, payments = await topic(s, "orders", 2), await topic(s, "payments", 1)
    a = ConsumerMember(s, "a")
    await a.joins("a joins", [orders, payments])
    await _delete(s, orders)
    await _hears(a, 1)
    await described(s, "orders is gone")
    await a.acknowledges("a knows")
    await s.topic("orders", 3)
    await _hears(a, 4)
    await a.acknowledges("a owns the new one")
    await described(s, "orders is back")
    await _delete(s, orders)
    await _hears(a, 1)
    await _delete(s, payments)
    await _hears(a, 0)
    await settle(a)
    await described(s, "all is gone")


@consumer
async def expressions(s: Stage) -> None:
    """Resolved by the coordinator, over all topics, whole names."""
    await topic(s, "eu.orders", 1)
    await topic(s, "us.orders", 2)
    await topic(s, "orders", 4)
    a = ConsumerMember(s, "a")
    await a.joins("by an expression", subscribed_topic_names=None, subscribed_topic_regex=rf"{s.scene}-.*\.orders")
    await _hears(a, 3)
    await settle(a)
    await a.acknowledges("a owns what matches")
    await described(s, "two match")
    await s.topic("asia.orders", 1)
    await _hears(a, 4)
    await settle(a)
    await described(s, "three match")
    await a.beat("the same expression", subscribed_topic_regex=rf"{s.scene}-.*\.orders")
    await a.beat("a bad expression", subscribed_topic_regex="orders-[")
    await described(s, "it kept the good one")
    await _delete(s, f"{s.scene}-us.orders")
    await _hears(a, 2)
    await settle(a)
    await described(s, "two match again")
    await a.beat("names beside it", subscribed_topic_names=[f"{s.scene}-orders"])
    await settle(a)
    await _owns(a, 6)
    await described(s, "by name and by expression")
    await a.beat("no expression any more", subscribed_topic_regex="")
    await settle(a)
    await _owns(a, 4)
    await described(s, "by name")
    await a.beat("another expression", subscribed_topic_regex=f"{s.scene}-eu.*")
    await _owns(a, 5)
    await settle(a)
    await described(s, "by name and another expression")
    await a.beat("no names", subscribed_topic_names=[])
    await _owns(a, 1)
    await settle(a)
    await described(s, "by expression alone")


@consumer
async def two_members_of_two_expressions(s: Stage) -> None:
    """Each member gets its own topics; a topic that no pattern matches any more is dropped."""
    await topic(s, "a1", 2)
    await topic(s, "b1", 2)
    a, b = ConsumerMember(s, "a"), ConsumerMember(s, "b")
    await a.joins("a joins", subscribed_topic_names=None, subscribed_topic_regex=f"{s.scene}-a.*")
    await _owns(a, 2)
    await b.joins("b joins", subscribed_topic_names=None, subscribed_topic_regex=f"{s.scene}-b.*")
    await _owns(b, 2)
    await settle(a, b)
    await described(s, "each has its own")
    await b.beat("b takes a's expression", subscribed_topic_regex=f"{s.scene}-a.*")
    await _owns(b, 1, others=[a])
    await settle(a, b)
    await described(s, "they share")
    await a.leaves("a leaves")
    await _owns(b, 2)
    await settle(b)
    await described(s, "b has all that matches")


async def _hears(member: ConsumerMember, partitions: int) -> None:
    """Send heartbeats without changes until it has that many partitions in total."""
    await _until(member, lambda: _count(member) == partitions)


async def _owns(member: ConsumerMember, partitions: int, others: list[ConsumerMember] | None = None) -> None:
    async def all_beat() -> None:
        for member in others or []:
            await member.quietly_beats()

    for _ in range(PATIENCE_ROUNDS):
        await member.quietly_beats()
        await all_beat()
        if _count(member) == partitions:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{member.name} has {_count(member)} partitions")


def _count(member: ConsumerMember) -> int:
    return sum(len(topic.partitions) for topic in member.given)


async def _until(member: ConsumerMember, reached: Callable[[], bool]) -> None:
    for _ in range(PATIENCE_ROUNDS):
        await member.quietly_beats()
        if reached():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{member.name} hears nothing of it")


async def _grow(s: Stage, topic: str, count: int) -> None:
    wanted = CreatePartitionsTopic(name=topic, count=count, assignments=None)
    await s.admin.quietly(CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000), 3)


async def _delete(s: Stage, topic: str) -> None:
    await s.admin.quietly(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000), 6)
    await s.settled(topic, gone=True)
