"""Responses to the members of a group in each of its states."""

from __future__ import annotations

from kohort.model import TopicPartition
from kohort.wire.codec import encode
from kohort.wire.messages.consumer_protocol import (
    ConsumerProtocolPartitions,
    ConsumerProtocolSubscription,
    Subscription,
    encode_subscription,
)
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.sync_group import SyncGroupRequestAssignment
from tests.interop.conversation.members import Member, running
from tests.interop.conversation.stage import Stage, scene


@scene
async def requests_to_no_group(s: Stage) -> None:
    """A group that does not exist, and one without a name."""
    one = Member(s, "one")
    for group in (s.group, ""):
        of = "an unknown group" if group else "no group id"
        one.group = group
        for v in (0, 2, 3, 5):
            await one.sync(f"sync {v} of {of}", v=v, group_id=group)
            await one.leave(f"leave {v} of {of}", v=v, group_id=group)
        await one.sync(f"sync 5 with names of {of}", generation_id=1, member_id="x", protocol_name="range")
        for v in (0, 3, 4):
            await one.heartbeat(f"heartbeat {v} of {of}", v=v, group_id=group)
        await one.heartbeat(f"heartbeat with an instance id of {of}", group_instance_id="i", group_id=group)


@scene
async def two_members(s: Stage) -> None:
    """The whole turn of two members, with every request tried in every state."""
    orders = await s.topic("orders")
    a, b = Member(s, "a"), Member(s, "b")
    await a.enters()
    await a.heartbeat("a before it syncs")
    await a.join("a joins again before it syncs: its answer was lost")
    await a.sync("a assigns", {a: "one"})
    await a.sync("a asks again")
    await a.join("the leader rejoins: a new generation")
    await a.sync("a assigns again", {a: "two"})
    await b.knocks()
    await a.heartbeat("a learns of the rebalance")
    await a.sync("a's sync during the rebalance")
    await a.commit("a's commit during the rebalance", {(orders, 0): 1})
    await b.heartbeat("b's heartbeat while it waits", generation_id=2)
    await a.heartbeat("an older generation during the rebalance", generation_id=1)
    await a.heartbeat("a newer one", generation_id=7)
    await a.join("a rejoins")
    await b.receives("b is in")
    await b.sync_waits("b waits for its share")
    await b.heartbeat("b's heartbeat while its sync waits")
    await a.heartbeat("a's heartbeat while the assignment is awaited")
    await b.join("b joins again while its sync waits, unchanged")
    await a.sync("a assigns to both", {a: "left", b: "right"})
    await b.receives("b's share")
    await b.sync("b asks again, late")
    await b.join("b rejoins unchanged: the same generation")
    await b.sync("b asks once more")
    await b.heartbeat("b's old generation", generation_id=b.generation - 1)
    await b.heartbeat("b under another's id", member_id="b-nobody")
    await b.sync("b's sync of an old generation", generation_id=b.generation - 1)
    await b.sync("b's sync of the next generation", generation_id=b.generation + 1)
    await b.sync("b's sync under another's id", member_id="b-nobody")
    await b.sync("b's sync without a member id", member_id="")
    await b.leave("b leaves")
    await b.heartbeat("b's heartbeat after it left")
    await b.leave("b leaves again")
    await a.heartbeat("a learns that b left")
    await a.join("a rejoins alone")
    await a.sync("a takes all", {a: "all"})
    await a.leave("a leaves")
    await s.admin.ask("what is left", DescribeGroupsRequest(groups=[s.group]), 6)


@scene
async def three_members(s: Stage) -> None:
    """Three members, a change of a subscription, strangers in the leader's assignment."""
    a, b, c = (Member(s, name) for name in "abc")
    await running(a, b, c)
    changed = {"range": encode_subscription(Subscription(["orders", "payments"]), 1)}
    await b.join_waits("b changes its subscription", protocols=changed)
    await c.join_waits("c rejoins")
    await a.join("a rejoins")
    await b.receives("b is in again")
    await c.receives("c is in again")
    await c.sync_waits("c waits")
    stranger = Member(s, "stranger")
    stranger.member_id = "stranger-of-no-group"
    await a.sync("a assigns to a stranger, forgets c", {a: "a", b: "b", stranger: "?"})
    await c.receives("c gets nothing")
    await b.sync("b gets its share again")
    await s.admin.ask("all three", DescribeGroupsRequest(groups=[s.group]), 5)
    both = [MemberIdentity(member_id=m.member_id, reason="closing") for m in (b, c)]
    await s.admin.ask("two leave at once", LeaveGroupRequest(group_id=s.group, members=both), 5)
    await a.heartbeat("a learns of it")


@scene
async def sync_that_waits_is_cut_short(s: Stage) -> None:
    """Somebody joins while a member waits for its assignment."""
    a, b, c = (Member(s, name) for name in "abc")
    await a.enters()
    await b.knocks()
    await a.join("a rejoins")
    await b.receives("b is in")
    await b.sync_waits("b waits for its share")
    await c.knocks()
    await b.receives("b's sync is refused")
    await a.sync("a's assignment comes too late", {a: "a", b: "b"})
    await b.join_waits("b rejoins")
    await a.join("a rejoins after all")
    await b.receives("b is in again")
    await c.receives("c is in")


@scene
async def the_same_request_twice(s: Stage) -> None:
    """A client that gave up one connection repeats its request on another."""
    a, b = Member(s, "a"), Member(s, "b")
    await a.enters()
    await a.sync("a assigns", {a: "all"})
    await b.knocks()
    await b.join_waits("b's join again")
    await b.abandons("b's first join")
    await a.join("a rejoins")
    await b.receives("b's second join")
    await b.sync_waits("b's sync")
    await b.sync_waits("b's sync again")
    await b.abandons("b's first sync")
    await a.sync("a assigns to both", {a: "a", b: "b"})
    await b.receives("b's second sync")


@scene
async def leaving(s: Stage) -> None:
    """LeaveGroup in every state and in every version, with good and bad names."""
    a, b = Member(s, "a"), Member(s, "b")
    await a.enters()
    await a.leave("a leaves before it syncs")
    await a.leave("a has left")
    a.member_id = ""
    await a.enters(8)
    await a.sync("a assigns", {a: "all"})
    await b.knocks()
    await b.leave("b leaves while its join waits")
    await b.receives("b's join")
    await a.heartbeat("a's heartbeat afterwards")
    await a.join("a rejoins")
    b.member_id = ""
    await b.gets_an_id(7)
    mixed = [
        MemberIdentity(member_id="nobody"),
        MemberIdentity(member_id=b.member_id),
        MemberIdentity(member_id=""),
        MemberIdentity(member_id="", group_instance_id="no such place"),
        MemberIdentity(member_id="nobody", group_instance_id="no such place"),
        MemberIdentity(member_id=a.member_id, group_instance_id="no such place"),
        MemberIdentity(member_id=a.member_id),
        MemberIdentity(member_id=a.member_id),
    ]
    for v in (3, 4, 5):
        await s.admin.ask(f"good and bad together {v}", LeaveGroupRequest(group_id=s.group, members=mixed), v)
    await s.admin.ask("nobody leaves", LeaveGroupRequest(group_id=s.group, members=[]), 5)
    await s.admin.ask("nobody leaves in version 0", LeaveGroupRequest(group_id=s.group, member_id=""), 0)


@scene
async def session_ends(s: Stage) -> None:
    """A member that is silent for its session, and one that never syncs."""
    orders = await s.topic("orders")
    a, b = Member(s, "a"), Member(s, "b")
    await a.enters()
    await a.sync("a assigns", {a: "all"})
    await b.knocks(session_timeout_ms=6_000)
    await a.join("a rejoins")
    await b.receives("b is in")
    await a.sync("a assigns to both", {a: "a", b: "b"})
    await b.sync("b gets its share")
    await a.join_waits("a waits for b, which is silent")
    await a.receives("b's session is over")
    await b.heartbeat("b is unknown now")
    await b.sync("b's sync")
    await b.commit("b's commit", {(orders, 0): 1})
    await b.join("b's join")


@scene
async def rebalance_timeout(s: Stage) -> None:
    """A member that does not rejoin in time is removed."""
    a, b = Member(s, "a"), Member(s, "b")
    await a.enters(rebalance_timeout_ms=1_000)
    await a.sync("a assigns", {a: "all"})
    await b.knocks(rebalance_timeout_ms=1_000)
    await b.receives("b is alone")
    await a.heartbeat("a was left out")
    await b.sync("b takes all", {b: "all"})


@scene
async def sync_that_never_comes(s: Stage) -> None:
    """KAFKA-12890: a leader that joins and never assigns is removed."""
    a, b = Member(s, "a"), Member(s, "b")
    await a.enters(rebalance_timeout_ms=1_500)
    await b.knocks(rebalance_timeout_ms=1_500)
    await a.join("a rejoins", rebalance_timeout_ms=1_500)
    await b.receives("b is in")
    await b.sync_waits("b waits for an assignment that does not come")
    await b.receives("b is told to join again")
    await a.heartbeat("a is no member any more")
    await b.join("b goes on alone", rebalance_timeout_ms=1_500)


@scene
async def owned_partitions_in_another_order(s: Stage) -> None:
    """KAFKA-12898: some clients do not sort what they own."""
    there = [TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("payments", 0)]

    def said(owned: list[TopicPartition]) -> dict[str, bytes]:
        numbers = [
            ConsumerProtocolPartitions(topic=partition.topic, partitions=[partition.partition]) for partition in owned
        ]
        body = ConsumerProtocolSubscription(topics=["orders"], owned_partitions=numbers)
        return {"cooperative-sticky": b"\0\1" + encode(body, 1)}

    a, b = Member(s, "a", protocols=said([])), Member(s, "b", protocols=said(there))
    await running(a, b)
    await b.join("b says the same")
    await b.join_waits("b says it in another order", protocols=said(there[::-1]))
    await a.heartbeat("a's heartbeat")


@scene
async def connections_that_break(s: Stage) -> None:
    """Nobody waits for the answer any more; the member stays for its session."""
    a, b = Member(s, "a"), Member(s, "b")
    await a.enters()
    await a.sync("a assigns", {a: "all"})
    await b.knocks()
    b.hangs_up()
    await a.join("a rejoins")
    await s.admin.ask("both are there", DescribeGroupsRequest(groups=[s.group]), 5)
    await b.sync_waits("b never heard of its generation, and guesses it", generation_id=2, protocol_name="range")
    b.hangs_up()
    await a.sync("a assigns to both", {a: "a", b: "b"})
    await b.sync("b asks again", generation_id=2, protocol_name="range")
    await b.join("b joins again")


@scene
async def a_group_is_deleted_while_somebody_joins(s: Stage) -> None:
    """It has members, or will have: it is not empty."""
    a, b = Member(s, "a"), Member(s, "b")
    await a.enters()
    await a.sync("a assigns", {a: "all"})
    await b.knocks()
    await s.admin.ask("delete it in the rebalance", DeleteGroupsRequest(groups_names=[s.group]), 2)
    await a.leave("a leaves")
    await b.receives("b is alone")
    await s.admin.ask("delete it before b syncs", DeleteGroupsRequest(groups_names=[s.group]), 2)
    await b.sync("b assigns", {b: "all"})
    await b.leave("b leaves")
    await s.admin.ask("delete it when it is empty", DeleteGroupsRequest(groups_names=[s.group]), 2)
    await s.admin.ask("delete it again", DeleteGroupsRequest(groups_names=[s.group]), 2)
    b.member_id = ""
    await b.enters()


@scene
async def the_leader_goes(s: Stage) -> None:
    """While the assignment is awaited, and while all are stable."""
    a, b = Member(s, "a"), Member(s, "b")
    await a.enters()
    await b.knocks()
    await a.join("a rejoins")
    await b.receives("b follows")
    await b.sync_waits("b waits for a's assignment")
    await a.leave("a leaves instead")
    await b.receives("b's sync")
    await b.join("b leads now")
    await b.sync("b assigns", {b: "all"})
    a.member_id = ""
    await a.knocks()
    await b.join("b rejoins")
    await a.receives("a follows now")
    await b.sync("b assigns to both", {a: "a", b: "b"})
    await b.leave("b leaves")
    await a.sync("a's late sync")
    await a.join("a leads again")


@scene
async def assignments_that_are_odd(s: Stage) -> None:
    """A follower that sends assignments, a leader that sends none, one that names a member twice, very large ones."""
    a, b = Member(s, "a"), Member(s, "b")
    await a.enters()
    await b.knocks()
    await a.join("a rejoins")
    await b.receives("b is in")
    await b.sync_waits("b hands in an assignment of its own", assignments=[])
    await a.sync("the leader hands in none")
    await b.receives("b gets nothing")
    await a.join_waits("a rejoins, again")
    await b.join("b rejoins")
    await a.receives("a leads on")
    twice = [
        SyncGroupRequestAssignment(member_id=a.member_id, assignment=b"first"),
        SyncGroupRequestAssignment(member_id=a.member_id, assignment=b"second"),
        SyncGroupRequestAssignment(member_id=b.member_id, assignment=b"x" * 100_000),
    ]
    await a.sync("a's share stands there twice, b's is large", assignments=twice)
    await b.sync("b gets a large share")
    await a.sync("a asks with another assignment", {a: "other"})
    await s.admin.ask("both shares", DescribeGroupsRequest(groups=[s.group]), 5)


@scene
async def members_far_away(s: Stage) -> None:
    """Client ids that are odd: empty, long, not ASCII."""
    for what in ("", "x" * 300, "é-ü", "a-b-c", " "):
        member = Member(s, what, group=f"{s.group}-{len(what)}")
        await member.enters()
        await member.sync(f"{what!r:.9} assigns", {member: "all"})
        await s.admin.ask(f"{what!r:.9} is described", DescribeGroupsRequest(groups=[member.group]), 5)


@scene
async def requests_behind_one_that_waits(s: Stage) -> None:
    """Two requests on one connection; the first one waits for other members."""
    a, b = Member(s, "a"), Member(s, "b")
    await a.enters()
    await a.sync("a assigns", {a: "all"})
    await b.gets_an_id()
    await b.join_waits("b joins and waits")
    itself = [MemberIdentity(member_id=b.member_id)]
    await b.follows("b leaves behind its join", LeaveGroupRequest(group_id=s.group, members=itself), 5)
    await s.admin.ask("who is there", DescribeGroupsRequest(groups=[s.group]), 5)
    await a.join("a rejoins")
    await b.receives("b's join")
    await b.receives("b's leaving")
