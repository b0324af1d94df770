"""What faults do to requests and answers, seen by peers that speak to a tapped broker."""

import asyncio
import struct
from pathlib import Path
from typing import cast

import pytest

from kohort.broker.apis import SERVED
from kohort.broker.clock import now_ms
from kohort.errors import ErrorCode, KohortError
from kohort.log import FileSlice
from kohort.security import Acl, Operation, PatternType, Permission, ResourcePattern, ResourceType
from kohort.testing import (
    AnswerLost,
    AnswerSent,
    ConnectionClosed,
    KitActed,
    RecordsAppended,
    RequestReceived,
    TappedBroker,
)
from kohort.testing.rules import rule_of
from kohort.wire.api import APIS
from kohort.wire.batches import Record, decode_records, encode_batch
from kohort.wire.messages.api_key import ApiKey
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupResponse
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.broker.peer import Peer, talking_to, until
from tests.testing.samples import sample_request
from tests.testing.tapped import add, tapped
from tests.testing.test_parts import CODE, SERVED_VERSIONS, codes
from tests.testing.test_taps import join


async def alive(peer: Peer) -> bool:
    """Whether the next request of the connection is answered."""
    return (await peer.ask(ListGroupsRequest(), 4, ListGroupsResponse)).error_code == 0


def commit(*offsets: int, group: str = "g") -> OffsetCommitRequest:
    """A commit for partitions 0, 1 and so on, by hand: without a member."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        for index, offset in enumerate(offsets)
    ]
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name="orders", partitions=partitions)])


async def commits(peer: Peer, *offsets: int, group: str = "g") -> list[int]:
    """Commit, and return the error of each partition."""
    answer = await peer.ask(commit(*offsets, group=group), 8, OffsetCommitResponse)
    return [partition.error_code for topic in answer.topics for partition in topic.partitions]


async def committed(peer: Peer) -> list[int]:
    """The committed offsets of both partitions, -1 for none."""
    wanted = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=[0, 1])]
    )
    answer = await peer.ask(OffsetFetchRequest(groups=[wanted]), 8, OffsetFetchResponse)
    return [partition.committed_offset for partition in answer.groups[0].topics[0].partitions]


def batch(*partitions: int, acks: int = -1, value: bytes = b"value") -> ProduceRequest:
    """One record for each of these partitions."""
    record = Record(0, now_ms(), None, value, ())
    data = [PartitionProduceData(index=index, records=bytes(encode_batch([record]))) for index in partitions]
    return ProduceRequest(
        acks=acks, timeout_ms=1_000, topic_data=[TopicProduceData(name="orders", partition_data=data)]
    )


async def produces(peer: Peer, *partitions: int, value: bytes = b"value") -> list[tuple[int, int]]:
    """Produce, and return error and offset for each partition."""
    answer = await peer.ask(batch(*partitions, value=value), 9, ProduceResponse)
    return [(p.error_code, p.base_offset) for p in answer.responses[0].partition_responses]


def ends(broker: TappedBroker) -> list[int]:
    """The end offsets of both partitions."""
    topic = broker.topics.named("orders")
    assert topic is not None
    logs = [broker.topics.log(topic, index) for index in range(2)]
    return [log.end_offset for log in logs if log is not None]


# Errors


ALL_SERVED = {"telemetry.receiver.enable": "true"}
"""Lets a broker serve the requests that it serves only if it is told to."""


@pytest.mark.parametrize(("key", "version"), SERVED_VERSIONS)
async def test_every_request_of_every_version_can_be_answered_with_an_error(key: int, version: int) -> None:
    async with tapped(ALL_SERVED) as (broker, _):
        fault = add(broker, keys=key, error=CODE, when="before", count=-1)
        async with talking_to(broker) as peer:
            answer = await peer.ask(sample_request(APIS[key].request, version), version, APIS[key].response)
            assert CODE in codes(answer)
            assert fault.hits == 1
            if key != ApiKey.LIST_GROUPS:
                assert await alive(peer)


@pytest.mark.parametrize(("key", "version"), [(key, high) for key, _, high in SERVED])
async def test_every_request_can_be_answered_with_an_error_after_the_work(key: int, version: int) -> None:
    async with tapped(ALL_SERVED) as (broker, _):
        fault = add(broker, keys=key, error=CODE, when="after")
        async with talking_to(broker) as peer:
            request = sample_request(APIS[key].request, version)
            if key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
                return  # the listener has no SASL
            answer = await peer.ask(request, version, APIS[key].response)
            assert CODE in codes(answer)
            assert fault.hits == 1


async def test_only_the_selected_partitions_fail_and_only_as_often_as_asked() -> None:
    async with tapped() as (broker, seen), talking_to(broker) as peer:
        fault = add(broker, keys="OffsetCommit", topic="orders", partitions=1, error=29)
        assert await commits(peer, 5, 7) == [0, 29]
        assert await committed(peer) == [5, -1]
        assert (fault.hits, fault.left) == (1, 0)
        assert await commits(peer, 6, 8) == [0, 0]
        assert await committed(peer) == [6, 8]
        assert list(broker.faults) == [fault]  # a spent fault stays
        assert broker.faults.remove(fault.id) and not broker.faults.remove(fault.id)
        (acted,) = seen.of(KitActed)
        assert acted.what == (
            "fault 1 (TOPIC_AUTHORIZATION_FAILED, OffsetCommit, topic orders, partitions 1) on OffsetCommit of client"
            " 'peer'"
        )


async def test_a_partition_of_a_repeated_commit_fails_like_any_other() -> None:
    async with tapped() as (broker, _), talking_to(broker) as peer:
        for number in range(4):
            assert await commits(peer, number, number) == [0, 0]
        fault = add(broker, keys="OffsetCommit", partitions=1, error=29)
        assert await commits(peer, 5, 7) == [0, 29]
        assert fault.hits == 1
        assert await committed(peer) == [5, 3]
        assert await commits(peer, 8, 9) == [0, 0]
        assert await committed(peer) == [8, 9]


async def test_a_request_that_fails_is_not_done() -> None:
    async with tapped() as (broker, seen), talking_to(broker) as peer:
        add(broker, keys="OffsetCommit", error="NOT_COORDINATOR")
        assert await commits(peer, 5, 7) == [16, 16]
        assert await committed(peer) == [-1, -1]
        assert seen.of(RecordsAppended) == []
        add(broker, keys="Produce", partitions=[0], error="NOT_LEADER_OR_FOLLOWER")
        assert await produces(peer, 0, 1) == [(6, -1), (0, 0)]
        assert ends(broker) == [0, 1]


async def test_some_errors_are_answered_after_the_work_as_by_a_real_broker() -> None:
    async with tapped() as (broker, _), talking_to(broker) as peer:
        add(broker, keys="OffsetCommit", error="REQUEST_TIMED_OUT")
        assert await commits(peer, 5, 7) == [7, 7]
        assert await committed(peer) == [5, 7]
        add(broker, keys="Produce", error="NOT_ENOUGH_REPLICAS_AFTER_APPEND")
        assert await produces(peer, 0, 1) == [(20, -1), (20, -1)]
        assert ends(broker) == [1, 1]
        add(broker, keys="CreateTopics", error="REQUEST_TIMED_OUT", when="before")
        request = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)])
        answer = await peer.ask(request, 6, CreateTopicsResponse)
        assert [topic.error_code for topic in answer.topics] == [7]
        assert broker.topics.named("new") is None


async def test_any_error_can_be_answered_after_the_work() -> None:
    async with tapped() as (broker, _), talking_to(broker) as peer:
        add(broker, keys="OffsetCommit", partitions=0, error="UNKNOWN_MEMBER_ID", when="after")
        assert await commits(peer, 5, 7) == [25, 0]
        assert await committed(peer) == [5, 7]


async def test_the_first_rule_that_was_added_decides_and_each_part_fails_once() -> None:
    async with tapped() as (broker, _), talking_to(broker) as peer:
        first = add(broker, keys="OffsetCommit", partitions=0, error=29)
        second = add(broker, keys="OffsetCommit", error=16)
        watching = add(broker, keys=["OffsetCommit", "Heartbeat"], observe=True, count=-1)
        assert await commits(peer, 5, 7) == [29, 16]
        assert (first.hits, second.hits, watching.hits, watching.left) == (1, 1, 1, -1)
        assert await commits(peer, 5, 7) == [0, 0]
        await peer.ask(HeartbeatRequest(group_id="g"), 4, HeartbeatResponse)
        assert watching.hits == 3


async def test_rules_of_one_fault_are_counted_together() -> None:
    async with tapped() as (broker, _), talking_to(broker) as peer:
        # As kcl counts them: one Heartbeat and two OffsetCommits make four hits.
        fault = broker.faults.add(
            [
                rule_of(keys=["heartbeat", "8"], observe=True, count=-1),
                rule_of(keys="OffsetCommit", topic="orders", partitions=[1], error="29"),
            ]
        )
        await peer.ask(HeartbeatRequest(group_id="g"), 4, HeartbeatResponse)
        assert await commits(peer, 5, 7) == [0, 29]
        assert await commits(peer, 5, 7) == [0, 0]
        assert (fault.hits, fault.left) == (4, -1)


async def test_a_selector_of_something_that_a_request_does_not_name_never_matches() -> None:
    async with tapped() as (broker, _), talking_to(broker) as peer:
        fault = add(broker, topic="orders", group="g", count=-1)
        assert await alive(peer)
        answer = await peer.ask(HeartbeatRequest(group_id="g"), 4, HeartbeatResponse)
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert await commits(peer, 5, group="h") == [0]
        assert fault.hits == 0
        assert await commits(peer, 5) == [-1]


async def test_a_request_is_selected_by_what_sends_it_and_by_its_number() -> None:
    async with tapped() as (broker, seen), talking_to(broker) as peer, talking_to(broker) as other:
        assert await alive(other)
        number = seen.of(RequestReceived)[-1].connection
        for selectors in ({"connection": number}, {"nodes": 1, "client_id": "other"}, {"versions": 3}):
            add(broker, keys="Heartbeat", error="NOT_COORDINATOR", **selectors)

        async def code(who: Peer, version: int = 4, client_id: str = "peer") -> int:
            who.send(HeartbeatRequest(group_id="g"), version, client_id)
            return (await who.answer(HeartbeatResponse)).error_code

        assert [await code(peer), await code(other), await code(other)] == [25, 16, 25]
        assert [await code(peer, client_id="other"), await code(peer, 3), await code(peer, 3)] == [16, 16, 25]
        fault = add(broker, keys="Heartbeat", error="NOT_COORDINATOR", nth=3, count=2)
        assert [await code(peer) for _ in range(6)] == [25, 25, 16, 16, 25, 25]
        assert fault.hits == 2


async def test_an_answer_with_an_error_is_not_repeated_for_later_heartbeats() -> None:
    # The last answer's bytes are kept for heartbeats that are the same.
    async with tapped() as (broker, _), talking_to(broker) as peer:
        joined = await peer.ask(join("g"), 3, JoinGroupResponse)
        beat = HeartbeatRequest(group_id="g", member_id=joined.member_id, generation_id=joined.generation_id)

        async def code() -> int:
            return (await peer.ask(beat, 3, HeartbeatResponse)).error_code

        before = [await code(), await code()]
        add(broker, keys="Heartbeat", error="NOT_COORDINATOR", count=2)
        assert [await code(), await code()] == [16, 16]
        assert [await code(), await code()] == before


async def test_a_group_fails_as_a_whole_unless_the_rule_names_a_partition() -> None:
    async with tapped() as (broker, _), talking_to(broker) as peer:
        await commits(peer, 5, 7)
        wanted = [
            OffsetFetchRequestGroup(
                group_id=group, topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
            )
            for group in ("g", "h")
        ]
        add(broker, keys="OffsetFetch", group="g", error="STALE_MEMBER_EPOCH")
        answer = await peer.ask(OffsetFetchRequest(groups=wanted), 8, OffsetFetchResponse)
        assert [group.error_code for group in answer.groups] == [113, 0]
        add(broker, keys="OffsetFetch", group="g", partitions=0, error="UNSTABLE_OFFSET_COMMIT")
        wanted[0].topics = None  # all partitions: only the answer names them
        answer = await peer.ask(OffsetFetchRequest(groups=wanted), 8, OffsetFetchResponse)
        assert [group.error_code for group in answer.groups] == [0, 0]
        assert {p.partition_index: p.error_code for p in answer.groups[0].topics[0].partitions} == {0: 88, 1: 0}


async def test_a_topic_fails_in_metadata_of_all_topics() -> None:
    async with tapped() as (broker, _), talking_to(broker) as peer:
        broker.topics.create("payments", 1)
        add(broker, keys="Metadata", topic="orders", error="LEADER_NOT_AVAILABLE", count=2)
        for request in (None, [MetadataRequestTopic(name="payments"), MetadataRequestTopic(name="orders")]):
            answer = await peer.ask(MetadataRequest(topics=request), 9, MetadataResponse)
            assert len(answer.brokers) == 1
            found = {topic.name: (topic.error_code, len(topic.partitions)) for topic in answer.topics}
            assert (found["orders"], found["payments"]) == ((5, 0), (0, 1))


async def test_an_error_at_the_top_level_fails_the_whole_request() -> None:
    async with tapped() as (broker, _), talking_to(broker) as peer:
        fault = add(broker, top_level=True, error="FETCH_SESSION_ID_NOT_FOUND")
        assert await commits(peer, 5) == [0]  # it has no such error
        request = FetchRequest(topics=[FetchTopic(topic="orders", partitions=[FetchPartition()])], session_epoch=-1)
        answer = await peer.ask(request, 12, FetchResponse)
        assert (answer.error_code, answer.responses, fault.hits) == (70, [], 1)


async def test_errors_of_positional_results_are_at_the_place_of_their_request() -> None:
    settings = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    async with tapped({**settings, "super.users": "User:ANONYMOUS"}) as (broker, _), talking_to(broker) as peer:
        add(broker, keys="CreateAcls", resource="two", error="CLUSTER_AUTHORIZATION_FAILED")
        acls = [
            AclCreation(
                resource_type=2, resource_name=name, principal="User:a", host="*", operation=3, permission_type=3
            )
            for name in ("one", "two", "three")
        ]
        answer = await peer.ask(CreateAclsRequest(creations=acls), 2, CreateAclsResponse)
        assert [result.error_code for result in answer.results] == [0, 31, 0]


async def test_a_fault_on_api_versions_answers_as_an_old_broker_does() -> None:
    async with tapped() as (broker, _), talking_to(broker) as peer:
        add(broker, keys="ApiVersions", error="UNSUPPORTED_VERSION")
        peer.send(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
        peer._asked[-1] = (18, 0, peer._asked[-1][2])  # KIP-511: in version 0
        answer = await peer.answer(ApiVersionsResponse)
        assert answer.error_code == 35 and answer.api_keys
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        assert (await peer.ask(request, 3, ApiVersionsResponse)).error_code == 0


async def test_a_producer_without_acks_loses_its_connection() -> None:
    async with tapped() as (broker, _):
        add(broker, keys="Produce", partitions=0, error="NOT_LEADER_OR_FOLLOWER", count=2)
        for partitions in ((0,), (0, 1)):
            async with talking_to(broker) as peer:
                peer.send(batch(*partitions, acks=0), 9)
                assert await peer.closed()
        assert ends(broker) == [0, 1]


# Fetch sessions


async def test_a_partition_of_a_fetch_session_fails_and_its_records_come_with_the_next_answer() -> None:
    async with tapped() as (broker, _), talking_to(broker) as peer:
        await produces(peer, 0, 1)
        wanted = [FetchPartition(partition=index, partition_max_bytes=1_000) for index in range(2)]
        request = FetchRequest(
            max_wait_ms=60_000,
            min_bytes=1,
            session_epoch=0,
            topics=[FetchTopic(topic="orders", partitions=wanted)],
        )
        answer = await peer.ask(request, 12, FetchResponse)
        assert answer.session_id

        def found(answer: FetchResponse) -> dict[int, tuple[int, bool]]:
            return {
                data.partition_index: (data.error_code, bool(data.records))
                for topic in answer.responses
                for data in topic.partitions
            }

        assert found(answer) == {0: (0, True), 1: (0, True)}
        # The client has read both, and continues without naming them: only the session knows them.
        for place in wanted:
            place.fetch_offset = 1
        add(broker, keys="Fetch", topic="orders", partitions=1, error="NOT_LEADER_OR_FOLLOWER")
        request.session_id, request.session_epoch = answer.session_id, 1
        answer = await peer.ask(request, 12, FetchResponse)  # at once, although there are no records
        assert found(answer) == {1: (6, False)}
        request.session_epoch, request.topics, request.max_wait_ms = 2, [], 0
        answer = await peer.ask(request, 12, FetchResponse)
        assert found(answer) == {1: (0, False)}  # its offsets are told again
        await produces(peer, 1)
        add(broker, keys="Fetch", partitions=1, error="NOT_LEADER_OR_FOLLOWER")
        request.session_epoch = 3
        assert found(await peer.ask(request, 12, FetchResponse)) == {1: (6, False)}
        request.session_epoch = 4
        assert found(await peer.ask(request, 12, FetchResponse)) == {1: (0, True)}


# Answers that are lost, late or broken


async def test_a_dropped_answer_stops_the_later_ones_of_its_connection_only() -> None:
    async with tapped() as (broker, seen), talking_to(broker) as other:
        async with talking_to(broker) as peer:
            fault = add(broker, keys="OffsetCommit", drop=True)
            peer.send(commit(5, 7), 8)
            await fault.wait()
            peer.send(ListGroupsRequest(), 4)
            await until(lambda: len(seen.of(RequestReceived)) == 2)
            assert await committed(other) == [5, 7]  # the work was done
        await until(lambda: bool(seen.of(ConnectionClosed)))
        dropped, behind = seen.of(AnswerLost)
        assert dropped.reason == "a fault dropped the answer" and isinstance(dropped.response, OffsetCommitResponse)
        assert behind.reason == "the connection closed"


async def test_a_request_can_be_lost_before_the_work() -> None:
    async with tapped() as (broker, _), talking_to(broker) as other, talking_to(broker) as peer:
        fault = add(broker, keys="OffsetCommit", drop=True, when="before")
        peer.send(commit(5, 7), 8)
        await fault.wait()
        assert await committed(other) == [-1, -1]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_held_request_or_answer_goes_on_when_it_is_released(when: str) -> None:
    async with tapped() as (broker, seen), talking_to(broker) as other, talking_to(broker) as peer:
        fault = add(broker, keys="OffsetCommit", hold=True, when=when)
        peer.send(commit(5, 7), 8)
        peer.send(ListGroupsRequest(), 4)
        await fault.wait()
        await until(lambda: fault.held == 1)
        assert await committed(other) == ([-1, -1] if when == "before" else [5, 7])
        assert len([event for event in seen.of(AnswerSent) if event.connection == 2]) == 0
        fault.release()
        answer = await peer.answer(OffsetCommitResponse)
        assert [p.error_code for p in answer.topics[0].partitions] == [0, 0]
        assert (await peer.answer(ListGroupsResponse)).error_code == 0
        assert await committed(other) == [5, 7]
        assert fault.held == 0


async def test_a_release_concerns_a_request_whose_work_is_not_done_yet() -> None:
    async with tapped({"group.initial.rebalance.delay.ms": "100"}) as (broker, _), talking_to(broker) as peer:
        fault = add(broker, keys="JoinGroup", hold=True, when="after")
        peer.send(join("g"), 3)
        await fault.wait()
        assert fault.held == 0
        fault.release()
        assert (await peer.answer(JoinGroupResponse)).error_code == 0


async def test_a_request_that_is_held_is_done_even_if_its_client_gives_up() -> None:
    async with tapped() as (broker, seen), talking_to(broker) as other:
        fault = add(broker, keys="OffsetCommit", hold=True)
        async with talking_to(broker) as peer:
            peer.send(commit(5, 7), 8)
            await fault.wait()
        await until(lambda: bool(seen.of(ConnectionClosed)))
        assert broker.faults.remove(fault.id)
        assert await committed(other) == [5, 7]


async def test_a_delay_lasts_as_long_as_asked() -> None:
    async with tapped() as (broker, _), talking_to(broker) as peer:
        loop = asyncio.get_running_loop()
        for when in ("before", "after"):
            add(broker, keys="ListGroups", delay_ms=50, when=when)
            began = loop.time()
            assert await alive(peer)
            assert loop.time() - began >= 0.05


async def test_a_join_that_waits_for_its_group_is_late_or_lost_like_any_other() -> None:
    settings = {"group.initial.rebalance.delay.ms": "100"}
    async with tapped(settings) as (broker, _), talking_to(broker) as peer, talking_to(broker) as other:
        fault = add(broker, keys="JoinGroup", hold=True, when="after")
        peer.send(join("g"), 3)
        await fault.wait()
        peer.send(ListGroupsRequest(), 4)
        await until(lambda: fault.held == 1)
        fault.release()
        assert (await peer.answer(JoinGroupResponse)).error_code == 0
        assert (await peer.answer(ListGroupsResponse)).error_code == 0
        add(broker, keys="JoinGroup", close=True)
        other.send(join("h"), 3)
        assert await other.closed()
        assert len(broker.groups.shard("h").members("h")) == 0
        assert await alive(peer)


@pytest.mark.parametrize(("when", "found"), [("before", [-1, -1]), ("after", [5, 7])])
async def test_a_connection_closes_instead_of_the_work_or_of_the_answer(when: str, found: list[int]) -> None:
    async with tapped() as (broker, seen), talking_to(broker) as other, talking_to(broker) as peer:
        add(broker, keys="OffsetCommit", close=True, when=when)
        peer.send(commit(5, 7), 8)
        assert await peer.closed()
        assert await committed(other) == found
        (lost,) = seen.of(AnswerLost)
        assert (lost.response is None) == (when == "before")
        assert seen.of(ConnectionClosed)[0].by_broker


async def test_a_connection_closes_after_the_answer() -> None:
    async with tapped() as (broker, seen), talking_to(broker) as peer:
        add(broker, keys="OffsetCommit", close=True, when="answered")
        peer.send(commit(5, 7), 8)
        peer.send(ListGroupsRequest(), 4)
        await peer.answer(OffsetCommitResponse)
        assert await peer.closed()
        await until(lambda: bool(seen.of(ConnectionClosed)))
        assert len(seen.of(AnswerSent)) == 1


@pytest.mark.parametrize("size", [None, 0, 6])
async def test_an_answer_is_cut_and_nothing_follows_it(size: int | None) -> None:
    async with tapped() as (broker, seen), talking_to(broker) as peer:
        add(broker, keys="ListGroups", cut=True if size is None else size)
        peer.send(ListGroupsRequest(), 4)
        peer.send(MetadataRequest(), 9)
        received = await peer.reader.read()
        if size is None:
            assert 0 < len(received) - 4 < struct.unpack(">i", received[:4])[0]
        else:
            assert len(received) == size
        await until(lambda: bool(seen.of(ConnectionClosed)))
        assert seen.of(AnswerSent) == []
        assert seen.of(AnswerLost)[0].reason == "a fault cut the answer"


async def test_records_in_files_are_cut_or_fail_like_others(tmp_path: Path) -> None:
    async with tapped(data=tmp_path / "data") as (broker, seen):
        wanted = [FetchPartition(partition=index, partition_max_bytes=1_000_000) for index in range(2)]
        request = FetchRequest(session_epoch=-1, topics=[FetchTopic(topic="orders", partitions=wanted)])
        async with talking_to(broker) as peer:
            await produces(peer, 0, 1, value=bytes(300_000))
            add(broker, keys="Fetch", partitions=0, error="NOT_LEADER_OR_FOLLOWER")
            answer = await peer.ask(request, 12, FetchResponse)
            first, second = answer.responses[0].partitions
            assert (first.error_code, first.records) == (6, b"")
            assert second.error_code == 0 and len(cast("bytes", second.records)) > 300_000
            sent = seen.of(AnswerSent)[-1].response.responses[0].partitions[1].records
            assert any(isinstance(part, FileSlice) for part in sent)  # not in memory
            add(broker, keys="Fetch", cut=400_000)
            peer.send(request, 12)
            assert len(await peer.reader.read(-1)) == 400_000


async def test_a_duplicate_is_handled_twice_and_answered_once() -> None:
    async with tapped() as (broker, seen), talking_to(broker) as peer:
        add(broker, keys="Produce", duplicate=True)
        assert await produces(peer, 0) == [(0, 1)]  # not idempotent: the second answer
        assert ends(broker) == [2, 0]
        assert await alive(peer)
        (lost,) = seen.of(AnswerLost)
        assert lost.reason == "a fault repeated the request, and the peer gets the second answer"
        first, second = (event for event in seen.of(RequestReceived) if isinstance(event.request, ProduceRequest))
        assert first.request_id != second.request_id


async def test_a_wait_for_hits_that_do_not_come_says_how_many_there_are() -> None:
    async with tapped() as (broker, _), talking_to(broker) as peer:
        fault = add(broker, keys="ListGroups", observe=True, count=-1)
        assert await alive(peer)
        assert await fault.wait(1) == 1
        with pytest.raises(
            TimeoutError, match=r"timed out after 0.01 s waiting for 2 hit\(s\), have 1: observe, ListGro"
        ):
            await fault.wait(2, timeout_s=0.01)


async def test_a_wait_ends_when_the_fault_is_removed() -> None:
    async with tapped() as (broker, _):
        fault = add(broker, keys="ListGroups", error=15)
        waiting = asyncio.create_task(fault.wait(2))
        await asyncio.sleep(0)
        assert broker.faults.clear() == 1
        for wait in (waiting, fault.wait()):
            with pytest.raises(KohortError, match=r"removed before it had \d hit\(s\), with 0: COORDINATOR_NOT_AVAIL"):
                await wait


async def test_a_broker_stops_although_requests_and_answers_are_held() -> None:
    async with tapped() as (broker, seen), talking_to(broker) as peer, talking_to(broker) as other:
        early = add(broker, keys="OffsetCommit", hold=True)
        late = add(broker, keys="ListGroups", hold=True, when="after")
        add(broker, keys="Metadata", delay_ms=50)
        peer.send(commit(5, 7), 8)
        other.send(ListGroupsRequest(), 4)
        other.send(MetadataRequest(), 9)
        await early.wait()
        await late.wait()
        await broker.stop()
        assert await peer.closed() and await other.closed()
        broker.faults.clear()  # what is released now is not done any more
        assert seen.of(AnswerSent) == [] and seen.of(RecordsAppended) == []


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_heartbeat_that_the_coordinator_holds_is_answered_for_a_request_behind_a_delay(when: str) -> None:
    # The coordinator holds a heartbeat of a consumer group until there is news, unless other requests wait behind it.
    async with tapped({"group.heartbeat.hold.ms": "30000"}) as (broker, _), talking_to(broker) as peer:
        first = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        )
        joined = await peer.ask(first, 1, ConsumerGroupHeartbeatResponse)
        assert joined.error_code == 0 and joined.assignment is not None
        owned = [
            TopicPartitions(topic_id=t.topic_id, partitions=t.partitions) for t in joined.assignment.topic_partitions
        ]
        beat = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=joined.member_epoch, topic_partitions=owned
        )
        await peer.ask(beat, 1, ConsumerGroupHeartbeatResponse)
        beat.topic_partitions = None
        fault = add(broker, keys="ConsumerGroupHeartbeat", delay_ms=20, when=when)
        for _ in range(2):
            peer.send(beat, 1)
        await fault.wait()
        peer.send(ListGroupsRequest(), 4)
        for _ in range(2):
            assert (await peer.answer(ConsumerGroupHeartbeatResponse)).error_code == 0
        assert (await peer.answer(ListGroupsResponse)).error_code == 0


async def test_a_large_batch_that_is_handled_twice_is_stored_twice() -> None:
    # The broker writes the offset of a large batch into the bytes that it received.
    async with tapped() as (broker, _), talking_to(broker) as peer:
        add(broker, keys="Produce", duplicate=True)
        assert await produces(peer, 0, value=bytes(300_000)) == [(0, 1)]
        place = FetchPartition(partition=0, partition_max_bytes=1_000_000)
        request = FetchRequest(session_epoch=-1, topics=[FetchTopic(topic="orders", partitions=[place])])
        answer = await peer.ask(request, 12, FetchResponse)
        records = cast("bytes", answer.responses[0].partitions[0].records)
        second = len(records) // 2
        assert [record.offset for at in (0, second) for record in decode_records(records, at)] == [0, 1]


async def test_a_repeated_join_makes_a_member_that_its_client_does_not_know() -> None:
    async with tapped() as (broker, _), talking_to(broker) as peer:
        add(broker, keys="JoinGroup", duplicate=True)
        peer.send(join("g"), 3)
        await until(lambda: len(broker.groups.shard("g").members("g")) == 2)


async def test_a_repeated_heartbeat_of_a_connection_that_closes_leaves_nothing_behind() -> None:
    async with tapped({"group.initial.rebalance.delay.ms": "60000"}) as (broker, seen):
        async with talking_to(broker) as peer:
            fault = add(broker, keys="JoinGroup", duplicate=True)
            peer.send(join("g"), 3)
            await fault.wait()
        await until(lambda: bool(seen.of(ConnectionClosed)))
        assert {event.reason for event in seen.of(AnswerLost)} == {"the connection closed"}
        assert len(seen.of(AnswerLost)) == 2


async def test_a_client_without_permission_is_refused_before_any_fault() -> None:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }
    async with tapped(settings) as (broker, seen), talking_to(broker) as peer:
        patterns = [
            ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL),
            ResourcePattern(ResourceType.GROUP, "g", PatternType.LITERAL),
        ]
        allowed = [Acl(each, "User:ANONYMOUS", "*", Operation.READ, Permission.ALLOW) for each in patterns]
        assert broker.access_control is not None
        broker.access_control.add(allowed)
        fault = add(broker, keys="OffsetCommit", partitions=1, error="NOT_COORDINATOR")
        request = commit(5, 7)
        secret = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        request.topics.insert(0, OffsetCommitRequestTopic(name="secret", partitions=[secret]))
        answer = await peer.ask(request, 8, OffsetCommitResponse)
        found = {
            (topic.name, partition.partition_index): partition.error_code
            for topic in answer.topics
            for partition in topic.partitions
        }
        assert found == {("secret", 0): 29, ("orders", 0): 0, ("orders", 1): 16}
        assert fault.hits == 1
        # Observers see what the client asked, not what was left of it.
        (asked,) = (event for event in seen.of(RequestReceived) if isinstance(event.request, OffsetCommitRequest))
        assert [topic.name for topic in asked.request.topics] == ["secret", "orders"]


async def test_an_error_of_one_authentication_does_not_hurt_the_next() -> None:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="wonderland";'
        ),
        "connection.failed.authentication.delay.ms": "0",
    }
    async with tapped(settings) as (broker, _):
        add(broker, keys="SaslHandshake", error="UNSUPPORTED_SASL_MECHANISM")
        add(broker, keys="SaslAuthenticate", error="SASL_AUTHENTICATION_FAILED")
        found = []
        for _ in range(3):
            async with talking_to(broker) as peer:
                shaken = await peer.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
                found.append(shaken.error_code)
                if not shaken.error_code:
                    request = SaslAuthenticateRequest(auth_bytes=b"\0alice\0wonderland")
                    found.append((await peer.ask(request, 2, SaslAuthenticateResponse)).error_code)
        assert found == [33, 0, 58, 0, 0]
