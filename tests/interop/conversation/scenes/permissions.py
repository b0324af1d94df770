"""What a principal without permission hears, request by request, and what each permission changes.

The listener wants SASL/PLAIN. Scenes are set up by the super user; each has a principal of its own.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from kohort.broker.apis import SERVED
from kohort.model import UUID
from kohort.security import CLUSTER_NAME, AclFilter, Operation, PatternType, Permission, ResourceType
from kohort.wire.batches import Record, encode_batch
from kohort.wire.codec import Message
from kohort.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kohort.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from kohort.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kohort.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialDeletion
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kohort.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.describe_acls import DescribeAclsRequest
from kohort.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kohort.wire.messages.describe_cluster import DescribeClusterRequest
from kohort.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kohort.wire.messages.describe_producers import DescribeProducersRequest
from kohort.wire.messages.describe_producers import TopicRequest as ProducersOfTopic
from kohort.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kohort.wire.messages.describe_topic_partitions import TopicRequest as DescribedTopic
from kohort.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kohort.wire.messages.elect_leaders import ElectLeadersRequest
from kohort.wire.messages.elect_leaders import TopicPartitions as ElectedPartitions
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from kohort.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kohort.wire.messages.init_producer_id import InitProducerIdRequest
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.list_config_resources import ListConfigResourcesRequest
from kohort.wire.messages.list_groups import ListGroupsRequest
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kohort.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.wire.messages.sync_group import SyncGroupRequest
from kohort.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.interop.conversation.consumer_members import ConsumerMember, described, settle, topic
from tests.interop.conversation.stage import Client, Stage, scene

permissions = functools.partial(scene, part="permissions")

RECORDS = bytes(encode_batch([Record(0, 1_700_000_000_000, None, b"a", ())]))
_VERSIONS = {key: (low, high) for key, low, high in SERVED}


@dataclass(frozen=True)
class Things:
    """What the requests are about."""

    topics: list[tuple[str, UUID]]
    group: str
    transactional_id: str


Ask = Callable[[Things, int], Message]

# Names begin like the kinds of resources. Where a version cannot say it, the request takes its place without it.
TOPIC_REQUESTS: dict[str, Ask] = {
    "produce": lambda t, v: ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name=n, topic_id=i, partition_data=[PartitionProduceData(records=RECORDS)])
            for n, i in t.topics
        ],
    ),
    "fetch": lambda t, v: FetchRequest(
        topics=[
            FetchTopic(topic=n, topic_id=i, partitions=[FetchPartition(partition_max_bytes=1)]) for n, i in t.topics
        ],
    ),
    "list offsets": lambda t, v: ListOffsetsRequest(
        topics=[ListOffsetsTopic(name=n, partitions=[ListOffsetsPartition(timestamp=-1)]) for n, _ in t.topics]
    ),
    "epochs": lambda t, v: OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=n, partitions=[OffsetForLeaderPartition()]) for n, _ in t.topics]
    ),
    "metadata": lambda t, v: MetadataRequest(
        topics=[MetadataRequestTopic(name=n) for n, _ in t.topics],
        allow_auto_topic_creation=v < 4,
        include_cluster_authorized_operations=8 <= v <= 10,
        include_topic_authorized_operations=v >= 8,
    ),
    "metadata of all": lambda t, v: MetadataRequest(
        topics=None if v else [],
        include_cluster_authorized_operations=8 <= v <= 10,
        include_topic_authorized_operations=v >= 8,
    ),
    "partitions": lambda t, v: DescribeTopicPartitionsRequest(topics=[DescribedTopic(name=n) for n, _ in t.topics]),
    "topic configs": lambda t, v: DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=2, resource_name=n, configuration_keys=["retention.ms"])
            for n, _ in t.topics
        ]
    ),
    "alter topic configs": lambda t, v: AlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=2, resource_name=n) for n, _ in t.topics], validate_only=True
    ),
    "change topic configs": lambda t, v: IncrementalAlterConfigsRequest(
        resources=[IncrementalResource(resource_type=2, resource_name=n) for n, _ in t.topics], validate_only=True
    ),
    "create topics": lambda t, v: CreateTopicsRequest(
        topics=[CreatableTopic(name=f"{n}-new", num_partitions=1, replication_factor=1) for n, _ in t.topics],
        validate_only=True,
    ),
    "create partitions": lambda t, v: CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=n, count=2) for n, _ in t.topics], timeout_ms=10_000, validate_only=True
    ),
    "delete records": lambda t, v: DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=n, partitions=[DeleteRecordsPartition()]) for n, _ in t.topics],
        timeout_ms=10_000,
    ),
    "producers": lambda t, v: DescribeProducersRequest(
        topics=[ProducersOfTopic(name=n, partition_indexes=[0]) for n, _ in t.topics]
    ),
    "producer id": lambda t, v: InitProducerIdRequest(transaction_timeout_ms=1000),
}
BY_ID: dict[str, Ask] = {
    "metadata by id": lambda t, v: MetadataRequest(
        topics=[MetadataRequestTopic(name=None, topic_id=i) for _, i in t.topics],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    ),
}
DELETIONS: dict[str, Ask] = {
    "delete topics": lambda t, v: (
        DeleteTopicsRequest(topics=[DeleteTopicState(name=n) for n, _ in t.topics], timeout_ms=10_000)
        if v >= 6
        else DeleteTopicsRequest(topic_names=[n for n, _ in t.topics], timeout_ms=10_000)
    ),
}
DELETIONS_BY_ID: dict[str, Ask] = {
    "delete topics by id": lambda t, v: DeleteTopicsRequest(
        topics=[DeleteTopicState(topic_id=i) for _, i in t.topics], timeout_ms=10_000
    ),
}
GROUP_REQUESTS: dict[str, Ask] = {
    "join": lambda t, v: JoinGroupRequest(group_id=t.group, session_timeout_ms=10_000),
    "sync": lambda t, v: SyncGroupRequest(group_id=t.group, member_id="m"),
    "heartbeat": lambda t, v: HeartbeatRequest(group_id=t.group, member_id="m"),
    "leave": lambda t, v: (
        LeaveGroupRequest(group_id=t.group, members=[MemberIdentity(member_id="m")])
        if v >= 3
        else LeaveGroupRequest(group_id=t.group, member_id="m")
    ),
    "consumer heartbeat": lambda t, v: ConsumerGroupHeartbeatRequest(group_id=t.group, member_id="m", member_epoch=7),
    "commit": lambda t, v: OffsetCommitRequest(
        group_id=t.group,
        topics=[
            OffsetCommitRequestTopic(name=n, topic_id=i, partitions=[OffsetCommitRequestPartition(committed_offset=1)])
            for n, i in t.topics
        ],
    ),
    "offsets": lambda t, v: (
        OffsetFetchRequest(groups=[_offsets_of(t)])
        if v >= 8
        else OffsetFetchRequest(
            group_id=t.group, topics=[OffsetFetchRequestTopic(name=n, partition_indexes=[0]) for n, _ in t.topics]
        )
    ),
    "find": lambda t, v: (
        FindCoordinatorRequest(coordinator_keys=[t.group]) if v >= 4 else FindCoordinatorRequest(key=t.group)
    ),
    "describe": lambda t, v: DescribeGroupsRequest(groups=[t.group], include_authorized_operations=v >= 3),
    "describe consumer group": lambda t, v: ConsumerGroupDescribeRequest(
        group_ids=[t.group], include_authorized_operations=True
    ),
    "list groups": lambda t, v: ListGroupsRequest(),
    "group configs": lambda t, v: DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=32, resource_name=t.group, configuration_keys=["consumer.session.timeout.ms"]
            )
        ]
    ),
    "change group configs": lambda t, v: IncrementalAlterConfigsRequest(
        resources=[IncrementalResource(resource_type=32, resource_name=t.group)], validate_only=True
    ),
    "delete group": lambda t, v: DeleteGroupsRequest(groups_names=[t.group]),
}
DELETED_OFFSETS: dict[str, Ask] = {
    "delete offsets": lambda t, v: OffsetDeleteRequest(
        group_id=t.group,
        topics=[OffsetDeleteRequestTopic(name=n, partitions=[OffsetDeleteRequestPartition()]) for n, _ in t.topics],
    ),
}
ALL_OFFSETS: dict[str, Ask] = {
    "all offsets": lambda t, v: (
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=t.group, topics=None)])
        if v >= 8
        else OffsetFetchRequest(group_id=t.group, topics=None)
    ),
}
OTHER_REQUESTS: dict[str, Ask] = {
    "id for transactions": lambda t, v: InitProducerIdRequest(
        transactional_id=t.transactional_id, transaction_timeout_ms=1000
    ),
    "cluster": lambda t, v: DescribeClusterRequest(include_cluster_authorized_operations=True),
    "broker configs": lambda t, v: DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=["log.retention.ms"])]
    ),
    "change broker configs": lambda t, v: IncrementalAlterConfigsRequest(
        resources=[IncrementalResource(resource_type=4, resource_name="1")], validate_only=True
    ),
    "log dirs": lambda t, v: DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="none")]),
    "elect": lambda t, v: ElectLeadersRequest(
        topic_partitions=[ElectedPartitions(topic=n, partitions=[0]) for n, _ in t.topics], timeout_ms=10_000
    ),
    "reassign": lambda t, v: AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(name=n, partitions=[ReassignablePartition(partition_index=0, replicas=None)])
            for n, _ in t.topics
        ],
        timeout_ms=10_000,
    ),
    "reassignments": lambda t, v: ListPartitionReassignmentsRequest(timeout_ms=10_000),
    "config resources": lambda t, v: ListConfigResourcesRequest(resource_types=[32] if v else []),
    "acls": lambda t, v: DescribeAclsRequest(
        resource_type_filter=2, pattern_type_filter=1, operation=1, permission_type=1
    ),
    "create acls": lambda t, v: CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=2, resource_name=t.group, principal="User:x", host="*", operation=3, permission_type=3
            )
        ]
        * 2
    ),
    "delete acls": lambda t, v: DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(resource_type_filter=2, pattern_type_filter=3, operation=3, permission_type=3),
        ]
    ),
    "credentials": lambda t, v: DescribeUserScramCredentialsRequest(users=[UserName(name="nobody")]),
    "quotas": lambda t, v: DescribeClientQuotasRequest(
        components=[ComponentData(entity_type="user", match_type=0, match="nobody")]
    ),
    "change quotas": lambda t, v: AlterClientQuotasRequest(
        entries=[
            EntryData(
                entity=[EntityData(entity_type="user", entity_name=name)],
                ops=[OpData(key="producer_byte_rate", value=1000.0)],
            )
            for name in ("nobody", "x")
        ],
        validate_only=True,
    ),
    "features": lambda t, v: UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature="transaction.version", max_version_level=2)], timeout_ms=10_000
    ),
    "change credentials": lambda t, v: AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="nobody", mechanism=1), ScramCredentialDeletion(name="x", mechanism=2)]
    ),
}


ELECTIONS: dict[str, Ask] = {
    "elect all": lambda t, v: ElectLeadersRequest(topic_partitions=None, timeout_ms=10_000),
}


def _offsets_of(t: Things) -> OffsetFetchRequestGroup:
    return OffsetFetchRequestGroup(
        group_id=t.group,
        topics=[OffsetFetchRequestTopics(name=n, topic_id=i, partition_indexes=[0]) for n, i in t.topics],
    )


def asked(
    asks: dict[str, Ask], t: Things, which: Callable[[int, int], Iterable[int]]
) -> Iterator[tuple[str, Message, int]]:
    """Each request in some of its versions, named with the version."""
    for name, ask in asks.items():
        low, high = _VERSIONS[ask(t, 13).KEY]
        for version in which(low, high):
            yield f"{name} v{version}", ask(t, version), version


def every(low: int, high: int) -> Iterable[int]:
    return range(low, high + 1)


def newest(low: int, high: int) -> Iterable[int]:
    return (high,)


def from_2(low: int, high: int) -> Iterable[int]:
    return range(max(low, 2), high + 1)


def by_id(low: int, high: int) -> Iterable[int]:
    return range(max(low, min(high, 12)), high + 1)


async def ask_all(client: Client, requests: Iterable[tuple[str, Message, int]], prefix: str = "") -> None:
    for name, request, version in requests:
        await client.ask(f"{prefix}{name}", request, version)


async def grant(s: Stage, user: str, *rules: tuple[ResourceType, str, Operation]) -> None:
    """Give the user these permissions and no others; names are prefixes, but for the cluster's. No exchange."""
    wanted = AclFilter(principal=f"User:{user}")
    gone = DeleteAclsFilter(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=None,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=None,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    await s.admin.quietly(DeleteAclsRequest(filters=[gone]), 3)
    creations = [
        AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=PatternType.LITERAL if kind is ResourceType.CLUSTER else PatternType.PREFIXED,
            principal=f"User:{user}",
            host="*",
            operation=operation,
            permission_type=Permission.ALLOW,
        )
        for kind, name, operation in rules
    ]
    await s.admin.quietly(CreateAclsRequest(creations=creations), 3)
    listing = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=f"User:{user}",
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    expected = {(kind, operation) for kind, _, operation in rules}
    for _ in range(500):
        answer = await s.admin.quietly(listing, 3)
        if {(r.resource_type, a.operation) for r in answer.resources for a in r.acls} == expected:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{user} does not get {rules}")


async def things(s: Stage, *suffixes: str) -> Things:
    names = [await s.topic(suffix) for suffix in suffixes]
    return Things([(name, s.ids[name]) for name in names], s.group, f"{s.scene}-transactions")


@permissions
async def nothing_is_allowed(s: Stage) -> None:
    """Every request, in every version, by somebody without any permission."""
    alice = s.client("alice", user="alice")
    own = await things(s, "own")
    none = Things([(f"{s.scene}-none", UUID(int=7))], own.group, own.transactional_id)
    for about, prefix in ((own, ""), (none, "no such topic: ")):
        await ask_all(alice, asked(TOPIC_REQUESTS, about, every), prefix)
        await ask_all(alice, asked(BY_ID, about, by_id), prefix)
        await ask_all(alice, asked(DELETIONS, about, every), prefix)
        await ask_all(alice, asked(DELETIONS_BY_ID, about, by_id), prefix)
    await ask_all(alice, asked(GROUP_REQUESTS | DELETED_OFFSETS, own, every))
    await ask_all(alice, asked(ALL_OFFSETS, own, from_2))
    await ask_all(alice, asked(OTHER_REQUESTS | ELECTIONS, own, every))
    await alice.ask("all credentials", DescribeUserScramCredentialsRequest(users=None), 0)
    find = FindCoordinatorRequest(coordinator_keys=[own.transactional_id], key_type=1)
    await alice.ask("find transactions", find, 4)
    unacknowledged = ProduceRequest(
        acks=0,
        topic_data=[TopicProduceData(name=own.topics[0][0], partition_data=[PartitionProduceData(records=RECORDS)])],
    )
    await alice.ask("produce without acknowledgement", unacknowledged, 9)


@permissions
async def one_operation_on_topics(s: Stage) -> None:
    """Each operation on the scene's topics, alone."""
    user = "bob"
    bob = s.client(user, user=user)
    own = await things(s, "own")
    none = Things([(f"{s.scene}-none", UUID(int=7))], own.group, own.transactional_id)
    for operation in OPERATIONS_OF_TOPICS:
        doomed = await things(s, f"doomed-{operation.name.lower()}")
        await grant(s, user, (ResourceType.TOPIC, s.scene, operation))
        for about, prefix in ((own, f"{operation.name}: "), (none, f"{operation.name}, no such topic: ")):
            await ask_all(bob, asked(TOPIC_REQUESTS, about, newest), prefix)
            await ask_all(bob, asked(BY_ID, about, by_id), prefix)
        await ask_all(bob, asked(DELETIONS, doomed, newest), f"{operation.name}: ")


OPERATIONS_OF_TOPICS = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.ALL,
)


@permissions
async def one_operation_on_groups(s: Stage) -> None:
    """Each operation on the scene's groups, alone, and with permission to read its topics."""
    user = "carol"
    carol = s.client(user, user=user)
    own = await things(s, "own")
    commit = GROUP_REQUESTS["commit"](own, 8)
    for operation in (
        Operation.READ,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.ALL,
    ):
        for topics in ((), (Operation.DESCRIBE,), (Operation.READ,)):
            await s.admin.quietly(commit, 8)
            allowed = [(ResourceType.TOPIC, s.scene, one) for one in topics]
            await grant(s, user, (ResourceType.GROUP, s.scene, operation), *allowed)
            prefix = f"{operation.name}, topics {[one.name for one in topics]}: "
            await ask_all(carol, asked(GROUP_REQUESTS, own, newest), prefix)
            await s.admin.quietly(commit, 8)
            await ask_all(carol, asked(ALL_OFFSETS | DELETED_OFFSETS, own, newest), prefix)


@permissions
async def one_operation_on_the_cluster(s: Stage) -> None:
    """Each operation on the cluster, alone."""
    user = "dave"
    dave = s.client(user, user=user)
    own = await things(s, "own")
    await s.admin.quietly(GROUP_REQUESTS["commit"](own, 8), 8)
    for operation in (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
        Operation.ALL,
    ):
        await grant(s, user, (ResourceType.CLUSTER, CLUSTER_NAME, operation))
        prefix = f"{operation.name}: "
        await ask_all(dave, asked(TOPIC_REQUESTS, own, newest), prefix)
        await ask_all(dave, asked(OTHER_REQUESTS, own, newest), prefix)
        lists = {"list groups": GROUP_REQUESTS["list groups"]}
        await ask_all(dave, asked(lists, own, newest), prefix)


@permissions
async def some_topics_are_allowed(s: Stage) -> None:
    """Requests about two topics of which one is allowed."""
    user = "erin"
    erin = s.client(user, user=user)
    both = await things(s, "denied", "own")
    group = [(ResourceType.GROUP, s.scene, one) for one in (Operation.READ, Operation.DELETE)]
    await grant(s, user, (ResourceType.TOPIC, f"{s.scene}-own", Operation.ALL), *group)
    for asks in (TOPIC_REQUESTS, BY_ID, GROUP_REQUESTS):
        await ask_all(erin, asked(asks, both, newest))
    await s.admin.quietly(GROUP_REQUESTS["commit"](both, 8), 8)
    await ask_all(erin, asked(ALL_OFFSETS | DELETED_OFFSETS, both, newest))
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id=f"{s.scene}-2",
        member_id="x" * 22,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[name for name, _ in both.topics],
        topic_partitions=[],
    )
    await erin.ask("subscribe to both", heartbeat, 1)
    heartbeat.subscribed_topic_names = [both.topics[1][0]]
    await erin.ask("subscribe to one", heartbeat, 1)
    describe = ConsumerGroupDescribeRequest(group_ids=[heartbeat.group_id], include_authorized_operations=True)
    await erin.ask("describe the group", describe, 1)
    await grant(s, user, (ResourceType.GROUP, s.scene, Operation.READ))
    await erin.ask("describe the group of a topic that is denied", describe, 1)
    heartbeat.member_epoch = 1
    heartbeat.subscribed_topic_names = None
    heartbeat.topic_partitions = None
    await erin.ask("heartbeat of a member of a topic that is denied", heartbeat, 1)
    await ask_all(erin, asked(DELETIONS, both, newest), "all denied: ")


@permissions
async def expressions_of_somebody_who_may_describe_some_topics(s: Stage) -> None:
    """A regular expression matches only topics that its member may describe."""
    user = "frank"
    for suffix, partitions in (("own", 2), ("denied", 4)):
        await topic(s, suffix, partitions)
    await grant(
        s,
        user,
        (ResourceType.GROUP, s.scene, Operation.READ),
        (ResourceType.TOPIC, f"{s.scene}-own", Operation.DESCRIBE),
    )
    member = ConsumerMember(s, "member", user=user)
    await member.joins("joins", subscribed_topic_names=None, subscribed_topic_regex=f"{s.scene}-.*")
    await until_it_has(member, 2)
    await settle(member)
    await described(s, "the allowed topic is assigned")
    # Of these, Kafka's coordinator learns in its own time; it has learned of both when it knows the second.
    await s.topic("denied-2", 1)
    await s.topic("own-2", 1)
    await until_it_has(member, 3)
    await settle(member)
    await described(s, "a new topic that is allowed is assigned")


async def until_it_has(member: ConsumerMember, partitions: int) -> None:
    """Heartbeats, outside the transcript, until the member has so many partitions."""
    for _ in range(1_000):
        if sum(len(one.partitions) for one in member.given) == partitions:
            return
        await member.quietly_beats()
        await asyncio.sleep(0.02)
    raise AssertionError(f"the member does not get {partitions} partitions")
