"""A member without fetching, as the Spark source uses it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from kohort import Cluster, CommitFailedError, ConfigError, ErrorCode, Membership, TopicPartition
from kohort.client import ClosedError, MembershipKeywords, Phase
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tests.client.conftest import NewTopicName, eventually
from tests.interop.broker import Broker

COOPERATIVE: MembershipKeywords = {"partition_assignment_strategy": "cooperative-sticky", "heartbeat_interval_ms": 200}


@pytest.fixture
async def cluster(any_broker: Broker) -> AsyncIterator[Cluster]:
    async with Cluster.of(any_broker.bootstrap) as made:
        yield made


async def test_one_member_holds_everything_and_commits(cluster: Cluster, new_topic: NewTopicName, fresh: str) -> None:
    topic = await new_topic(3)
    member = await Membership.join(cluster, fresh, [topic])
    assert member.assignment == {TopicPartition(topic, n) for n in range(3)}
    assert (member.state, member.is_leader, member.group_id) == (Phase.STABLE, True, fresh)
    await member.commit({TopicPartition(topic, 1): 7})
    committed = await member.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    assert {partition.partition: at and at.offset for partition, at in committed.items()} == {0: None, 1: 7}
    await member.leave()
    await member.leave()
    assert member.assignment == frozenset()
    with pytest.raises(ClosedError):
        await member.commit({TopicPartition(topic, 1): 8})


async def test_a_callback_may_take_its_time_and_commit(cluster: Cluster, new_topic: NewTopicName, fresh: str) -> None:
    topic = await new_topic(4)
    told: list[str] = []
    may_end = asyncio.Event()

    async def revoked(partitions: frozenset[TopicPartition]) -> None:
        told.append(f"revoking {len(partitions)}")
        await may_end.wait()
        await one.commit(dict.fromkeys(partitions, 5))
        told.append("revoked")

    one = await Membership.join(cluster, fresh, [topic], COOPERATIVE, on_revoked=revoked)
    two = await Membership.join(
        cluster, fresh, [topic], COOPERATIVE, on_assigned=lambda p: told.append(f"two has {len(p)} more")
    )
    await eventually(lambda: "revoking 2" in told)
    assert len(one.assignment) == 4  # until the callback returns it is still its own
    assert two.assignment == frozenset()
    may_end.set()
    await eventually(lambda: len(two.assignment) == 2 and two.state is Phase.STABLE)
    await eventually(lambda: "two has 2 more" in told)
    assert [line for line in told if line != "two has 0 more"] == ["revoking 2", "revoked", "two has 2 more"]
    committed = await two.committed(two.assignment)
    assert {at.offset for at in committed.values() if at} == {5}
    with pytest.raises(CommitFailedError) as raised:
        await one.commit(dict.fromkeys([TopicPartition(topic, 99)], 1), timeout=0.3)
    assert list(raised.value.errors) == [TopicPartition(topic, 99)]
    await two.leave()
    await eventually(lambda: len(one.assignment) == 4)
    await one.leave()


async def test_a_failing_callback_is_raised_when_leaving(cluster: Cluster, new_topic: NewTopicName, fresh: str) -> None:
    topic = await new_topic()

    def broken(partitions: frozenset[TopicPartition]) -> None:
        raise ZeroDivisionError

    member = await Membership.join(cluster, fresh, [topic], on_assigned=broken)
    assert member.state is Phase.STABLE
    with pytest.raises(ZeroDivisionError):
        await member.leave()
    await member.leave()


async def test_a_group_that_rejects_a_member_gives_the_reason(
    cluster: Cluster, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic()
    member = await Membership.join(cluster, fresh, [topic], {"partition_assignment_strategy": "range"})
    with pytest.raises(Exception, match="assignor") as raised:
        await Membership.join(cluster, fresh, [topic], {"partition_assignment_strategy": "roundrobin"})
    assert getattr(raised.value, "code", None) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    await member.leave()


async def test_the_older_of_two_members_with_one_instance_id_ends(
    cluster: Cluster, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic()
    static: MembershipKeywords = {**COOPERATIVE, "group_instance_id": "i"}
    lost: list[TopicPartition] = []
    one = await Membership.join(cluster, fresh, [topic], static, on_lost=lost.extend)
    two = await Membership.join(cluster, fresh, [topic], static)
    await eventually(lambda: one.error is not None)
    assert one.error is not None
    assert one.error.code is ErrorCode.FENCED_INSTANCE_ID
    await eventually(lambda: lost == [TopicPartition(topic, 0)])
    assert two.assignment == {TopicPartition(topic, 0)}
    await one.leave()
    await two.leave(for_good=True)


async def test_joining_may_be_given_up(cluster: Cluster, new_topic: NewTopicName, fresh: str) -> None:
    topic = await new_topic()
    revoking, stuck = asyncio.Event(), asyncio.Event()

    async def slow(partitions: frozenset[TopicPartition]) -> None:
        revoking.set()
        await stuck.wait()

    member = await Membership.join(cluster, fresh, [topic], {"heartbeat_interval_ms": 200}, on_revoked=slow)
    joining = asyncio.ensure_future(Membership.join(cluster, fresh, [topic]))
    await revoking.wait()
    joining.cancel()  # while its JoinGroup is parked, since the other member takes its time
    with pytest.raises(asyncio.CancelledError):
        await joining
    stuck.set()
    await member.settled()
    await eventually(lambda: member.assignment == {TopicPartition(topic, 0)})
    await member.leave()


async def test_a_member_needs_a_group_and_a_sane_heartbeat(cluster: Cluster) -> None:
    with pytest.raises(ConfigError, match="group_id is missing"):
        await Membership.join(cluster, "", ["t"])
    with pytest.raises(ConfigError, match="below session_timeout_ms"):
        await Membership.join(cluster, "g", ["t"], {"heartbeat_interval_ms": 50_000})
    with pytest.raises(ConfigError, match="at least one topic"):
        await Membership.join(cluster, "g", [])


async def test_leaving_in_the_middle_of_a_rebalance_commits_and_gets_through(
    cluster: Cluster, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(2)

    async def commit(partitions: frozenset[TopicPartition]) -> None:
        await two.commit(dict.fromkeys(partitions, 5))

    one = await Membership.join(cluster, fresh, [topic], COOPERATIVE)
    two = await Membership.join(cluster, fresh, [topic], COOPERATIVE, on_revoked=commit)
    await eventually(lambda: len(two.assignment) == 1 and one.state is two.state is Phase.STABLE)
    mine = two.assignment
    # A member id that was handed out and is not used yet holds every rebalance up.
    raw = await cluster.coordinator(fresh, "raw")
    protocol = JoinGroupRequestProtocol(name="cooperative-sticky", metadata=encode_subscription(Subscription([topic])))
    request = JoinGroupRequest(
        group_id=fresh,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    pending = await raw.request(request, JoinGroupResponse)
    three = asyncio.ensure_future(Membership.join(cluster, fresh, [topic], COOPERATIVE))
    await eventually(lambda: one.state is two.state is Phase.JOINING)
    async with asyncio.timeout(5):
        await two.leave()
    committed = await one.committed(mine)
    assert [at.offset for at in committed.values() if at] == [5]
    gone = LeaveGroupRequest(group_id=fresh, members=[MemberIdentity(member_id=pending.member_id)])
    await raw.request(gone, LeaveGroupResponse)
    await (await three).leave()
    await one.leave()
