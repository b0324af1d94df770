"""Assignors of classic groups as an application chooses them: its own, and another one while the group runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Unpack

import pytest

from kohort import Admin, Cluster, ErrorCode, KafkaError, Membership, TopicPartition
from kohort.client import MembershipKeywords, Phase
from tests.client.conftest import NewTopicName, eventually
from tests.interop.broker import Broker
from tests.interop.kafka import ApacheKafka

OWN = "tests.client.own_assignor.FirstTakesAll"


@pytest.fixture
async def cluster(any_broker: Broker) -> AsyncIterator[Cluster]:
    async with Cluster.of(any_broker.bootstrap) as made:
        yield made


def options(assignors: str, **more: Unpack[MembershipKeywords]) -> MembershipKeywords:
    return {"partition_assignment_strategy": assignors, "heartbeat_interval_ms": 200, **more}


async def test_a_users_own_assignor_by_its_dotted_name(
    cluster: Cluster, admin: Admin, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(3)
    second = await Membership.join(cluster, fresh, [topic], options(OWN, group_instance_id="b"))
    await eventually(lambda: len(second.assignment) == 3)
    first = await Membership.join(cluster, fresh, [topic], options(OWN, group_instance_id="a"))
    await eventually(lambda: len(first.assignment) == 3)
    await eventually(lambda: second.state is Phase.STABLE and not second.assignment)
    await first.settled()
    assert (await admin.describe_groups([fresh]))[fresh].assignor == "first-takes-all"
    await second.leave(for_good=True)
    await first.leave(for_good=True)


async def test_an_assignor_that_fails_ends_its_member_with_a_sentence(
    cluster: Cluster, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(3)
    with pytest.raises(KafkaError, match="'failing' failed: ZeroDivisionError: division by zero") as raised:
        await Membership.join(cluster, fresh, [topic], options("tests.client.own_assignor:Failing"))
    assert raised.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_a_group_changes_from_eager_to_cooperative_without_stopping(
    cluster: Cluster, admin: Admin, new_topic: NewTopicName, fresh: str
) -> None:
    # KIP-429: in a first round of restarts everybody offers both, in a second only the cooperative one.
    topic = await new_topic(6)
    owners: dict[TopicPartition, int] = {}
    disturbed: list[int] = []

    def won(who: int, partitions: frozenset[TopicPartition]) -> None:
        for partition in partitions:
            assert partition not in owners, f"{partition} is {owners[partition]}'s, and now {who}'s"
            owners[partition] = who

    def gave_up(who: int, partitions: frozenset[TopicPartition]) -> None:
        disturbed.append(len(partitions))
        for partition in partitions:
            assert owners.pop(partition) == who

    async def join(who: int, assignors: str) -> Membership:
        told = {"on_assigned": partial(won, who), "on_revoked": partial(gave_up, who)}
        return await Membership.join(cluster, fresh, [topic], options(assignors), **told)

    def shared() -> bool:
        stable = all(member.state is Phase.STABLE for member in members.values())
        return stable and len(owners) == 6 and all(len(member.assignment) == 2 for member in members.values())

    members: dict[int, Membership] = {}
    for who in range(3):
        members[who] = await join(who, "range")
    await eventually(shared)
    for assignors in ("cooperative-sticky,range", "cooperative-sticky"):
        for who in range(3):
            await members.pop(who).leave()
            members[who] = await join(who, assignors)
            await eventually(shared)
    assert (await admin.describe_groups([fresh]))[fresh].assignor == "cooperative-sticky"
    # From now on, a new member takes only its assignment.
    disturbed.clear()
    members[3] = await join(3, "cooperative-sticky")
    await eventually(lambda: len(owners) == 6 and members[3].state is Phase.STABLE and bool(members[3].assignment))
    assert sum(disturbed) == 1
    for member in members.values():
        await member.leave()
    assert all(member.failure is None for member in members.values())


async def test_a_users_own_assignor_computes_under_the_consumer_protocol_too(
    any_broker: Broker, cluster: Cluster, admin: Admin, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(3)
    computing: MembershipKeywords = {"group_protocol": "consumer", "group_local_assignors": OWN}
    if isinstance(any_broker, ApacheKafka):
        with pytest.raises(KafkaError, match="leave group_local_assignors out") as raised:
            await Membership.join(cluster, fresh, [topic], computing)
        assert raised.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR
        return
    second = await Membership.join(cluster, fresh, [topic], {**computing, "group_instance_id": "b"})
    await eventually(lambda: len(second.assignment) == 3)
    first = await Membership.join(cluster, fresh, [topic], {**computing, "group_instance_id": "a"})
    await eventually(lambda: len(first.assignment) == 3 and not second.assignment)
    assert (await admin.describe_groups([fresh]))[fresh].assignor == "first-takes-all"
    plain = await Membership.join(cluster, fresh, [topic], {"group_protocol": "consumer"})
    await eventually(lambda: len(first.assignment) == len(second.assignment) == len(plain.assignment) == 1)
    assert (await admin.describe_groups([fresh]))[fresh].assignor == "uniform"
    for member in (plain, second, first):
        await member.leave(for_good=True)
