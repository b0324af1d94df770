"""What a client without permission is told, request by request, as Apache Kafka tells it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.broker.access.guards import GUARDS, OPEN
from kohort.broker.apis import SERVED
from kohort.errors import ConfigError, ErrorCode
from kohort.security import Acl, Operation, PatternType, Permission, ResourcePattern, ResourceType, Secret
from kohort.security.sasl import PlainClient
from kohort.wire.codec import Message
from kohort.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from kohort.wire.messages.alter_client_quotas import EntryData as AlteredQuotas
from kohort.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kohort.wire.messages.alter_configs import AlterConfigsResource as ReplacedConfigs
from kohort.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kohort.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
)
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kohort.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kohort.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from kohort.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from kohort.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kohort.wire.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from kohort.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kohort.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kohort.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kohort.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from kohort.wire.messages.describe_producers import TopicRequest as ProducersOfTopic
from kohort.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kohort.wire.messages.describe_topic_partitions import TopicRequest as DescribedTopic
from kohort.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kohort.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kohort.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kohort.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kohort.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kohort.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kohort.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.broker.conftest import QUICK, MakeBroker
from tests.broker.peer import Peer, connected, talking_to
from tests.broker.security.test_sasl import MODULE

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SETTINGS = {
    **QUICK,
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} required user_root="r" user_alice="a";',
    "authorizer.class.name": AUTHORIZER,
    "super.users": "User:root",
}
TOPIC, CLUSTER = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
TRANSACTIONAL_ID = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
ALICE = "User:alice"


@pytest.fixture
async def secured(start_broker: MakeBroker) -> Broker:
    """A broker with the topics `own` and `other`; root may do everything, alice nothing."""
    broker = await start_broker(BrokerOptions(settings=SETTINGS))
    for name in ("own", "other"):
        broker.topics.create(name, 1)
    return broker


@asynccontextmanager
async def as_user(broker: Broker, user: str) -> AsyncIterator[Peer]:
    async with talking_to(broker) as peer:
        await log_in(peer, user)
        yield peer


async def log_in(peer: Peer, user: str) -> None:
    await peer.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
    token = PlainClient(user, Secret(user[0])).start()
    answer = await peer.ask(SaslAuthenticateRequest(auth_bytes=token), 2, SaslAuthenticateResponse)
    assert not answer.error_code


def allow(broker: Broker, operation: Operation, kind: ResourceType, name: str, *, prefixed: bool = False) -> None:
    assert broker.access_control is not None
    pattern = ResourcePattern(kind, name, PatternType.PREFIXED if prefixed else PatternType.LITERAL)
    broker.access_control.add([Acl(pattern, ALICE, "*", operation, Permission.ALLOW)])


def codes(response: object) -> set[int]:
    """All error codes anywhere in a response."""
    if isinstance(response, list):
        return {code for item in response for code in codes(item)}
    if not hasattr(response, "FIELDS"):
        return set()
    found: set[int] = set()
    for field in response.FIELDS:
        value = getattr(response, field.name)
        found |= {value} if field.name == "error_code" else codes(value)
    return found


def describe_configs(kind: int, name: str) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=kind, resource_name=name)])


def alter_configs(kind: int, name: str) -> AlterConfigsRequest:
    return AlterConfigsRequest(resources=[ReplacedConfigs(resource_type=kind, resource_name=name)])


def fetch(name: str) -> FetchRequest:
    return FetchRequest(topics=[FetchTopic(topic=name, partitions=[FetchPartition()])], max_wait_ms=0)


EVERYTHING = DescribeAclsRequest(
    resource_type_filter=1,
    resource_name_filter=None,
    pattern_type_filter=1,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)

REFUSED: Sequence[tuple[Message, int, type[Message], int]] = [
    (
        ProduceRequest(
            acks=-1, topic_data=[TopicProduceData(name="own", partition_data=[PartitionProduceData(records=b"")])]
        ),
        11,
        ProduceResponse,
        TOPIC,
    ),
    (
        FetchRequest(topics=[FetchTopic(topic="own", partitions=[FetchPartition()])], max_wait_ms=0),
        12,
        FetchResponse,
        TOPIC,
    ),
    (fetch("none"), 12, FetchResponse, TOPIC),
    (
        ListOffsetsRequest(topics=[ListOffsetsTopic(name="own", partitions=[ListOffsetsPartition(timestamp=-1)])]),
        7,
        ListOffsetsResponse,
        TOPIC,
    ),
    (
        OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic="own", partitions=[OffsetForLeaderPartition()])]
        ),
        4,
        OffsetForLeaderEpochResponse,
        TOPIC,
    ),
    (MetadataRequest(topics=[MetadataRequestTopic(name="own")]), 12, MetadataResponse, TOPIC),
    (MetadataRequest(topics=[MetadataRequestTopic(name="none")]), 12, MetadataResponse, TOPIC),
    (DescribeTopicPartitionsRequest(topics=[DescribedTopic(name="own")]), 0, DescribeTopicPartitionsResponse, TOPIC),
    (DescribeTopicPartitionsRequest(topics=[DescribedTopic(name="none")]), 0, DescribeTopicPartitionsResponse, TOPIC),
    (
        CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)]),
        7,
        CreateTopicsResponse,
        TOPIC,
    ),
    (DeleteTopicsRequest(topics=[DeleteTopicState(name="own")]), 6, DeleteTopicsResponse, TOPIC),
    (DeleteTopicsRequest(topic_names=["own"]), 5, DeleteTopicsResponse, TOPIC),
    (
        DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="own", partitions=[DeleteRecordsPartition()])]),
        2,
        DeleteRecordsResponse,
        TOPIC,
    ),
    (CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="own", count=2)]), 3, CreatePartitionsResponse, TOPIC),
    (
        DescribeProducersRequest(topics=[ProducersOfTopic(name="own", partition_indexes=[0])]),
        0,
        DescribeProducersResponse,
        TOPIC,
    ),
    (InitProducerIdRequest(), 4, InitProducerIdResponse, CLUSTER),
    (InitProducerIdRequest(transactional_id="t"), 4, InitProducerIdResponse, TRANSACTIONAL_ID),
    (JoinGroupRequest(group_id="g", session_timeout_ms=10_000), 5, JoinGroupResponse, GROUP),
    (SyncGroupRequest(group_id="g"), 3, SyncGroupResponse, GROUP),
    (HeartbeatRequest(group_id="g"), 3, HeartbeatResponse, GROUP),
    (LeaveGroupRequest(group_id="g"), 2, LeaveGroupResponse, GROUP),
    (ConsumerGroupHeartbeatRequest(group_id="g", member_id="m"), 1, ConsumerGroupHeartbeatResponse, GROUP),
    (ConsumerGroupDescribeRequest(group_ids=["g"]), 0, ConsumerGroupDescribeResponse, GROUP),
    (FindCoordinatorRequest(key="g"), 3, FindCoordinatorResponse, GROUP),
    (FindCoordinatorRequest(coordinator_keys=["g"]), 4, FindCoordinatorResponse, GROUP),
    (FindCoordinatorRequest(coordinator_keys=["t"], key_type=1), 4, FindCoordinatorResponse, TRANSACTIONAL_ID),
    (DescribeGroupsRequest(groups=["g"]), 5, DescribeGroupsResponse, GROUP),
    (DeleteGroupsRequest(groups_names=["g"]), 2, DeleteGroupsResponse, GROUP),
    (
        OffsetCommitRequest(
            group_id="g",
            topics=[OffsetCommitRequestTopic(name="own", partitions=[OffsetCommitRequestPartition()])],
        ),
        8,
        OffsetCommitResponse,
        GROUP,
    ),
    (OffsetFetchRequest(group_id="g", topics=None), 7, OffsetFetchResponse, GROUP),
    (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), 8, OffsetFetchResponse, GROUP),
    (OffsetDeleteRequest(group_id="g"), 0, OffsetDeleteResponse, GROUP),
    (
        describe_configs(2, "own"),
        4,
        DescribeConfigsResponse,
        TOPIC,
    ),
    (
        describe_configs(4, "1"),
        4,
        DescribeConfigsResponse,
        CLUSTER,
    ),
    (
        describe_configs(32, "g"),
        4,
        DescribeConfigsResponse,
        GROUP,
    ),
    (
        alter_configs(2, "own"),
        2,
        AlterConfigsResponse,
        TOPIC,
    ),
    (
        alter_configs(4, "1"),
        2,
        AlterConfigsResponse,
        CLUSTER,
    ),
    (DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse, CLUSTER),
    (ElectLeadersRequest(topic_partitions=None), 2, ElectLeadersResponse, CLUSTER),
    (AlterPartitionReassignmentsRequest(), 0, AlterPartitionReassignmentsResponse, CLUSTER),
    (ListPartitionReassignmentsRequest(), 0, ListPartitionReassignmentsResponse, CLUSTER),
    (ListConfigResourcesRequest(), 1, ListConfigResourcesResponse, CLUSTER),
    (
        DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1),
        3,
        DescribeAclsResponse,
        CLUSTER,
    ),
    (CreateAclsRequest(creations=[AclCreation()]), 3, CreateAclsResponse, CLUSTER),
    (DeleteAclsRequest(filters=[DeleteAclsFilter()]), 3, DeleteAclsResponse, CLUSTER),
    (DescribeClientQuotasRequest(), 1, DescribeClientQuotasResponse, CLUSTER),
    (UpdateFeaturesRequest(), 2, UpdateFeaturesResponse, CLUSTER),
    (AlterClientQuotasRequest(entries=[AlteredQuotas()]), 1, AlterClientQuotasResponse, CLUSTER),
    (DescribeUserScramCredentialsRequest(users=None), 0, DescribeUserScramCredentialsResponse, CLUSTER),
    (
        AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="bob", mechanism=1)]),
        0,
        AlterUserScramCredentialsResponse,
        CLUSTER,
    ),
]


@pytest.mark.parametrize(
    ("request_", "version", "kind", "code"),
    REFUSED,
    ids=[f"{type(row[0]).__name__}-{row[3]}" for row in REFUSED],
)
async def test_without_an_acl_a_request_is_refused_and_changes_nothing(
    secured: Broker, request_: Message, version: int, kind: type[Message], code: int
) -> None:
    async with as_user(secured, "alice") as peer:
        assert codes(await peer.ask(request_, version, kind)) - {0} == {code}
    assert set(secured.topics.all()) >= {"own", "other"}
    assert "new" not in secured.topics.all() and "none" not in secured.topics.all()
    assert secured.topics.all()["own"].partitions == 1


def test_every_served_api_has_a_guard_or_is_open() -> None:
    assert {key for key, _, _ in SERVED} == {*map(int, GUARDS), *map(int, OPEN)}


async def test_a_list_has_only_what_the_client_may_describe(secured: Broker) -> None:
    allow(secured, Operation.READ, ResourceType.TOPIC, "ow", prefixed=True)
    async with as_user(secured, "alice") as peer:
        metadata = await peer.ask(MetadataRequest(topics=None), 12, MetadataResponse)
        assert [topic.name for topic in metadata.topics] == ["own"]
        described = await peer.ask(DescribeTopicPartitionsRequest(), 0, DescribeTopicPartitionsResponse)
        assert [topic.name for topic in described.topics] == ["own"]
    async with as_user(secured, "root") as peer:
        metadata = await peer.ask(MetadataRequest(topics=None), 12, MetadataResponse)
        assert {topic.name for topic in metadata.topics} >= {"own", "other", "__consumer_offsets"}


async def test_version_0_of_all_topics_has_only_what_the_client_may_describe(secured: Broker) -> None:
    allow(secured, Operation.DESCRIBE, ResourceType.TOPIC, "own")
    async with as_user(secured, "alice") as peer:
        metadata = await peer.ask(MetadataRequest(topics=[]), 0, MetadataResponse)
        assert [topic.name for topic in metadata.topics] == ["own"]


async def test_pages_of_topics_name_none_that_the_client_may_not_describe(secured: Broker) -> None:
    secured.topics.create("p-hidden", 1)
    secured.topics.create("q", 1)
    for name in ("own", "q"):
        allow(secured, Operation.DESCRIBE, ResourceType.TOPIC, name)
    async with as_user(secured, "alice") as peer:
        request = DescribeTopicPartitionsRequest(response_partition_limit=1)
        first = await peer.ask(request, 0, DescribeTopicPartitionsResponse)
        assert [topic.name for topic in first.topics] == ["own"]
        assert first.next_cursor is not None and first.next_cursor.topic_name == "q"
        request.cursor = Cursor(topic_name="q", partition_index=0)
        last = await peer.ask(request, 0, DescribeTopicPartitionsResponse)
        assert ([topic.name for topic in last.topics], last.next_cursor) == (["q"], None)
        named = DescribeTopicPartitionsRequest(
            topics=[DescribedTopic(name=name) for name in ("other", "own", "p-hidden")], response_partition_limit=1
        )
        found = await peer.ask(named, 0, DescribeTopicPartitionsResponse)
        assert [(topic.name, topic.error_code) for topic in found.topics] == [
            ("own", 0),
            ("other", TOPIC),
            ("p-hidden", TOPIC),
        ]
        assert found.next_cursor is None


async def test_only_on_the_listener_of_brokers_a_client_acts_as_one(start_broker: MakeBroker) -> None:
    users = f'{MODULE} required username="root" password="r" user_root="r" user_alice="a";'
    settings = {
        **SETTINGS,
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,INTERNAL:SASL_PLAINTEXT",
        "listener.name.internal.plain.sasl.jaas.config": users,
        "inter.broker.listener.name": "INTERNAL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
    }
    broker = await start_broker(BrokerOptions(settings=settings))
    broker.topics.create("own", 1)
    allow(broker, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster")
    request = MetadataRequest(topics=[MetadataRequestTopic(name="own")])
    async with as_user(broker, "alice") as peer:
        assert codes(await peer.ask(request, 12, MetadataResponse)) - {0} == {TOPIC}
    internal = f"127.0.0.1:{broker.endpoints['INTERNAL'].port}"
    async with connected(internal) as peer:
        await log_in(peer, "alice")
        assert codes(await peer.ask(request, 12, MetadataResponse)) == {0}


async def test_a_denial_hides_a_topic_also_if_everyone_may_do_what_no_acl_is_about(start_broker: MakeBroker) -> None:
    settings = {**SETTINGS, "allow.everyone.if.no.acl.found": "true"}
    broker = await start_broker(BrokerOptions(settings=settings))
    broker.topics.create("own", 1)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="own")])
    async with as_user(broker, "alice") as peer:
        assert codes(await peer.ask(request, 12, MetadataResponse)) == {0}
        assert broker.access_control is not None
        pattern = ResourcePattern(ResourceType.TOPIC, "own")
        broker.access_control.add([Acl(pattern, ALICE, "*", Operation.ALL, Permission.DENY)])
        assert codes(await peer.ask(request, 12, MetadataResponse)) - {0} == {TOPIC}


async def test_producers_are_described_to_readers_only(secured: Broker) -> None:
    allow(secured, Operation.DESCRIBE, ResourceType.TOPIC, "own")
    topics = [ProducersOfTopic(name="own", partition_indexes=[0])]
    async with as_user(secured, "alice") as peer:
        request = DescribeProducersRequest(topics=topics)
        assert codes(await peer.ask(request, 0, DescribeProducersResponse)) == {TOPIC}
        allow(secured, Operation.READ, ResourceType.TOPIC, "own")
        request = DescribeProducersRequest(topics=topics)
        assert codes(await peer.ask(request, 0, DescribeProducersResponse)) == {0}


async def test_offsets_of_all_topics_are_those_that_the_client_may_describe(secured: Broker) -> None:
    topics = [
        OffsetCommitRequestTopic(name=name, partitions=[OffsetCommitRequestPartition(committed_offset=5)])
        for name in ("own", "other")
    ]
    async with as_user(secured, "root") as peer:
        commit = OffsetCommitRequest(group_id="g", topics=topics)
        assert codes(await peer.ask(commit, 8, OffsetCommitResponse)) == {0}
    allow(secured, Operation.DELETE, ResourceType.GROUP, "g")
    allow(secured, Operation.DESCRIBE, ResourceType.TOPIC, "own")
    async with as_user(secured, "alice") as peer:
        one = await peer.ask(OffsetFetchRequest(group_id="g", topics=None), 7, OffsetFetchResponse)
        assert [topic.name for topic in one.topics] == ["own"]
        wanted = OffsetFetchRequestGroup(group_id="g", topics=None)
        (group,) = (await peer.ask(OffsetFetchRequest(groups=[wanted]), 8, OffsetFetchResponse)).groups
        assert [topic.name for topic in group.topics] == ["own"]
        partitions = [OffsetDeleteRequestPartition()]
        deletion = OffsetDeleteRequest(
            group_id="g", topics=[OffsetDeleteRequestTopic(name="own", partitions=partitions)]
        )
        assert codes(await peer.ask(deletion, 0, OffsetDeleteResponse)) == {0, TOPIC}, "it may not read the topic"


@pytest.mark.parametrize("version", [8, 10])
async def test_a_commit_like_the_one_before_is_authorized_anew(secured: Broker, version: int) -> None:
    """A connection remembers what its commits have in common, but not that they were allowed."""

    def commit(offset: int) -> OffsetCommitRequest:
        partitions = [OffsetCommitRequestPartition(committed_offset=offset)]
        topics = [
            OffsetCommitRequestTopic(name=name, topic_id=secured.topics.all()[name].topic_id, partitions=partitions)
            for name in ("own", "other")
        ]
        return OffsetCommitRequest(group_id="g", topics=topics)

    assert secured.access_control is not None
    allow(secured, Operation.READ, ResourceType.GROUP, "g")
    for name in ("own", "other"):
        allow(secured, Operation.READ, ResourceType.TOPIC, name)
    async with as_user(secured, "alice") as peer:
        for number in range(3):
            assert codes(await peer.ask(commit(number), version, OffsetCommitResponse)) == {0}
        (connection,) = secured.sockets
        assert connection.commits is not None and connection.commits.hits == 2

        denied = Acl(ResourcePattern(ResourceType.TOPIC, "own"), ALICE, "*", Operation.READ, Permission.DENY)
        secured.access_control.add([denied])
        answer = await peer.ask(commit(7), version, OffsetCommitResponse)
        assert [topic.partitions[0].error_code for topic in answer.topics] == [TOPIC, 0]
        secured.access_control.remove([denied])
        for number in range(8, 20):
            answer = await peer.ask(commit(number), version, OffsetCommitResponse)
            assert [topic.partitions[0].error_code for topic in answer.topics] == [0, 0]
        assert connection.commits.hits > 2

        pattern = ResourcePattern(ResourceType.GROUP, "g")
        secured.access_control.add([Acl(pattern, ALICE, "*", Operation.READ, Permission.DENY)])
        assert codes(await peer.ask(commit(50), version, OffsetCommitResponse)) == {GROUP}
    group = secured.groups.shard("g").group("g")
    assert group is not None
    assert {name: stored[0].offset for name, stored in group.offsets.items()} == {"own": 19, "other": 19}


@pytest.mark.parametrize("version", [8, 10])
async def test_a_commit_for_a_topic_that_was_created_again_is_authorized_anew(secured: Broker, version: int) -> None:
    topic_id = secured.topics.all()["own"].topic_id

    def commit(offset: int) -> OffsetCommitRequest:
        partitions = [OffsetCommitRequestPartition(committed_offset=offset)]
        topic = OffsetCommitRequestTopic(name="own", topic_id=topic_id, partitions=partitions)
        return OffsetCommitRequest(group_id="g", topics=[topic])

    assert secured.access_control is not None
    allow(secured, Operation.READ, ResourceType.GROUP, "g")
    allow(secured, Operation.READ, ResourceType.TOPIC, "own")
    async with as_user(secured, "alice") as peer:
        for number in range(3):
            assert codes(await peer.ask(commit(number), version, OffsetCommitResponse)) == {0}
        secured.topics.delete(secured.topics.all()["own"])
        secured.topics.create("own", 1)
        pattern = ResourcePattern(ResourceType.TOPIC, "own")
        secured.access_control.add([Acl(pattern, ALICE, "*", Operation.READ, Permission.DENY)])
        refused = codes(await peer.ask(commit(7), version, OffsetCommitResponse))
        assert refused == ({TOPIC} if version < 10 else {ErrorCode.UNKNOWN_TOPIC_ID})


async def test_a_request_is_handled_in_part(secured: Broker) -> None:
    allow(secured, Operation.DESCRIBE, ResourceType.TOPIC, "own")
    async with as_user(secured, "alice") as peer:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="own"), MetadataRequestTopic(name="other")])
        response = await peer.ask(request, 12, MetadataResponse)
        found_codes = {topic.name: topic.error_code for topic in response.topics}
        assert found_codes == {"own": 0, "other": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        offsets = ListOffsetsRequest(
            topics=[
                ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(timestamp=-1)])
                for name in ("own", "other")
            ]
        )
        found = await peer.ask(offsets, 7, ListOffsetsResponse)
        assert {topic.name: topic.partitions[0].error_code for topic in found.topics} == {"own": 0, "other": TOPIC}


async def test_a_topic_id_reveals_no_name(secured: Broker) -> None:
    topic = secured.topics.all()["other"]
    async with as_user(secured, "alice") as peer:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic.topic_id)])
        (found,) = (await peer.ask(request, 12, MetadataResponse)).topics
        assert (found.error_code, found.name) == (TOPIC, None)
        deleted = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=topic.topic_id)])
        (result,) = (await peer.ask(deleted, 6, DeleteTopicsResponse)).responses
        assert (result.error_code, result.name) == (TOPIC, None)


async def test_authorized_operations_are_those_of_the_acls(secured: Broker) -> None:
    allow(secured, Operation.READ, ResourceType.TOPIC, "own")
    request = MetadataRequest(topics=[MetadataRequestTopic(name="own")], include_topic_authorized_operations=True)
    async with as_user(secured, "alice") as peer:
        (topic,) = (await peer.ask(request, 12, MetadataResponse)).topics
        assert topic.topic_authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE
        cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
        assert (await peer.ask(cluster, 1, DescribeClusterResponse)).cluster_authorized_operations == 0
        allow(secured, Operation.DESCRIBE, ResourceType.CLUSTER, "kafka-cluster")
        found = await peer.ask(cluster, 1, DescribeClusterResponse)
        assert found.cluster_authorized_operations == 1 << Operation.DESCRIBE


async def test_a_fetch_session_loses_a_topic_with_its_acl(secured: Broker) -> None:
    allow(secured, Operation.READ, ResourceType.TOPIC, "own")
    async with as_user(secured, "alice") as peer:
        first = FetchRequest(
            topics=[FetchTopic(topic="own", partitions=[FetchPartition()])], max_wait_ms=0, session_epoch=0
        )
        begun = await peer.ask(first, 12, FetchResponse)
        assert begun.session_id and codes(begun) == {0}
        assert secured.access_control is not None
        secured.access_control.remove(list(secured.access_control.acls.all))
        changed = FetchRequest(
            topics=[FetchTopic(topic="own", partitions=[FetchPartition(fetch_offset=0)])],
            max_wait_ms=0,
            session_id=begun.session_id,
            session_epoch=1,
        )
        assert codes(await peer.ask(changed, 12, FetchResponse)) == {0, TOPIC}


async def test_a_client_that_claims_to_be_a_replica_must_be_a_broker(secured: Broker) -> None:
    allow(secured, Operation.READ, ResourceType.TOPIC, "own")
    claim = fetch("own")
    claim.replica_id = 7
    async with as_user(secured, "alice") as peer:
        assert codes(await peer.ask(fetch("own"), 12, FetchResponse)) == {0}
        assert codes(await peer.ask(claim, 12, FetchResponse)) == {0, TOPIC}
        allow(secured, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster")
        assert codes(await peer.ask(claim, 12, FetchResponse)) == {0}


async def test_a_producer_that_may_write_any_topic_gets_an_id(secured: Broker) -> None:
    async with as_user(secured, "alice") as peer:
        refused = await peer.ask(InitProducerIdRequest(), 4, InitProducerIdResponse)
        assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        allow(secured, Operation.WRITE, ResourceType.TOPIC, "new-", prefixed=True)
        assert (await peer.ask(InitProducerIdRequest(), 4, InitProducerIdResponse)).error_code == 0


async def test_produce_without_acknowledgement_is_refused_by_closing(
    secured: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async with as_user(secured, "alice") as peer:
        data = [TopicProduceData(name="own", partition_data=[PartitionProduceData(records=b"")])]
        peer.send(ProduceRequest(acks=0, topic_data=data), 11)
        assert await peer.closed()
    assert f"is not authorized for {ALICE}" in caplog.text


async def test_groups_need_permission_for_the_group_and_for_its_topics(secured: Broker) -> None:
    allow(secured, Operation.READ, ResourceType.GROUP, "g")
    commit = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(name=name, partitions=[OffsetCommitRequestPartition(committed_offset=5)])
            for name in ("own", "other")
        ],
    )
    allow(secured, Operation.READ, ResourceType.TOPIC, "own")
    async with as_user(secured, "alice") as peer:
        done = await peer.ask(commit, 8, OffsetCommitResponse)
        assert {topic.name: topic.partitions[0].error_code for topic in done.topics} == {"own": 0, "other": TOPIC}
        wanted = OffsetFetchRequestGroup(
            group_id="g",
            topics=[OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in ("own", "other")],
        )
        (group,) = (await peer.ask(OffsetFetchRequest(groups=[wanted]), 8, OffsetFetchResponse)).groups
        found = {t.name: (t.partitions[0].committed_offset, t.partitions[0].error_code) for t in group.topics}
        assert found == {"own": (5, 0), "other": (-1, TOPIC)}
        deletion = OffsetDeleteRequest(
            group_id="g",
            topics=[OffsetDeleteRequestTopic(name="own", partitions=[OffsetDeleteRequestPartition()])],
        )
        deleted = await peer.ask(deletion, 0, OffsetDeleteResponse)
        assert deleted.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id="new", member_id="m", member_epoch=0, subscribed_topic_names=["other"], rebalance_timeout_ms=1_000
        )
        allow(secured, Operation.READ, ResourceType.GROUP, "new")
        assert codes(await peer.ask(heartbeat, 1, ConsumerGroupHeartbeatResponse)) == {TOPIC}


async def test_a_list_of_groups_has_those_that_the_client_may_describe(secured: Broker) -> None:
    async with as_user(secured, "root") as peer:
        for group in ("mine", "theirs"):
            partitions = [OffsetCommitRequestPartition()]
            topics = [OffsetCommitRequestTopic(name="own", partitions=partitions)]
            await peer.ask(OffsetCommitRequest(group_id=group, topics=topics), 8, OffsetCommitResponse)
    allow(secured, Operation.DESCRIBE, ResourceType.GROUP, "mine")
    async with as_user(secured, "alice") as peer:
        listed = await peer.ask(ListGroupsRequest(), 4, ListGroupsResponse)
        assert [group.group_id for group in listed.groups] == ["mine"]


async def test_acls_are_created_listed_and_deleted_over_the_wire(secured: Broker) -> None:
    creations = [
        AclCreation(resource_type=2, resource_name="own", principal=ALICE, host="*", operation=3, permission_type=3),
        AclCreation(resource_type=1, resource_name="own", principal=ALICE, host="*", operation=3, permission_type=3),
        AclCreation(resource_type=4, resource_name="c", principal=ALICE, host="*", operation=3, permission_type=3),
        AclCreation(resource_type=2, resource_name="", principal=ALICE, host="*", operation=3, permission_type=3),
        AclCreation(resource_type=2, resource_name="own", principal="alice", host="*", operation=3, permission_type=3),
        AclCreation(resource_type=2, resource_name="own", principal=ALICE, host="*", operation=99, permission_type=3),
    ]
    async with as_user(secured, "root") as peer:
        created = await peer.ask(CreateAclsRequest(creations=creations), 3, CreateAclsResponse)
        assert [result.error_code for result in created.results] == [0] + [ErrorCode.INVALID_REQUEST] * 5
        (resource,) = (await peer.ask(EVERYTHING, 3, DescribeAclsResponse)).resources
        assert (resource.resource_name, [acl.principal for acl in resource.acls]) == ("own", [ALICE])
        async with as_user(secured, "alice") as alice:
            request = MetadataRequest(topics=[MetadataRequestTopic(name="own")])
            assert codes(await alice.ask(request, 12, MetadataResponse)) == {0}
            wanted = DeleteAclsFilter(
                resource_type_filter=2,
                resource_name_filter=None,
                pattern_type_filter=1,
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
            deleted = await peer.ask(DeleteAclsRequest(filters=[wanted]), 3, DeleteAclsResponse)
            assert [len(result.matching_acls) for result in deleted.filter_results] == [1]
            assert codes(await alice.ask(request, 12, MetadataResponse)) - {0} == {TOPIC}
        assert (await peer.ask(EVERYTHING, 3, DescribeAclsResponse)).resources == []


async def test_without_an_authorizer_acls_are_disabled(broker: Broker) -> None:
    async with talking_to(broker) as peer:
        listed = await peer.ask(DescribeAclsRequest(), 3, DescribeAclsResponse)
        assert listed.error_code == ErrorCode.SECURITY_DISABLED
        created = await peer.ask(CreateAclsRequest(creations=[AclCreation()]), 3, CreateAclsResponse)
        assert codes(created) == {ErrorCode.SECURITY_DISABLED}
        deleted = await peer.ask(DeleteAclsRequest(filters=[DeleteAclsFilter()]), 3, DeleteAclsResponse)
        assert codes(deleted) == {ErrorCode.SECURITY_DISABLED}


async def test_acls_are_loaded_before_the_first_request(tmp_path: Path) -> None:
    options = BrokerOptions(settings=SETTINGS, data=tmp_path)
    async with Broker(options) as broker:
        broker.topics.create("own", 1)
        allow(broker, Operation.READ, ResourceType.TOPIC, "own")
    async with Broker(options) as broker, as_user(broker, "alice") as peer:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="own")])
        assert codes(await peer.ask(request, 12, MetadataResponse)) == {0}


def test_a_wrong_super_user_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match=r"super\.users takes TYPE:NAME, such as User:admin, not 'root'"):
        Broker(BrokerOptions(settings={**SETTINGS, "super.users": "User:a;root"}))


def subscribing(expression: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex=expression,
        topic_partitions=[],
    )


async def test_an_expression_matches_only_topics_that_the_member_may_describe(secured: Broker) -> None:
    allow(secured, Operation.READ, ResourceType.GROUP, "g")
    allow(secured, Operation.DESCRIBE, ResourceType.TOPIC, "own")
    ids = {topic.topic_id: name for name, topic in secured.topics.all().items()}
    async with as_user(secured, "alice") as peer:
        told = await peer.ask(subscribing(".*"), 1, ConsumerGroupHeartbeatResponse)
        assert told.assignment is not None
        assert [ids[one.topic_id] for one in told.assignment.topic_partitions] == ["own"]

        async def given(expected: set[str]) -> None:
            """Heartbeats, held until there is news, until the assignment is this."""
            nonlocal told
            owned = told.assignment.topic_partitions if told.assignment is not None else []
            while {ids[one.topic_id] for one in owned} != expected:
                beat = ConsumerGroupHeartbeatRequest(
                    group_id="g", member_id="m", member_epoch=told.member_epoch, topic_partitions=owned
                )
                told = await peer.ask(beat, 1, ConsumerGroupHeartbeatResponse)
                assert not told.error_code
                if told.assignment is not None:
                    owned = told.assignment.topic_partitions

        allow(secured, Operation.DESCRIBE, ResourceType.TOPIC, "other")
        await given({"own", "other"})
        assert secured.access_control is not None
        one = [acl for acl in secured.access_control.acls.all if acl.pattern.name == "own"]
        secured.access_control.remove(one)
        await given({"other"})
        secured.access_control.remove(list(secured.access_control.acls.all))
        beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=told.member_epoch)
        assert codes(await peer.ask(beat, 1, ConsumerGroupHeartbeatResponse)) == {GROUP}
