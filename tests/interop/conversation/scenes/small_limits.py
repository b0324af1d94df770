"""The part with small limits and an initial rebalance delay: settings.py says which."""

from __future__ import annotations

import functools

from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.interop.conversation.members import Member
from tests.interop.conversation.scenes.records import batch, fetch, produce
from tests.interop.conversation.stage import Stage, scene

small = functools.partial(scene, part="small")


@small
async def the_initial_delay(s: Stage) -> None:
    """A first rebalance waits for more members; those that come make one generation."""
    a, b = Member(s, "a"), Member(s, "b")
    await a.knocks()
    await s.admin.ask("while it waits", DescribeGroupsRequest(groups=[s.group]), 5)
    await a.heartbeat("a's heartbeat while it waits", generation_id=0)
    await b.knocks()
    await a.receives("a is in")
    await b.receives("b is in")
    await a.sync("a assigns", {a: "a", b: "b"})
    await b.sync("b's share")
    await b.leave("b leaves")
    await a.join("a rejoins: no delay now")
    await a.leave("a leaves")
    b.member_id = ""
    await b.knocks()
    await b.leave("b leaves while the delay lasts")
    await b.receives("b's join")
    await s.admin.ask("afterwards", DescribeGroupsRequest(groups=[s.group]), 5)


@small
async def a_full_group(s: Stage) -> None:
    """group.max.size, of dynamic and static members."""
    a, b, c = Member(s, "a"), Member(s, "b", instance="b"), Member(s, "c")
    await a.knocks()
    await b.join_waits("b joins")
    await c.join("c joins while two wait")
    await a.receives("a is in")
    await b.receives("b is in")
    await c.join("c joins while the assignment is awaited")
    await a.sync("a assigns", {a: "a", b: "b"})
    await b.sync("b's share")
    await c.join("c joins a stable group")
    await c.join("c joins a stable group in version 2", 2)
    await c.join("with an instance id", group_instance_id="c")
    await c.join("with a member id of its own", member_id="mine")
    await a.join_waits("a rejoins")
    await b.join("b rejoins")
    await a.receives("a leads on")
    await b.leave("b leaves")
    await c.gets_an_id()
    d = Member(s, "d")
    await d.gets_an_id()


@small
async def a_static_member_of_a_full_group(s: Stage) -> None:
    """Restarting it is not one more."""
    a, b = Member(s, "a"), Member(s, "b", instance="b")
    await a.knocks()
    await b.join_waits("b joins")
    await a.receives("a is in")
    await b.receives("b is in")
    await a.sync("a assigns", {a: "a", b: "b"})
    await b.sync("b's share")
    again = Member(s, "b", instance="b")
    await again.join("b restarts")


@small
async def session_bounds(s: Stage) -> None:
    """group.min.session.timeout.ms and group.max.session.timeout.ms as configured."""
    a = Member(s, "a")
    await a.join("too short", session_timeout_ms=999)
    await a.join("too long", session_timeout_ms=40_001)
    await a.knocks(session_timeout_ms=1_000)
    await a.receives("a is in")
    b = Member(s, "b")
    await b.gets_an_id(session_timeout_ms=40_000)
    await b.join_waits("b waits for a, which is silent", session_timeout_ms=40_000)
    await b.receives("a's session is over")
    await a.heartbeat("a is unknown")


@small
async def an_id_that_is_never_used(s: Stage) -> None:
    """A member id expires after the session timeout that was asked for."""
    a, b = Member(s, "a"), Member(s, "b")
    await a.knocks(session_timeout_ms=40_000)
    await a.receives("a is in")
    await a.sync("a assigns", {a: "a"})
    await b.gets_an_id(session_timeout_ms=1_000)
    await a.join_waits("a rejoins, and waits for whoever has the id", session_timeout_ms=40_000)
    await a.receives("a goes on without it")
    await b.join("b comes too late", session_timeout_ms=40_000)


@small
async def small_metadata_and_batches(s: Stage) -> None:
    """offset.metadata.max.bytes, message.max.bytes and no automatic topics."""
    orders = await s.topic("orders")
    one = Member(s, "one")
    await one.commit("8 characters", {(orders, 0): 1}, metadata="12345678")
    await one.commit("9 characters", {(orders, 0): 1}, metadata="123456789")
    await one.commit("8 characters of 3 bytes", {(orders, 0): 1}, metadata="€" * 8)
    await produce(s, "a small batch", orders, batch("x" * 1_000))
    await produce(s, "a large batch", orders, batch("x" * 2_000))
    await fetch(s, "what is there", {(orders, 0): 0})
    for v in (1, 9):
        await s.admin.ask(f"no topic is made {v}", MetadataRequest(topics=[MetadataRequestTopic(name="new")]), v)
