"""A topic that is deleted and made again under its name is another: nothing of the old one may land on it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from kohort import (
    Admin,
    CommitFailedError,
    Consumer,
    ErrorCode,
    Membership,
    NewTopic,
    OffsetAndMetadata,
    TopicPartition,
    testing,
)
from kohort.client.keywords import MembershipKeywords
from kohort.client.membership.committed import commit_outside, committed_offsets
from kohort.client.net.cluster import Cluster
from kohort.client.net.versions import version_for
from kohort.model import NO_TOPIC_ID, UUID
from kohort.wire.messages.delete_topics import DeleteTopicsResponse
from kohort.wire.messages.metadata import MetadataResponse, MetadataResponsePartition
from kohort.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.client.conftest import broker_with
from tests.client.consume.test_consumer import fill
from tests.client.link import linked_broker
from tests.interop.broker import Broker

OFFSET_COMMIT, OFFSET_FETCH = 8, 9
BY_HAND: dict[str, Any] = {"allow_auto_create_topics": False}
"""Else whoever asks for the topic between its deletion and its creation makes it."""


def member(broker: Broker, fresh: str, protocol: dict[str, Any]) -> Consumer:
    options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **BY_HAND, **protocol}
    return Consumer(fresh, bootstrap_servers=broker.bootstrap, group_id=fresh, **options)


async def read(consumer: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    async with asyncio.timeout(30):
        while len(values) < count:
            values += [record.value for record in await consumer.poll(timeout=0.1)]
    return values


async def renew(admin: Admin, topic: str) -> None:
    """Delete it and make it again, as soon as the broker lets us."""
    await admin.delete_topics([topic])
    async with asyncio.timeout(20):
        while topic in await admin.describe_topics():  # noqa: ASYNC110  a broker tells nobody
            await asyncio.sleep(0.05)
    await admin.create_topics([NewTopic(topic, 1)])


async def test_a_commit_of_a_deleted_topic_does_not_land_on_the_next_of_its_name(
    any_broker: Broker, admin: Admin, fresh: str, protocol: dict[str, Any]
) -> None:
    here = TopicPartition(fresh, 0)
    await admin.create_topics([NewTopic(fresh, 1)])
    await fill(any_broker.bootstrap, fresh, 5)
    async with member(any_broker, fresh, protocol) as consumer:
        await read(consumer, 5)
        consumer.pause([here])  # else the fetcher may find the new topic first, and what is committed is for that one
        await renew(admin, fresh)
        with pytest.raises(CommitFailedError) as raised:
            await consumer.commit({here: 5}, timeout=10)
        if "group_protocol" not in protocol:  # else the coordinator has taken the partition away, too
            assert raised.value.errors == {here: ErrorCode.UNKNOWN_TOPIC_ID}
        assert await admin.group_offsets(fresh) == {}
        consumer.resume(consumer.paused)
        await fill(any_broker.bootstrap, fresh, 3)
        assert await read(consumer, 3) == [b"0", b"1", b"2"]
        await consumer.commit()
        committed = (await consumer.committed([here]))[here]
        assert committed is not None
        assert committed.offset == 3


async def test_nothing_is_committed_for_a_topic_that_is_gone(any_broker: Broker, admin: Admin, fresh: str) -> None:
    here, there = TopicPartition(fresh, 0), TopicPartition(f"{fresh}-2", 0)
    await admin.create_topics([NewTopic(here.topic, 1), NewTopic(there.topic, 1)])
    await admin.alter_group_offsets(fresh, {here: 5, there: 7})
    ids = frozenset(
        description.topic_id for description in (await admin.describe_topics([here.topic, there.topic])).values()
    )
    async with Cluster.of(any_broker.bootstrap) as cluster:
        # As a member of a consumer group: it knows ids, and names no topic that would be looked up again.
        cluster.watch(here, frozenset(), lambda *_: None, ids)
        await cluster.refresh()
        assert (await committed_offsets(cluster, fresh, [here]))[here] == OffsetAndMetadata(5)
        await admin.delete_topics([here.topic])
        async with asyncio.timeout(20):
            while (found := await committed_offsets(cluster, fresh, [here, there]))[here] is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)  # until the coordinator knows it; there is no event for that
        assert found == {here: None, there: OffsetAndMetadata(7)}


async def test_a_coordinator_that_knows_only_the_topic_before_is_not_asked_by_name() -> None:
    # It answered a name with the offset of the topic that had it before, and the new topic was read from there.
    here, others = TopicPartition("t", 0), TopicPartition("u", 0)
    asked: list[bool] = []

    def lag(answer: OffsetFetchResponse, client: str | None) -> None:
        topic = next(topic for topic in answer.groups[0].topics if topic.topic_id == renewed.topic_id)
        topic.partitions[0].error_code = ErrorCode.UNKNOWN_TOPIC_ID
        del link.change[OFFSET_FETCH]

    def by_id(request: OffsetFetchRequest) -> None:
        asked.append(all(topic.topic_id != NO_TOPIC_ID for group in request.groups for topic in group.topics or ()))

    async with linked_broker() as (broker, link), Cluster.of(f"127.0.0.1:{link.port}") as cluster:
        broker.topics.create("u", 1)
        renewed = broker.topics.create("t", 1)
        await cluster.refresh(["t", "u"])
        await commit_outside(cluster, "g", {here: 5, others: 7})
        link.watch[OFFSET_FETCH], link.change[OFFSET_FETCH] = by_id, lag
        found = await committed_offsets(cluster, "g", [here, others])
    assert found == {here: OffsetAndMetadata(5), others: OffsetAndMetadata(7)}
    assert asked == [True, True]


async def test_a_topic_without_an_id_does_not_make_the_others_go_by_name() -> None:
    # By name, a coordinator may still answer with the offset of a deleted topic, and writes what is for such a topic
    # under the name of the next.
    here, nowhere = TopicPartition("t", 0), TopicPartition("nowhere", 0)
    fetched: list[list[tuple[str, UUID]]] = []
    committed: list[list[tuple[str, UUID]]] = []

    def fetches(request: OffsetFetchRequest) -> None:
        fetched.extend([(topic.name, topic.topic_id) for topic in group.topics or ()] for group in request.groups)

    async with linked_broker() as (broker, link), Cluster.of(f"127.0.0.1:{link.port}") as cluster:
        topic = broker.topics.create("t", 1)
        await cluster.refresh(["t"])
        link.watch[OFFSET_FETCH] = fetches
        link.watch[OFFSET_COMMIT] = lambda request: committed.append(
            [(topic.name, topic.topic_id) for topic in request.topics]
        )
        with pytest.raises(CommitFailedError) as raised:
            await commit_outside(cluster, "g", {here: 5, nowhere: 7}, 5_000)
        assert raised.value.errors == {nowhere: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        found = await committed_offsets(cluster, "g", [nowhere, here])
    assert found == {here: OffsetAndMetadata(5), nowhere: None}
    by_id, by_name = [("", topic.topic_id)], [("nowhere", NO_TOPIC_ID)]
    assert fetched == [by_id, by_name]
    assert sorted({str(partition) for partition in committed}) == sorted([str(by_id), str(by_name)])


def hold_heartbeats(broker: testing.Broker) -> testing.FaultHandle:
    """Let the coordinator's next answers take long."""
    return broker.fault(keys="ConsumerGroupHeartbeat", hold=True, when="after", count=-1)


async def test_a_member_does_not_read_the_next_topic_of_a_name_before_it_is_assigned() -> None:
    # It cannot commit these records, and the member that is assigned the new topic reads them again.
    here = TopicPartition("t", 0)
    async with broker_with(2) as broker:
        options: dict[str, Any] = {"group_protocol": "consumer", "auto_offset_reset": "earliest", **BY_HAND}
        options |= {"bootstrap_servers": broker.bootstrap_servers, "group_id": "g", "retry_backoff_ms": 10}
        async with Consumer("t", **options) as consumer:
            assert await read(consumer, 2) == [b"0", b"1"]
            slow = hold_heartbeats(broker)
            after = broker.recreate_topic("t")
            broker.topic("t").produce("0", "1", "2")
            while consumer.cluster.metadata.topic_id("t") != after:
                await consumer.cluster.refresh()
            assert await consumer.poll(timeout=0.5) == []
            assert consumer.assignment == frozenset({here})
            assert await consumer.position(here) == 2
            assert await consumer.committed([here]) == {here: None}
            slow.remove()
            assert await read(consumer, 3) == [b"0", b"1", b"2"]
            assert await consumer.poll(timeout=0.1) == []
            await consumer.commit()
            assert (await consumer.committed([here]))[here] == OffsetAndMetadata(3, leader_epoch=0)


async def test_a_membership_tells_which_topic_of_a_name_it_was_assigned(protocol: dict[str, Any]) -> None:
    here = TopicPartition("t", 0)
    async with broker_with(0) as broker, Cluster.of(broker.bootstrap_servers) as cluster:
        before = broker.topic("t").topic_id
        membership = await Membership.join(cluster, "g", "t", cast("MembershipKeywords", protocol))
        is_granted = "group_protocol" in protocol
        assert membership.topic_id("t") == (before if is_granted else None)
        assert membership.topic_id("u") is None
        await membership.commit({here: 5})
        slow = hold_heartbeats(broker)
        after = broker.recreate_topic("t")
        while cluster.metadata.topic_id("t") != after:
            await cluster.refresh(["t"])
        if is_granted:
            assert membership.topic_id("t") == before
            with pytest.raises(CommitFailedError):  # and not committed for the new topic
                await membership.commit({here: 5}, timeout=5)
        assert await membership.committed([here]) == {here: None}
        slow.remove()
        await membership.leave()


async def test_offsets_are_asked_for_by_the_id_of_the_topic_that_has_the_name_now() -> None:
    # The client looks this name up only now, so its metadata still has the ID of the topic before.
    here = TopicPartition("t", 0)
    async with broker_with(0) as broker, Cluster.of(broker.bootstrap_servers) as cluster:
        await cluster.refresh(["t"])
        broker.recreate_topic("t")
        async with Cluster.of(broker.bootstrap_servers) as other:
            await other.refresh(["t"])
            await commit_outside(other, "g", {here: 5})
        assert await committed_offsets(cluster, "g", [here]) == {here: OffsetAndMetadata(5)}


async def test_a_recreated_topic_is_read_by_the_reset_policy(any_broker: Broker, admin: Admin, fresh: str) -> None:
    # Its log may already be longer than the position in the old one, which then would pass for good.
    await admin.create_topics([NewTopic(fresh, 1)])
    await fill(any_broker.bootstrap, fresh, 3)
    async with Consumer(bootstrap_servers=any_broker.bootstrap, auto_offset_reset="earliest", **BY_HAND) as consumer:
        consumer.assign([TopicPartition(fresh, 0)])
        await read(consumer, 3)
        consumer.pause([TopicPartition(fresh, 0)])
        await consumer.poll(timeout=0.6)
        await renew(admin, fresh)
        await fill(any_broker.bootstrap, fresh, 6)
        await consumer.cluster.refresh()
        consumer.resume([TopicPartition(fresh, 0)])
        assert await read(consumer, 6) == [b"%d" % n for n in range(6)]


async def test_offsets_of_topics_with_and_without_known_ids_are_asked_for(
    any_broker: Broker, admin: Admin, fresh: str
) -> None:
    here, nowhere = TopicPartition(fresh, 0), TopicPartition(f"{fresh}-nowhere", 0)
    await admin.create_topics([NewTopic(fresh, 1)])
    async with Consumer(bootstrap_servers=any_broker.bootstrap, group_id=fresh, **BY_HAND) as consumer:
        consumer.assign([here])
        await consumer.commit({here: OffsetAndMetadata(0, "note")})
        assert await consumer.committed([here, nowhere]) == {here: OffsetAndMetadata(0, "note"), nowhere: None}
        await consumer.cluster.refresh([fresh])
        assert await consumer.committed([here]) == {here: OffsetAndMetadata(0, "note")}
        await renew(admin, fresh)
        assert await consumer.committed([here]) == {here: None}


async def test_a_deletion_does_not_wait_for_a_new_topic_of_the_same_name() -> None:
    # A consumer that still uses the topic makes the broker create it again before the admin client looks.
    async with linked_broker() as (broker, link):
        deleted = broker.topics.create("t", 1)

        def create_again(answer: DeleteTopicsResponse, client: str | None) -> None:
            broker.topics.create("t", 1)

        link.change[DeleteTopicsResponse.KEY] = create_again
        async with Admin(bootstrap_servers=f"127.0.0.1:{link.port}", default_api_timeout_ms=1_000) as admin:
            await admin.delete_topics(["t"])
            assert (await admin.describe_topics(["t"]))["t"].topic_id != deleted.topic_id


@pytest.mark.parametrize("without_ids", ["in the deletion", "in the metadata", "nowhere"])
async def test_a_deletion_waits_while_a_broker_still_has_the_topic(without_ids: str) -> None:
    async with linked_broker() as (broker, link):
        deleted = broker.topics.create("t", 1)
        stale = [True, True]

        def drop_id(answer: DeleteTopicsResponse, client: str | None) -> None:
            if without_ids == "in the deletion":
                answer.responses[0].topic_id = NO_TOPIC_ID

        def lag(answer: MetadataResponse, client: str | None) -> None:
            if answer.topics and stale:
                stale.pop()
                answer.topics[0].error_code = ErrorCode.NONE
                answer.topics[0].partitions = [MetadataResponsePartition()]
                answer.topics[0].topic_id = NO_TOPIC_ID if without_ids == "in the metadata" else deleted.topic_id

        link.change[DeleteTopicsResponse.KEY], link.change[MetadataResponse.KEY] = drop_id, lag
        async with Admin(bootstrap_servers=f"127.0.0.1:{link.port}") as admin:
            await admin.delete_topics(["t"])
        assert stale == []


def test_requests_go_by_name_where_an_id_is_missing() -> None:
    known, unknown = (OffsetCommitRequestTopic(name="t", topic_id=UUID(int=n)) for n in (1, 0))
    assert version_for(OffsetCommitRequest(topics=[known]), 10) == 10
    assert version_for(OffsetCommitRequest(topics=[known]), 8) == 8
    assert version_for(OffsetCommitRequest(topics=[known, unknown]), 10) == 9
    wanted = OffsetFetchRequestTopics(name="t", topic_id=UUID(int=1))
    assert version_for(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(topics=[wanted])]), 10) == 10
    assert version_for(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(topics=None)]), 10) == 9
