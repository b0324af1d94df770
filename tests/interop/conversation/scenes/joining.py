"""Members that may join a group, and the error codes of rejected joins."""

from __future__ import annotations

from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from tests.interop.conversation.members import SUBSCRIPTION, Member, running
from tests.interop.conversation.stage import Stage, scene


@scene
async def life_in_every_version(s: Stage) -> None:
    """One member joins, works and leaves, in each version of each request."""
    for v in range(10):
        member = Member(s, f"v{v}", group=f"{s.group}-{v}")
        await member.enters(v)
        await member.sync(f"sync {v}", {member: "all"}, v=min(v, 5))
        await member.heartbeat(f"heartbeat {v}", v=min(v, 4))
        await member.leave(f"leave {v}", v=min(v, 5))
        await member.heartbeat(f"heartbeat of one that left {v}", v=min(v, 4))
        await member.join(f"join of one that left {v}", v=v)


@scene
async def bad_joins(s: Stage) -> None:
    """Each reason to reject a JoinGroup, and which of two is reported."""
    one = Member(s, "one")
    for v in (0, 1, 2, 4, 6, 9):
        await one.join(f"no group id {v}", v, group_id="")
        await one.join(f"session timeout too short {v}", v, session_timeout_ms=5_999)
        await one.join(f"session timeout too long {v}", v, session_timeout_ms=1_800_001)
        await one.join(f"no protocols {v}", v, protocols={})
        await one.join(f"no protocol type {v}", v, protocol_type="")
        await one.join(f"a member id that nobody gave {v}", v, member_id="one-x")
    await one.join("no group id and a bad session timeout", group_id="", session_timeout_ms=1)
    await one.join("a bad session timeout and an unknown member", session_timeout_ms=1, member_id="one-x")
    await one.join("no protocols and an unknown member", protocols={}, member_id="one-x")
    await one.join("negative session timeout", session_timeout_ms=-1)
    for what, instance in (
        ("with a space", "my place"),
        ("empty", ""),
        ("of 300 characters", "i" * 300),
        ("of a dot", "."),
    ):
        place = Member(s, "place", group=f"{s.group}-{what}")
        await place.join(f"an instance id {what}", group_instance_id=instance)
    for what, changes in {
        "the shortest session timeout": {"session_timeout_ms": 6_000},
        "the longest session timeout": {"session_timeout_ms": 1_800_000},
        "the longest rebalance timeout": {"rebalance_timeout_ms": 2**31 - 1},
    }.items():
        patient = Member(s, "patient", group=f"{s.group}-{what}")
        await patient.join(what, **changes)
        await patient.join(f"{what}, with the id", **changes)


@scene
async def member_ids(s: Stage) -> None:
    """KIP-394: an id can be used once, in any version, on any connection."""
    orders = await s.topic("orders")
    one, two, three = Member(s, "one"), Member(s, "two"), Member(s, "three")
    await one.gets_an_id(4)
    await two.gets_an_id(5)
    await three.gets_an_id(9)
    await one.heartbeat("a heartbeat with an id that only was handed out", generation_id=0)
    await one.heartbeat("the same, generation -1")
    await one.sync("a sync with it", generation_id=0, protocol_name="range")
    await one.commit("a commit with it", {(orders, 0): 1})
    await three.leave("leaves before it joined")
    await three.leave("leaves again")
    await three.join("comes after all")
    await two.join("two joins first, and nobody waits for one", 9)
    await one.join_waits("one joins in another version", 2)
    await two.join("two rejoins")
    await one.receives("one is in")
    await two.sync("two assigns", {one: "1", two: "2"})
    await one.sync("one's share")
    await three.join("three asks for an id again", 5, member_id="")
    await two.join_waits("two rejoins, which leads")
    await one.join_waits("one rejoins, and both wait for whoever has the id")
    await three.join("three uses it")
    await one.receives("one is in, of three")
    await two.receives("two is in, of three")
    await two.sync("two assigns to three", {one: "1", two: "2", three: "3"})
    await three.leave("three leaves")
    await three.join("three asks for an id a third time", 5, member_id="")
    await one.join_waits("one rejoins again")
    await two.join_waits("two rejoins again, and both wait")
    await three.leave("three gives its id back")
    await one.receives("one is in, of two")
    await two.receives("two is in, of two")


@scene
async def an_id_of_another_kind(s: Stage) -> None:
    """A member id that was handed out, used with an instance id; an instance id with a member id of no one."""
    one = Member(s, "one")
    await one.gets_an_id()
    await one.join("a dynamic id used with an instance id", group_instance_id="place")
    await one.join("a made-up id with an instance id", member_id="made-up", group_instance_id="place")
    await one.join("the dynamic id again", group_instance_id=None)
    await one.sync("assigns", {one: "all"})
    await one.heartbeat("with an instance id that nobody holds", group_instance_id="place")


@scene
async def protocols(s: Stage) -> None:
    """One assignor in common with everybody; the one that most prefer is chosen."""
    one = Member(s, "one", protocols={"range": SUBSCRIPTION, "roundrobin": SUBSCRIPTION})
    await one.enters()
    await one.sync("assigns", {one: "all"})
    stranger = Member(s, "stranger", protocols=["sticky"])
    await stranger.join("no assignor in common")
    await stranger.join("another protocol type", protocol_type="connect", protocols={"range": b""})
    await stranger.join("no protocols at all", protocols={})
    await stranger.join("an empty name", protocols={"": SUBSCRIPTION})
    two = Member(s, "two", protocols={"roundrobin": SUBSCRIPTION, "sticky": SUBSCRIPTION})
    await two.knocks()
    await one.join("one joins again")
    await two.receives("only roundrobin is left")
    await one.sync("names the protocol before", {one: "x"}, protocol_name="range")
    await one.sync("names another type", {one: "x"}, protocol_type="connect")
    await one.sync("names no protocol", {one: "x"}, protocol_name=None)
    await one.sync("names no type", {one: "x"}, protocol_type=None)
    await one.sync("names neither", {one: "x"}, protocol_name=None, protocol_type=None)
    await one.sync("an older version need not", {one: "x", two: "y"}, v=4)
    await two.sync("gets its share")
    await one.join("withdraws the only common one", protocols={"range": SUBSCRIPTION})


@scene
async def a_group_that_is_not_consumers(s: Stage) -> None:
    """Connect's protocol type: the bytes are its own."""
    one = Member(s, "one", protocols={"sessioned": b"\xff\xff any bytes"})
    one.protocol_type = "connect"
    await one.enters()
    await one.sync("assigns", {one: "task 1"})
    await one.join("comes with other bytes", protocols={"sessioned": b"other"}, rebalance_timeout_ms=1)


@scene
async def malformed_subscriptions(s: Stage) -> None:
    """KAFKA-20570: bytes that are no subscription, where one is expected."""
    good = encode_subscription(Subscription(["orders"]), 3)
    bad = {
        "unreadable, empty": b"",
        "unreadable, one byte": b"\0",
        "unreadable, a version alone": b"\0\1",
        "unreadable, a negative version": b"\xff\xff" + good[2:],
        "a far version": b"\0\x63" + good[2:],
        "cut short": good[:-1],
        "more bytes than needed": good + b"more",
        "a topic that is not UTF-8": b"\0\0\0\0\0\1\0\2\xff\xfe\xff\xff\xff\xff",
        "version 0 with version 3's fields": b"\0\0" + good[2:],
        "version 3 with version 0's fields": b"\0\3" + encode_subscription(Subscription(["orders"]), 0)[2:],
    }
    worse = {
        "unreadable, cut in the topics": good[:8],
        "unreadable, a billion topics": b"\0\1\x3b\x9a\xca\x00",
        "unreadable, a null topic": b"\0\0\0\0\0\1\xff\xff\xff\xff\xff\xff",
        "unreadable, topics null": b"\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
        "unreadable, user data longer than the rest": b"\0\0\0\0\0\0\0\0\xff\xff",
    }
    for what, data in bad.items():
        one = Member(s, what, group=f"{s.group}-{what}")
        await one.join(what, 2, protocols={"range": data})
    for what, data in worse.items():
        one = Member(s, what, group=f"{s.group}-{what}")
        await one.join_waits(what, 2, protocols={"range": data})
        await one.abandons(f"{what}: later")
    keeper = Member(s, "keeper")
    await keeper.enters()
    await keeper.sync("assigns", {keeper: "all"})
    await keeper.join("unreadable, its own subscription turns bad", protocols={"range": b"\0"})
    await keeper.heartbeat("is still in")
    other = Member(s, "other")
    await other.join("unreadable, one good and one bad", protocols={"range": good, "sticky": b"\0"})
    await other.join_waits(
        "unreadable, one good and one bad, the bad one first", protocols={"sticky": b"\0", "range": good}
    )


@scene
async def an_id_whose_connection_breaks(s: Stage) -> None:
    """Only a rebalance shows it: it waits for the client with the id, which may use it on another connection."""
    one, two = Member(s, "one"), Member(s, "two")
    await running(one)
    await two.gets_an_id()
    two.hangs_up()
    await one.heartbeat("the group does not notice")
    await one.join_waits("one rejoins and waits for two")
    await two.join("two comes with its id")
    await one.receives("one is in, of two")
