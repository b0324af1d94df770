"""Offsets of consumer groups: who may commit and read at which epoch (KIP-848, KIP-1251)."""

from __future__ import annotations

import functools
from typing import Any

from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.interop.conversation.consumer_members import ConsumerMember, described, settle, topic
from tests.interop.conversation.stage import Stage, scene

consumer = functools.partial(scene, part="consumer")


@consumer
async def commits_of_consumer_members(s: Stage) -> None:
    """The member epoch takes the place of a classic member's generation."""
    orders = await topic(s, "orders", 4)
    a, b = ConsumerMember(s, "a"), ConsumerMember(s, "b")
    await a.joins("a joins", [orders], server_assignor="range")
    for v in (2, 5, 8, 9, 10):
        await a.commit(f"at its epoch in version {v}", orders, {0: v}, v)
    await a.commit("of the future", orders, {0: 20}, generation_id_or_member_epoch=7)
    await a.commit("of the past", orders, {0: 21}, generation_id_or_member_epoch=a.epoch - 1)
    await a.commit("without an epoch", orders, {0: 22}, generation_id_or_member_epoch=-1)
    await a.commit("of nobody", orders, {0: 23}, generation_id_or_member_epoch=-1, member_id="")
    await a.commit("of a stranger", orders, {0: 24}, member_id="stranger")
    await a.commit("with an instance id", orders, {0: 25}, group_instance_id="i")
    await a.commit("of what it does not own", f"{s.scene}-none", {0: 26})
    await b.joins("b joins", [orders], server_assignor="range")
    await b.commit("b commits what a owns", orders, {0: 27})
    await a.commit("a commits before it knows of b", orders, {0: 28, 3: 28})
    await a.beat("a is told")
    await a.commit("a commits while it gives up", orders, {0: 29, 3: 29})
    await a.acknowledges("a gave up")
    await a.commit("a commits what it gave up", orders, {3: 30})
    await a.commit(
        "a commits what it kept at its last epoch", orders, {0: 31}, generation_id_or_member_epoch=a.epoch - 1
    )
    await a.commit(
        "a commits what it gave up at its last epoch", orders, {3: 32}, generation_id_or_member_epoch=a.epoch - 1
    )
    await settle(a, b)
    await b.commit("b commits its own", orders, {3: 33})
    await b.commit("b commits its own at its last epoch", orders, {3: 34}, generation_id_or_member_epoch=b.epoch - 1)
    await a.fetch("what is committed", orders, [0, 1, 2, 3])


@consumer
async def reading_offsets_as_a_consumer_member(s: Stage) -> None:
    """From version 9 on a member says its epoch."""
    orders = await topic(s, "orders", 2)
    a = ConsumerMember(s, "a")
    await a.joins("a joins", [orders])
    await a.commit("a commits", orders, {0: 5})
    for v in (8, 9, 10):
        await a.fetch(f"in version {v}", orders, [0, 1], v)
    await a.fetch("at an epoch of the past", orders, [0], member_epoch=a.epoch - 1)
    await a.fetch("at an epoch of the future", orders, [0], member_epoch=a.epoch + 1)
    await a.fetch("at no epoch", orders, [0], member_epoch=-1)
    await a.fetch("as nobody", orders, [0], member_id=None, member_epoch=-1)
    await a.fetch("as nobody at an epoch", orders, [0], member_id=None)
    await a.fetch("as nobody in particular", orders, [0], member_id="", member_epoch=-1)
    await a.fetch("as a stranger", orders, [0], member_id="stranger")
    await a.fetch("all of the group", orders, [], topics=None)
    await a.fetch("as a stranger all of the group", orders, [], topics=None, member_id="stranger")
    await a.fetch("of no group", orders, [0], group_id=f"{s.group}-none")


@consumer
async def offsets_of_an_empty_consumer_group(s: Stage) -> None:
    """State that remains after the members have left, and requests that may change it."""
    orders, payments = await topic(s, "orders", 2), await topic(s, "payments", 1)
    a = ConsumerMember(s, "a")
    await a.joins("a joins", [orders])
    await a.commit("a commits", orders, {0: 5, 1: 6})
    for name in (orders, payments):
        await _delete_offset(s, f"delete {name} while a is there", name)
    await a.leaves("a leaves")
    await a.fetch("they stay", orders, [0, 1], member_id=None, member_epoch=-1)
    nobody: dict[str, Any] = {"member_id": "", "generation_id_or_member_epoch": -1}
    await a.commit("by an admin", orders, {0: 1}, **nobody)
    await a.commit("by an admin in version 5", orders, {0: 2}, 5, **nobody)
    await a.commit("by a as if it were there", orders, {0: 3})
    await _delete_offset(s, "delete one", orders)
    await a.fetch("one is gone", orders, [0, 1], member_id=None, member_epoch=-1)
    await described(s, "the group is there")
    await s.admin.ask("delete the group", DeleteGroupsRequest(groups_names=[s.group]), 2)
    await a.fetch("all is gone", orders, [0, 1], member_id=None, member_epoch=-1)
    await a.joins("a joins another group of that name", [orders])
    await described(s, "it begins anew")


async def _delete_offset(s: Stage, name: str, topic: str) -> None:
    wanted = OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    await s.admin.ask(name, OffsetDeleteRequest(group_id=s.group, topics=[wanted]), 0)
