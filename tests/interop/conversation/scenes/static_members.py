"""Static membership (KIP-345): restarts, two holders of one instance id, removal by an admin."""

from __future__ import annotations

from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.interop.conversation.members import Member, running
from tests.interop.conversation.stage import Stage, scene


@scene
async def a_static_member_restarts(s: Stage) -> None:
    """In a Stable group it gets its assignment back without a rebalance; its life before is fenced."""
    orders = await s.topic("orders")
    for v in (5, 6, 7, 8, 9):
        a = Member(s, "a", group=f"{s.group}-{v}", instance=f"a-{v}")
        b = Member(s, "b", group=f"{s.group}-{v}", instance=f"b-{v}")
        await a.join(f"a joins {v}", v)
        await b.join_waits(f"b joins {v}", v)
        await a.join(f"a rejoins {v}", v)
        await b.receives(f"b is in {v}")
        await a.sync(f"a assigns {v}", {a: "left", b: "right"}, v=min(v, 5))
        await b.sync(f"b's share {v}", v=min(v, 5))
        again = Member(s, "b", group=b.group, instance=b.instance)
        await again.join(f"b restarts {v}", v)
        await again.sync(f"b's share again {v}", v=min(v, 5))
        await b.heartbeat(f"b's life before {v}")
        await b.sync(f"its sync {v}")
        await b.join(f"its join {v}", v)
        await b.commit(f"its commit {v}", {(orders, 0): 1})
        await b.leave(f"its leave {v}")
        leader = Member(s, "a", group=a.group, instance=a.instance)
        await leader.join(f"the leader restarts {v}", v)
        await leader.sync(f"the leader's share again {v}", {leader: "all"}, v=min(v, 5))
        await a.heartbeat(f"the leader's life before {v}")
        await again.heartbeat(f"b's heartbeat {v}")
    await s.admin.ask("how the last one stands", DescribeGroupsRequest(groups=[a.group]), 6)


@scene
async def a_static_member_changes(s: Stage) -> None:
    """A static member that returns with another subscription, or with another assignor."""
    a, b = Member(s, "a", instance="a"), Member(s, "b", instance="b")
    await running(a, b)
    changed = {"range": encode_subscription(Subscription(["payments"]), 1)}
    again = Member(s, "b", instance="b", protocols=changed)
    await again.join("b restarts with another subscription, same assignor")
    await s.admin.ask("what is known of it", DescribeGroupsRequest(groups=[s.group]), 5)
    await again.sync("its share")
    await again.join_waits(
        "it rejoins with a third subscription", protocols={"range": encode_subscription(Subscription(["x"]), 1)}
    )
    await a.join("a rejoins")
    await again.receives("b is in the new generation")
    await a.sync("a assigns", {a: "1", again: "2"})
    await again.sync("b's share")
    other = Member(s, "b", instance="b", protocols=["sticky"])
    await other.join("it restarts with an assignor that a lacks")
    other = Member(s, "b", instance="b", protocols=["sticky", "range"])
    await other.join("it restarts with another assignor besides")
    await other.heartbeat("its heartbeat")


@scene
async def two_holders_of_an_instance(s: Stage) -> None:
    """While the first still joins or syncs (KAFKA-8500, KAFKA-9801)."""
    orders = await s.topic("orders")
    a, b = Member(s, "a"), Member(s, "b", instance="place")
    await a.enters()
    await b.join_waits("b joins")
    twin = Member(s, "twin", instance="place")
    await twin.join_waits("a twin of b joins")
    await b.receives("b is fenced")
    await a.join("a rejoins")
    await twin.receives("the twin is in")
    await twin.sync_waits("the twin's sync")
    third = Member(s, "third", instance="place")
    await third.join_waits("a third one, while the assignment is awaited")
    await twin.receives("the twin's sync ends")
    await a.join("a rejoins again")
    await third.receives("the third is in")
    await third.sync_waits("the third's sync")
    await a.sync("a assigns", {a: "a", third: "third"})
    await third.receives("the third's share")
    await twin.heartbeat("the twin's heartbeat")
    await third.heartbeat("the third with no instance id", group_instance_id=None)
    await third.heartbeat("the third with another's", group_instance_id="elsewhere")
    await a.heartbeat("a with the third's", group_instance_id="place")
    await third.commit("the third with no instance id commits", {(orders, 0): 1}, group_instance_id=None)


@scene
async def an_admin_removes_static_members(s: Stage) -> None:
    """By instance id alone, by both ids, by wrong pairs."""
    a, b = Member(s, "a", instance="a"), Member(s, "b", instance="b")
    await running(a, b)
    wrong = [
        MemberIdentity(member_id=a.member_id, group_instance_id="b"),
        MemberIdentity(member_id=b.member_id),
        MemberIdentity(member_id="", group_instance_id="c"),
    ]
    await s.admin.ask(
        "wrong pairs, and one without its instance id", LeaveGroupRequest(group_id=s.group, members=wrong), 5
    )
    right = [
        MemberIdentity(member_id="", group_instance_id="a", reason="an admin's"),
        MemberIdentity(member_id=b.member_id, group_instance_id="b"),
    ]
    await s.admin.ask("both, in two ways", LeaveGroupRequest(group_id=s.group, members=right), 4)
    await a.heartbeat("a's heartbeat")
    await b.join("b's join with its old id")
    await b.join("b's join without", member_id="")
    await s.admin.ask("who is there", DescribeGroupsRequest(groups=[s.group]), 4)


@scene
async def static_members_and_the_rebalance_timeout(s: Stage) -> None:
    """KAFKA-8220: a static member that does not rejoin in time stays until its session ends."""
    a, b = Member(s, "a", instance="a"), Member(s, "b", instance="b")
    await a.join("a joins", rebalance_timeout_ms=1_000)
    await a.sync("a assigns", {a: "all"})
    await b.join_waits("b joins", rebalance_timeout_ms=1_000)
    await b.receives("b leads, a stays")
    await b.sync("b assigns", {b: "b", a: "a"})
    await a.heartbeat("a knows nothing of it")
    await a.join("a rejoins", rebalance_timeout_ms=1_000)
    await a.sync("a's share")
