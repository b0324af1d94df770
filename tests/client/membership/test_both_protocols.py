"""A group looks the same to an application under both protocols and with both brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kohort import Admin, Cluster, CommitFailedError, Consumer, Membership, NewTopic, Producer, TopicPartition
from kohort.client import MembershipKeywords, Phase
from tests.client.conftest import NewTopicName, eventually
from tests.interop.broker import Broker

Partitions = frozenset[TopicPartition]


@pytest.fixture
async def cluster(any_broker: Broker) -> AsyncIterator[Cluster]:
    async with Cluster.of(any_broker.bootstrap) as made:
        yield made


def shared(total: int, *members: Membership) -> bool:
    """Return whether all members are stable and share that many partitions."""
    sizes = [len(member.assignment) for member in members]
    stable = all(member.state is Phase.STABLE for member in members)
    return stable and sum(sizes) == total and max(sizes) - min(sizes) <= 1


async def test_moving_partitions_are_revoked_committed_and_then_assigned(
    cluster: Cluster, protocol: MembershipKeywords, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(4)
    told: list[str] = []
    may_end = asyncio.Event()

    async def revoked(partitions: Partitions) -> None:
        told.append(f"one gives up {len(partitions)}")
        await may_end.wait()
        await one.commit(dict.fromkeys(partitions, 5))
        told.append("one gave up")

    def won(partitions: Partitions) -> None:
        if partitions:
            told.append(f"two has {len(partitions)}")

    one = await Membership.join(cluster, fresh, [topic], protocol, on_revoked=revoked)
    await eventually(lambda: len(one.assignment) == 4)
    two = await Membership.join(cluster, fresh, [topic], protocol, on_assigned=won)
    await eventually(lambda: "one gives up 2" in told)
    assert (len(one.assignment), len(two.assignment)) == (4, 0)  # until the callback returns it is still its own
    may_end.set()
    await eventually(lambda: shared(4, one, two) and "two has 2" in told)
    assert told == ["one gives up 2", "one gave up", "two has 2"]
    assert {at.offset for at in (await two.committed(two.assignment)).values() if at} == {5}
    assert one.assignment.isdisjoint(two.assignment)
    await two.leave()
    await eventually(lambda: len(one.assignment) == 4)
    await one.leave()
    assert told[3:] == ["one gives up 4", "one gave up"]


async def test_a_member_that_dies_is_replaced_when_its_session_is_over(
    any_broker: Broker, cluster: Cluster, protocol: MembershipKeywords, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(4)
    its_own = Cluster.of(any_broker.bootstrap)
    dying = await Membership.join(its_own, fresh, [topic], protocol)
    living = await Membership.join(cluster, fresh, [topic], protocol)
    await eventually(lambda: shared(4, dying, living))
    await its_own.close()
    await eventually(lambda: len(living.assignment) == 4)
    await dying.leave(timeout=0.1)
    await living.leave()


async def test_a_returning_static_member_gets_its_partitions_without_a_rebalance(
    cluster: Cluster, protocol: MembershipKeywords, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(4)
    told: list[str] = []
    one = await Membership.join(
        cluster,
        fresh,
        [topic],
        {**protocol, "group_instance_id": "one"},
        on_revoked=lambda p: told.append(f"revoked {len(p)}"),
    )
    two = await Membership.join(cluster, fresh, [topic], {**protocol, "group_instance_id": "two"})
    await eventually(lambda: shared(4, one, two))
    its, generation = two.assignment, one.generation
    told.clear()
    await two.leave()
    two = await Membership.join(cluster, fresh, [topic], {**protocol, "group_instance_id": "two"})
    assert two.assignment == its
    assert (one.generation, told) == (generation, [])
    await two.leave(for_good=True)
    await eventually(lambda: len(one.assignment) == 4)
    await one.leave(for_good=True)


async def test_added_partitions_are_shared_out(
    cluster: Cluster, admin: Admin, protocol: MembershipKeywords, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(2)
    soon: MembershipKeywords = {**protocol, "metadata_max_age_ms": 300}
    one = await Membership.join(cluster, fresh, [topic], soon)
    two = await Membership.join(cluster, fresh, [topic], soon)
    await eventually(lambda: shared(2, one, two))
    await admin.create_partitions(topic, 6)
    cluster.want_metadata()
    await eventually(lambda: shared(6, one, two))
    await two.leave()
    await one.leave()


async def test_a_member_that_was_thrown_out_loses_everything_and_comes_back(
    cluster: Cluster, admin: Admin, protocol: MembershipKeywords, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(2)
    told: list[str] = []
    member = await Membership.join(
        cluster,
        fresh,
        [topic],
        protocol,
        on_assigned=lambda p: told.append(f"won {len(p)}"),
        on_lost=lambda p: told.append(f"lost {len(p)}"),
        on_revoked=lambda p: told.append(f"revoked {len(p)}"),
    )
    await eventually(lambda: "won 2" in told)
    await admin.remove_members(fresh, [member.member_id])
    await eventually(lambda: told.count("won 2") == 2)
    await member.settled()
    await member.commit({TopicPartition(topic, 0): 1})
    await member.leave()
    assert [line for line in told if line != "won 0"] == ["won 2", "lost 2", "won 2", "revoked 2"]


async def test_a_member_that_exceeds_the_rebalance_timeout_is_removed_and_returns(
    cluster: Cluster,
    protocol: MembershipKeywords,
    new_topic: NewTopicName,
    fresh: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = await new_topic(4)
    told: list[str] = []
    may_end = asyncio.Event()

    async def slow(partitions: Partitions) -> None:
        told.append(f"gives up {len(partitions)}")
        await may_end.wait()
        try:
            await one.commit(dict.fromkeys(partitions, 5))
        except CommitFailedError:
            told.append("too late")

    one = await Membership.join(
        cluster,
        fresh,
        [topic],
        {**protocol, "max_poll_interval_ms": 1_500},
        on_revoked=slow,
        on_lost=lambda p: told.append(f"lost {len(p)}"),
    )
    await eventually(lambda: len(one.assignment) == 4)
    two = await Membership.join(cluster, fresh, [topic], {**protocol, "max_poll_interval_ms": 1_500})
    await eventually(lambda: len(two.assignment) == 4)
    may_end.set()
    await eventually(lambda: shared(4, one, two))
    assert told == ["gives up 2", "too late", "lost 2"]
    # Whether the member or the coordinator notices first is a matter of milliseconds.
    late, removed = "the revoke callback has taken longer than max_poll_interval_ms", "(while the revoke callback runs)"
    assert late in caplog.text or removed in caplog.text
    assert "lost 2 partitions, which others may process by now" in caplog.text
    await two.leave()
    await one.leave()


async def test_an_application_that_does_not_poll_in_time_is_out_until_it_polls(
    any_broker: Broker,
    cluster: Cluster,
    protocol: MembershipKeywords,
    new_topic: NewTopicName,
    fresh: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = await new_topic(4)
    gone: list[TopicPartition] = []
    options: dict[str, Any] = {**protocol, "group_id": fresh, "max_poll_interval_ms": 1_000}
    async with Consumer(bootstrap_servers=any_broker.bootstrap, **options) as sleeping:
        sleeping.subscribe(
            [topic],
            on_revoked=gone.extend,
        )
        while not sleeping.assignment:
            await sleeping.poll(timeout=0.1)
        other = await Membership.join(cluster, fresh, [topic], protocol)
        await eventually(lambda: len(other.assignment) == 4)
        assert not gone  # callbacks come to who polls
        assert caplog.text.count("the application has not polled for max_poll_interval_ms (1000 ms)") == 1
        async with asyncio.timeout(20):
            while len(sleeping.assignment) != 2:
                await sleeping.poll(timeout=0.1)
        assert len(gone) == 4
        await other.leave()


async def test_a_failing_callback_is_raised_by_poll_and_the_group_continues(
    any_broker: Broker, cluster: Cluster, protocol: MembershipKeywords, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(4)

    def broken(partitions: Partitions) -> None:
        raise ZeroDivisionError

    async with Consumer(bootstrap_servers=any_broker.bootstrap, group_id=fresh, **protocol) as consumer:
        consumer.subscribe([topic], on_revoked=broken)
        while len(consumer.assignment) != 4:
            await consumer.poll(timeout=0.1)
        other = await Membership.join(cluster, fresh, [topic], protocol)
        with pytest.raises(ZeroDivisionError):
            async with asyncio.timeout(20):
                while True:
                    await consumer.poll(timeout=0.1)
        async with asyncio.timeout(20):
            while len(other.assignment) != 2:
                await consumer.poll(timeout=0.1)
        assert len(consumer.assignment) == 2
        await other.leave()
        consumer.subscribe([topic])  # without the callback, or closing would raise it


async def test_commits_count_while_others_come_and_go(
    cluster: Cluster, protocol: MembershipKeywords, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(6)
    one = await Membership.join(cluster, fresh, [topic], protocol)
    offset, stop = 0, asyncio.Event()

    async def commit_on_and_on() -> int:
        nonlocal offset
        while not stop.is_set():
            offset += 1
            mine = one.assignment
            try:
                await one.commit(dict.fromkeys(mine, offset))
            except CommitFailedError as refused:
                assert refused.errors.keys().isdisjoint(one.assignment), refused  # only what was given up meanwhile
            await asyncio.sleep(0.005)
        return offset

    committing = asyncio.ensure_future(commit_on_and_on())
    for _ in range(3):
        others = [await Membership.join(cluster, fresh, [topic], protocol) for _ in range(2)]
        await eventually(lambda others=others: shared(6, one, *others))  # type: ignore[misc]
        for other in others:
            await other.leave()
        await eventually(lambda: len(one.assignment) == 6)
    stop.set()
    last = await committing + 1
    assert last > 20
    await one.commit(dict.fromkeys(one.assignment, last))
    committed = await one.committed(one.assignment)
    assert {at and at.offset for at in committed.values()} == {last}
    await one.leave()


async def test_a_changed_subscription_brings_and_takes_topics(
    cluster: Cluster, protocol: MembershipKeywords, new_topic: NewTopicName, fresh: str
) -> None:
    first, second = await new_topic(2), await new_topic(1)
    member = await Membership.join(cluster, fresh, [first], protocol)
    member.subscribe([first, second])
    await eventually(lambda: {partition.topic for partition in member.assignment} == {first, second})
    member.subscribe([second])
    await eventually(lambda: {partition.topic for partition in member.assignment} == {second})
    await member.settled()
    member.subscribe([second])  # which changes nothing, so that no callback is called
    async with asyncio.timeout(10):
        await member.settled()
    member.subscribe([first])
    await member.settled()
    await eventually(lambda: {partition.topic for partition in member.assignment} == {first})
    await member.leave()


async def test_a_recreated_topic_is_read_from_its_beginning(
    any_broker: Broker, admin: Admin, protocol: MembershipKeywords, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(1)
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        for n in range(5):
            await (await producer.send(topic, b"old %d" % n))
    options: dict[str, Any] = {
        **protocol,
        "group_id": fresh,
        "auto_offset_reset": "earliest",
        "allow_auto_create_topics": False,
        "metadata_max_age_ms": 300,
    }
    async with Consumer(topic, bootstrap_servers=any_broker.bootstrap, **options) as consumer:
        seen: list[bytes | None] = []
        while len(seen) < 5:
            seen += [record.value for record in await consumer.poll(timeout=0.1)]
        await admin.delete_topics([topic])
        async with asyncio.timeout(20):
            while consumer.assignment:
                await consumer.poll(timeout=0.1)
        await admin.create_topics([NewTopic(topic, 1)])
        async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
            await (await producer.send(topic, b"new"))
        async with asyncio.timeout(20):
            while b"new" not in seen:
                seen += [record.value for record in await consumer.poll(timeout=0.1)]
        assert seen[5:] == [b"new"]


async def test_a_member_that_left_does_not_create_its_deleted_topic_again(
    cluster: Cluster, admin: Admin, protocol: MembershipKeywords, new_topic: NewTopicName, fresh: str
) -> None:
    # Its cluster keeps requesting metadata, and a broker creates the topics that a client requests.
    topic = await new_topic()
    member = await Membership.join(cluster, fresh, [topic], protocol)
    await member.leave()
    await admin.delete_topics([topic])
    await cluster.refresh()
    assert topic not in await admin.list_topics()


async def test_a_thousand_partitions_are_shared_and_committed(
    cluster: Cluster, admin: Admin, protocol: MembershipKeywords, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(1_000)
    one = await Membership.join(cluster, fresh, [topic], protocol)
    await eventually(lambda: len(one.assignment) == 1_000)
    two = await Membership.join(cluster, fresh, [topic], protocol)
    await eventually(lambda: shared(1_000, one, two))
    await two.commit(dict.fromkeys(two.assignment, 7))
    committed = await two.committed(two.assignment)
    assert {at and at.offset for at in committed.values()} == {7}
    await two.leave()
    await eventually(lambda: len(one.assignment) == 1_000)
    await one.leave()
    await admin.delete_topics([topic])
