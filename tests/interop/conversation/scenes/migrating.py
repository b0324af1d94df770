"""Groups that change their protocol while members are in them, and back (KIP-848)."""

from __future__ import annotations

import functools
from typing import Any

from kohort.model import TopicPartition
from kohort.wire.messages.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.list_groups import ListGroupsRequest
from kohort.wire.messages.sync_group import SyncGroupRequestAssignment
from tests.interop.conversation.consumer_members import ConsumerMember, described, settle, topic
from tests.interop.conversation.members import Member
from tests.interop.conversation.stage import Stage, scene

consumer = functools.partial(scene, part="consumer")
upgrade_only = functools.partial(scene, part="upgrade")
downgrade_only = functools.partial(scene, part="downgrade")
disabled = functools.partial(scene, part="disabled")


class Migrating(Member):
    """A member of the classic protocol that subscribes to a topic and says what it owns."""

    def __init__(self, stage: Stage, name: str, subscribed: str, protocol: str = "range", **more: Any) -> None:
        super().__init__(stage, name, protocols={protocol: b""}, **more)
        self.subscribed, self._protocol = subscribed, protocol
        self.owns()

    def owns(self, *partitions: int) -> None:
        """Set the owned partitions of its next join."""
        owned = [TopicPartition(self.subscribed, number) for number in partitions]
        said = Subscription([self.subscribed], owned_partitions=owned)
        self.protocols = {self._protocol: encode_subscription(said, 3)}

    async def assigns(self, name: str, shares: dict[Member, tuple[int, ...]]) -> Any:
        """SyncGroup of the leader."""
        given = [
            SyncGroupRequestAssignment(
                member_id=member.member_id,
                assignment=encode_assignment(Assignment([TopicPartition(self.subscribed, n) for n in share]), 3),
            )
            for member, share in shares.items()
        ]
        return await self.sync(name, assignments=given)


async def classic_pair(s: Stage, orders: str, protocol: str = "range") -> tuple[Migrating, Migrating]:
    """Two classic members with two partitions each; outside the transcript only as far as their joins wait."""
    a, b = Migrating(s, "a", orders, protocol), Migrating(s, "b", orders, protocol)
    await a.enters()
    await a.assigns("a assigns alone", {a: (0, 1, 2, 3)})
    await b.knocks()
    await a.join("a joins again")
    await b.receives("b is in")
    await a.assigns("a assigns", {a: (0, 1), b: (2, 3)})
    await b.sync("b's share")
    return a, b


@consumer
async def an_eager_group_migrates_and_back(s: Stage) -> None:
    """The first consumer upgrades it, the last one that leaves takes it back."""
    orders = await topic(s, "orders", 4)
    a, b = await classic_pair(s, orders)
    c = ConsumerMember(s, "c")
    await a.commit("a commits before", {(orders, 0): 1})
    await c.joins("c joins", [orders], server_assignor="range")
    await described(s, "a mixed group")
    await s.admin.ask("in DescribeGroups", DescribeGroupsRequest(groups=[s.group]), 6)
    await s.admin.ask("listed", ListGroupsRequest(), 5)
    await a.commit("a commits", {(orders, 0): 2})
    await a.heartbeat("a is to join again")
    await b.heartbeat("b, too")
    await a.sync("a's sync before that")
    await a.join("a joins")
    await a.sync("a's share of the mixed group")
    await a.heartbeat("a's heartbeat")
    await described(s, "a has arrived")
    await b.join("b joins")
    await b.sync("b's share of the mixed group")
    await c.quietly_beats()
    await c.acknowledges("c has its share")
    await a.heartbeat("a's heartbeat then")
    await b.heartbeat("b's heartbeat then")
    await described(s, "settled")
    await a.commit("a commits as a classic member", {(orders, 0): 3})
    await a.commit("a commits in version 5", {(orders, 0): 4}, 5)
    await a.commit("a commits of an older generation", {(orders, 0): 5}, generation_id_or_member_epoch=1)
    await a.sync("a's sync of an older generation", generation_id=1)
    await a.sync("a's sync by another assignor", protocol_name="sticky")
    await a.heartbeat("a's heartbeat of an older generation", generation_id=1)
    await b.leave("b leaves")
    await c.quietly_beats()
    await a.heartbeat("a is to join without b")
    await a.join("a joins without b")
    await a.sync("a's share without b")
    await settle(c)
    await c.leaves("c leaves")
    await s.admin.ask("a classic group again", DescribeGroupsRequest(groups=[s.group]), 4)
    await described(s, "no consumer group")
    await a.commit("a commits meanwhile", {(orders, 0): 6})
    await a.heartbeat("a learns of it")
    await a.join("a joins the classic group")
    await a.assigns("a assigns as before", {a: (0, 1, 2, 3)})
    await a.heartbeat("a's heartbeat as before")


@consumer
async def a_cooperative_group_migrates(s: Stage) -> None:
    """Members that keep what they own give up one thing, and others take it afterwards."""
    orders = await topic(s, "orders", 4)
    a, b = await classic_pair(s, orders, "cooperative-sticky")
    c = ConsumerMember(s, "c")
    await c.joins("c joins", [orders], server_assignor="range")
    await a.heartbeat("a is to join again")
    a.owns(0, 1)
    await a.join("a joins with what it owns")
    await a.sync("a's share")
    await a.heartbeat("a's heartbeat")
    b.owns(2, 3)
    await b.join("b joins with what it owns")
    await b.sync("b's share of the mixed group")
    await b.heartbeat("b's heartbeat")
    await described(s, "before anybody gave up")
    await c.beat("c waits")
    for member, kept in ((a, (0,)), (b, (2,)), (a, (0, 1)), (b, (2,))):
        member.owns(*kept)
        await member.join(f"{member.name} joins with {kept}")
        await member.sync(f"{member.name}'s share then")
        await member.heartbeat(f"{member.name}'s heartbeat then")
    await c.quietly_beats()
    await c.acknowledges("c has its share")
    await described(s, "settled")


@consumer
async def classic_members_join_a_consumer_group(s: Stage) -> None:
    """And what they may not do there."""
    orders = await topic(s, "orders", 4)
    c = ConsumerMember(s, "c")
    c.member_id = "~c"  # after any id that a coordinator generates: range orders members by id
    await c.joins("c joins", [orders], server_assignor="range")
    a = Migrating(s, "a", orders)
    await a.join("of another type", protocol_type="connect")
    await a.join("no protocols", protocols={})
    await a.join("a session too short", session_timeout_ms=10)
    await a.gets_an_id()
    await a.join("a joins")
    await a.sync("a's share")
    await c.beat("c is told")
    await c.acknowledges("c gave up")
    await a.heartbeat("a may take it")
    await a.join("a joins again")
    await a.sync("a's share then")
    await a.heartbeat("a's heartbeat")
    await described(s, "both are in")
    other = Migrating(s, "other", orders, "roundrobin")
    await other.gets_an_id()
    await other.join("no assignor in common with a")
    old = Migrating(s, "old", orders)
    await old.join("in version 3", 3)
    await old.leave("it leaves", 3)
    await c.beat("c in a request of the other kind", member_epoch=c.epoch)
    stranger = Migrating(s, "stranger", orders)
    stranger.member_id, stranger.generation = c.member_id, c.epoch
    await stranger.heartbeat("c's heartbeat as a classic member")
    await stranger.sync("c's sync as a classic member")
    stranger.member_id = "nobody"
    await stranger.heartbeat("an unknown member")
    await stranger.leave("an unknown member leaves")
    await a.leave("a leaves")
    await settle(c)
    await described(s, "c has all")
    await c.leaves("c leaves")
    late = Migrating(s, "late", orders)
    await late.enters()
    await s.admin.ask("an empty consumer group became a classic one", DescribeGroupsRequest(groups=[s.group]), 4)


@consumer
async def a_member_id_that_nobody_handed_out(s: Stage) -> None:
    """As of a classic member that was put out of the group, and does not know it."""
    orders = await topic(s, "orders", 2)
    c = ConsumerMember(s, "c")
    await c.joins("c joins", [orders])
    a = Migrating(s, "a", orders)
    a.member_id = "mine"
    await a.join("a joins with an id of its own")
    await described(s, "the group")


@consumer
async def static_members_migrate(s: Stage) -> None:
    """The next life of a static member may speak the other protocol."""
    orders = await topic(s, "orders", 2)
    a = Migrating(s, "a", orders, instance="ia")
    await a.join("a joins")
    await a.assigns("a assigns", {a: (0, 1)})
    newer = ConsumerMember(s, "a2", instance="ia")
    await newer.joins("a restarts in the consumer protocol", [orders])
    await a.heartbeat("the old life's heartbeat")
    await described(s, "a consumer group of one")
    await newer.leaves("it goes for a while", member_epoch=-2)
    again = Migrating(s, "a3", orders, instance="ia")
    await again.join("a restarts in the classic protocol")
    await s.admin.ask("a classic group of one", DescribeGroupsRequest(groups=[s.group]), 5)
    await again.heartbeat("its heartbeat")
    await again.sync("its share")


@consumer
async def groups_that_cannot_migrate(s: Stage) -> None:
    """Of another type, or with an assignor that says more than partitions."""
    orders = await topic(s, "orders", 2)
    a = Member(s, "a", protocols=("default",))
    a.protocol_type = "connect"
    await a.enters()
    await a.sync("a assigns", {a: "one"})
    c = ConsumerMember(s, "c")
    await c.joins("c joins a group of connectors", [orders])
    b = Migrating(s, "b", orders, group=f"{s.group}-2")
    await b.enters()
    custom = encode_assignment(Assignment([TopicPartition(orders, 0)], b"secret"), 3)
    await b.sync(
        "b assigns with user data", assignments=[SyncGroupRequestAssignment(member_id=b.member_id, assignment=custom)]
    )
    d = ConsumerMember(s, "d", group=b.group)
    await d.joins("d joins a group with a custom assignor", [orders])
    await b.heartbeat("b goes on")


async def both_ways(s: Stage) -> None:
    """The migrations and classic joins that each policy permits."""
    orders = await topic(s, "orders", 2)
    a = Migrating(s, "a", orders)
    await a.enters()
    await a.assigns("a assigns", {a: (0, 1)})
    up = ConsumerMember(s, "up")
    await up.joins("a consumer joins a classic group", [orders])
    await a.heartbeat("the classic member's heartbeat")
    c = ConsumerMember(s, "c", group=f"{s.group}-2")
    await c.joins("c joins", [orders])
    b = Migrating(s, "b", orders, group=c.group)
    await b.join("a classic member joins a consumer group", 3)
    if b.member_id:
        await c.leaves("the last consumer leaves")
        await described(s, "what it is then", c.group)
        await b.heartbeat("the classic member's heartbeat then")


@upgrade_only
async def under_policy_upgrade(s: Stage) -> None:
    """Up, and never down."""
    await both_ways(s)


@downgrade_only
async def under_policy_downgrade(s: Stage) -> None:
    """Down, and never up."""
    await both_ways(s)


@disabled
async def under_policy_disabled(s: Stage) -> None:
    """Neither."""
    await both_ways(s)
