"""Heartbeats of classic groups that are held until there is news, and SyncGroups that wait for who must give up."""

from collections.abc import Awaitable, Callable, Collection

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.model import TopicPartition
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.broker.conftest import Connect, MakeBroker
from tests.broker.peer import Peer, until

HOUR = 3_600_000
SETTINGS = {
    "group.heartbeat.hold.ms": str(HOUR),
    "group.initial.rebalance.delay.ms": "0",
    "group.max.session.timeout.ms": str(2 * HOUR),
}


@pytest.fixture
async def broker(start_broker: MakeBroker) -> Broker:
    """Nothing here ends by time: a session of two hours is held for 40 minutes."""
    return await start_broker(BrokerOptions(port=0, settings=SETTINGS))


class Member:
    """One classic member on a connection of its own."""

    def __init__(self, peer: Peer, assignor: str) -> None:
        self.peer = peer
        self.member_id = ""
        self.generation = -1
        self._assignor = assignor

    async def introduce(self, software: str) -> None:
        """Say what client it is, as its connection's first request."""
        request = ApiVersionsRequest(client_software_name=software, client_software_version="4.3.1")
        await self.peer.ask(request, 3, ApiVersionsResponse)

    def join(self, owned: Collection[int] = ()) -> None:
        subscription = Subscription(["orders"], owned_partitions=[TopicPartition("orders", n) for n in owned])
        self.peer.send(
            JoinGroupRequest(
                group_id="g",
                session_timeout_ms=2 * HOUR,
                rebalance_timeout_ms=60_000,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name=self._assignor, metadata=encode_subscription(subscription))],
            ),
            3,
        )

    async def joined(self) -> JoinGroupResponse:
        answer = await self.peer.answer(JoinGroupResponse)
        assert answer.error_code == ErrorCode.NONE
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def sync(self, shares: dict[str, Collection[int]] | None = None) -> None:
        """Ask for its share; who leads says whose share is which."""
        assignments = [
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=encode_assignment(Assignment([TopicPartition("orders", n) for n in numbers])),
            )
            for member_id, numbers in (shares or {}).items()
        ]
        request = SyncGroupRequest(
            group_id="g", generation_id=self.generation, member_id=self.member_id, assignments=assignments
        )
        self.peer.send(request, 3)

    async def synced(self) -> ErrorCode:
        return ErrorCode((await self.peer.answer(SyncGroupResponse)).error_code)

    def beat(self) -> None:
        request = HeartbeatRequest(group_id="g", generation_id=self.generation, member_id=self.member_id)
        self.peer.send(request, 3)

    async def heard(self) -> ErrorCode:
        return ErrorCode((await self.peer.answer(HeartbeatResponse)).error_code)


Stable = Callable[..., Awaitable[list[Member]]]


@pytest.fixture
def stable(connect: Connect, broker: Broker) -> Stable:
    """Form a stable group of that many members; the first leads, and each has the partition with its index."""

    async def make(assignor: str, count: int, software: str = "kohort") -> list[Member]:
        members: list[Member] = []
        for _ in range(count):
            newcomer = Member(await connect(), assignor)
            await newcomer.introduce(software)
            newcomer.join()
            await until(lambda: len(broker.groups.shard("g").waiting) > 0)
            for place, member in enumerate(members):
                member.join(owned=[place])
            members.append(newcomer)
            for member in members:
                await member.joined()
            members[0].sync({member.member_id: [place] for place, member in enumerate(members)})
            for member in members[1:]:
                member.sync()
            for member in members:
                assert await member.synced() == ErrorCode.NONE
        return members

    return make


async def held(broker: Broker, *members: Member) -> None:
    """Let each send a heartbeat, and let the broker hold it."""
    before = holding(broker)
    for member in members:
        member.beat()
    await until(lambda: holding(broker) == before + len(members))


def holding(broker: Broker) -> int:
    """How many requests the broker has parked or holds."""
    return sum(len(shard.waiting) for shard in broker.groups)


async def leaves(peer: Peer, member: Member) -> None:
    identity = MemberIdentity(member_id=member.member_id)
    await peer.ask(LeaveGroupRequest(group_id="g", members=[identity]), 5, LeaveGroupResponse)


async def test_members_of_a_cooperative_assignor_are_notified_at_once(
    broker: Broker, stable: Stable, peer: Peer
) -> None:
    a, b, c = await stable("cooperative-sticky", 3)
    await held(broker, a)
    await leaves(peer, c)
    assert await a.heard() == ErrorCode.REBALANCE_IN_PROGRESS
    b.beat()
    assert await b.heard() == ErrorCode.REBALANCE_IN_PROGRESS


async def test_members_of_an_eager_assignor_are_notified_together(broker: Broker, stable: Stable, peer: Peer) -> None:
    a, b, c = await stable("range", 3)
    await held(broker, a)
    await leaves(peer, c)
    assert holding(broker) == 1, "b processes, and cannot be told yet"
    b.beat()
    assert await b.heard() == ErrorCode.REBALANCE_IN_PROGRESS
    assert await a.heard() == ErrorCode.REBALANCE_IN_PROGRESS


async def test_an_eager_member_whose_heartbeat_is_released_is_notified_with_the_others_by_its_next_heartbeat(
    broker: Broker, stable: Stable, peer: Peer
) -> None:
    a, b, c = await stable("range", 3)
    await held(broker, a)
    await leaves(peer, c)
    a.peer.send(ListGroupsRequest(), 4)
    assert await a.heard() == ErrorCode.NONE
    await a.peer.answer(ListGroupsResponse)
    await held(broker, a)
    b.beat()
    assert await a.heard() == await b.heard() == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("software", ["apache-kafka-java", "librdkafka"])
async def test_a_member_whose_commit_cuts_a_hold_short_is_asked_for_its_next_heartbeat(
    broker: Broker, stable: Stable, software: str
) -> None:
    (a,) = await stable("range", 1, software)
    await held(broker, a)
    a.peer.send(ListGroupsRequest(), 4)
    assert await a.heard() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await a.peer.answer(ListGroupsResponse)
    await held(broker, a)
    a.beat()
    assert await a.heard() == ErrorCode.NONE, "its next one is here"
    a.peer.send(ListGroupsRequest(), 4)
    assert await a.heard() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_other_members_are_not_refused(broker: Broker, stable: Stable) -> None:
    (a,) = await stable("range", 1, "aiokafka")
    await held(broker, a)
    a.peer.send(ListGroupsRequest(), 4)
    assert await a.heard() == ErrorCode.NONE


async def test_a_java_member_that_is_released_during_the_joint_notification_returns(
    broker: Broker, stable: Stable, peer: Peer
) -> None:
    a, b, c = await stable("range", 3, "apache-kafka-java")
    await held(broker, a)
    await leaves(peer, c)
    a.peer.send(ListGroupsRequest(), 4)
    assert await a.heard() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await a.peer.answer(ListGroupsResponse)
    await held(broker, a)
    b.beat()
    assert await a.heard() == await b.heard() == ErrorCode.REBALANCE_IN_PROGRESS


async def test_the_notification_does_not_wait_for_an_overdue_member(broker: Broker, stable: Stable, peer: Peer) -> None:
    a, b, c = await stable("range", 3)
    b.beat()
    await until(lambda: holding(broker) == 1)
    b.beat()  # in no time after the last: so much is waited for the next
    assert await b.heard() == ErrorCode.NONE
    b.peer.send(ListGroupsRequest(), 4)
    assert await b.heard() == ErrorCode.NONE
    await b.peer.answer(ListGroupsResponse)
    await held(broker, a)
    await leaves(peer, c)
    assert await a.heard() == ErrorCode.REBALANCE_IN_PROGRESS


async def test_a_heartbeat_behind_another_of_the_same_member_takes_its_place(broker: Broker, stable: Stable) -> None:
    # The Java client sends heartbeats by the clock, whether or not the last was answered.
    (a,) = await stable("range", 1)
    await held(broker, a)
    for _ in range(3):
        a.beat()
        assert await a.heard() == ErrorCode.NONE
        await until(lambda: holding(broker) == 1)


async def test_partitions_that_move_between_cooperative_members_wait_for_no_heartbeat(
    broker: Broker, stable: Stable, connect: Connect
) -> None:
    a, b = await stable("cooperative-sticky", 2)
    c = Member(await connect(), "cooperative-sticky")
    await held(broker, a, b)
    c.join()
    assert await a.heard() == await b.heard() == ErrorCode.REBALANCE_IN_PROGRESS
    a.join(owned=[0, 2])
    b.join(owned=[1])
    for member in (a, b, c):
        await member.joined()
    a.sync({a.member_id: [0], b.member_id: [1], c.member_id: []})
    b.sync()
    c.sync()
    assert await a.synced() == ErrorCode.NONE, "it must give up 2"
    a.join(owned=[0])
    assert await b.synced() == await c.synced() == ErrorCode.REBALANCE_IN_PROGRESS
    b.join(owned=[1])
    c.join(owned=[])
    for member in (a, b, c):
        await member.joined()
    a.sync({a.member_id: [0], b.member_id: [1], c.member_id: [2]})
    b.sync()
    c.sync()
    assert [await member.synced() for member in (a, b, c)] == [ErrorCode.NONE] * 3


async def test_others_do_not_wait_long_for_a_member_that_does_not_give_up(broker: Broker, stable: Stable) -> None:
    a, b = await stable("cooperative-sticky", 2)
    a.join(owned=[0, 2])
    b.beat()
    assert await b.heard() == ErrorCode.REBALANCE_IN_PROGRESS
    b.join(owned=[1])
    for member in (a, b):
        await member.joined()
    a.sync({a.member_id: [0], b.member_id: [1]})
    b.sync()
    assert await a.synced() == ErrorCode.NONE
    assert await b.synced() == ErrorCode.NONE, "after half a second"


async def test_a_broker_that_stops_lets_no_classic_member_wait(broker: Broker, stable: Stable) -> None:
    a, b = await stable("range", 2)
    await held(broker, a, b)
    await broker.stop()
    assert await a.heard() == await b.heard() == ErrorCode.NOT_COORDINATOR


async def test_a_removed_member_is_notified_while_others_are_awaited(
    broker: Broker, stable: Stable, peer: Peer
) -> None:
    a, b, c = await stable("range", 3)
    await held(broker, a, c)
    await leaves(peer, c)
    assert await c.heard() == ErrorCode.UNKNOWN_MEMBER_ID
    assert holding(broker) == 1, "b processes, and cannot be told yet"
    b.beat()
    assert await b.heard() == await a.heard() == ErrorCode.REBALANCE_IN_PROGRESS


async def test_a_first_heartbeat_that_comes_soon_does_not_make_its_member_overdue(
    broker: Broker, stable: Stable, peer: Peer
) -> None:
    # librdkafka sends one as soon as it has its assignment. A commit ends its hold, and the next follows 3 s later.
    a, b, c = await stable("range", 3)
    await held(broker, a, b)
    b.peer.send(ListGroupsRequest(), 4)
    assert await b.heard() == ErrorCode.NONE
    await b.peer.answer(ListGroupsResponse)
    await leaves(peer, c)
    assert holding(broker) == 1, "a hears it together with b"
    b.beat()
    assert await b.heard() == await a.heard() == ErrorCode.REBALANCE_IN_PROGRESS
