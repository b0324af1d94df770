"""All requests that Kohort can read and write, by api key. What a broker serves of them, it chooses itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kohort.wire.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kohort.wire.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kohort.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kohort.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kohort.wire.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kohort.wire.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kohort.wire.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kohort.wire.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kohort.wire.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kohort.wire.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kohort.wire.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kohort.wire.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from kohort.wire.describe_topic_partitions import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kohort.wire.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kohort.wire.fetch import FetchRequest, FetchResponse
from kohort.wire.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from kohort.wire.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kohort.wire.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from kohort.wire.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kohort.wire.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kohort.wire.metadata import MetadataRequest, MetadataResponse
from kohort.wire.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kohort.wire.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kohort.wire.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kohort.wire.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from kohort.wire.produce import ProduceRequest, ProduceResponse
from kohort.wire.schema import Message
from kohort.wire.sync_group import SyncGroupRequest, SyncGroupResponse


@dataclass(frozen=True, slots=True)
class Api:
    """One kind of request, with its answer and the versions that the codec knows."""

    key: int
    name: str
    request: type[Message]
    response: type[Message]
    min_version: int
    max_version: int
    first_flexible: int


def _api(request: type[Message], response: type[Message]) -> Api:
    assert request.KEY == response.KEY >= 0
    assert request.VERSIONS == response.VERSIONS
    assert request.FLEXIBLE == response.FLEXIBLE
    low, high = request.VERSIONS
    return Api(request.KEY, request.__name__.removesuffix("Request"), request, response, low, high, request.FLEXIBLE)


_ALL = (
    _api(ProduceRequest, ProduceResponse),
    _api(FetchRequest, FetchResponse),
    _api(ListOffsetsRequest, ListOffsetsResponse),
    _api(MetadataRequest, MetadataResponse),
    _api(OffsetCommitRequest, OffsetCommitResponse),
    _api(OffsetFetchRequest, OffsetFetchResponse),
    _api(FindCoordinatorRequest, FindCoordinatorResponse),
    _api(JoinGroupRequest, JoinGroupResponse),
    _api(HeartbeatRequest, HeartbeatResponse),
    _api(LeaveGroupRequest, LeaveGroupResponse),
    _api(SyncGroupRequest, SyncGroupResponse),
    _api(DescribeGroupsRequest, DescribeGroupsResponse),
    _api(ListGroupsRequest, ListGroupsResponse),
    _api(ApiVersionsRequest, ApiVersionsResponse),
    _api(CreateTopicsRequest, CreateTopicsResponse),
    _api(DeleteTopicsRequest, DeleteTopicsResponse),
    _api(DeleteRecordsRequest, DeleteRecordsResponse),
    _api(InitProducerIdRequest, InitProducerIdResponse),
    _api(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    _api(DescribeConfigsRequest, DescribeConfigsResponse),
    _api(AlterConfigsRequest, AlterConfigsResponse),
    _api(DescribeLogDirsRequest, DescribeLogDirsResponse),
    _api(CreatePartitionsRequest, CreatePartitionsResponse),
    _api(DeleteGroupsRequest, DeleteGroupsResponse),
    _api(ElectLeadersRequest, ElectLeadersResponse),
    _api(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
    _api(AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse),
    _api(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse),
    _api(OffsetDeleteRequest, OffsetDeleteResponse),
    _api(DescribeClusterRequest, DescribeClusterResponse),
    _api(DescribeProducersRequest, DescribeProducersResponse),
    _api(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
    _api(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
    _api(ListConfigResourcesRequest, ListConfigResourcesResponse),
    _api(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
)

APIS: Mapping[int, Api] = MappingProxyType({api.key: api for api in _ALL})
