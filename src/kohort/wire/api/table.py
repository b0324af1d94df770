"""All requests that Kohort can encode and decode, by API key. Each broker selects those that it serves."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kohort.wire.codec import Message
from kohort.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kohort.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kohort.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from kohort.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kohort.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kohort.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from kohort.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kohort.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kohort.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from kohort.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kohort.wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kohort.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kohort.wire.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from kohort.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kohort.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kohort.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kohort.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from kohort.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kohort.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kohort.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kohort.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kohort.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kohort.wire.messages.fetch import FetchRequest, FetchResponse
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kohort.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kohort.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kohort.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from kohort.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kohort.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kohort.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from kohort.wire.messages.produce import ProduceRequest, ProduceResponse
from kohort.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kohort.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kohort.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kohort.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse


@dataclass(frozen=True, slots=True)
class Api:
    """A request type with its response type, and the versions that the codec supports."""

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
    _api(SaslHandshakeRequest, SaslHandshakeResponse),
    _api(ApiVersionsRequest, ApiVersionsResponse),
    _api(CreateTopicsRequest, CreateTopicsResponse),
    _api(DeleteTopicsRequest, DeleteTopicsResponse),
    _api(DeleteRecordsRequest, DeleteRecordsResponse),
    _api(InitProducerIdRequest, InitProducerIdResponse),
    _api(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    _api(AddPartitionsToTxnRequest, AddPartitionsToTxnResponse),
    _api(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
    _api(EndTxnRequest, EndTxnResponse),
    _api(WriteTxnMarkersRequest, WriteTxnMarkersResponse),
    _api(TxnOffsetCommitRequest, TxnOffsetCommitResponse),
    _api(DescribeAclsRequest, DescribeAclsResponse),
    _api(CreateAclsRequest, CreateAclsResponse),
    _api(DeleteAclsRequest, DeleteAclsResponse),
    _api(DescribeConfigsRequest, DescribeConfigsResponse),
    _api(AlterConfigsRequest, AlterConfigsResponse),
    _api(DescribeLogDirsRequest, DescribeLogDirsResponse),
    _api(SaslAuthenticateRequest, SaslAuthenticateResponse),
    _api(CreatePartitionsRequest, CreatePartitionsResponse),
    _api(DeleteGroupsRequest, DeleteGroupsResponse),
    _api(ElectLeadersRequest, ElectLeadersResponse),
    _api(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
    _api(AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse),
    _api(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse),
    _api(OffsetDeleteRequest, OffsetDeleteResponse),
    _api(DescribeClientQuotasRequest, DescribeClientQuotasResponse),
    _api(AlterClientQuotasRequest, AlterClientQuotasResponse),
    _api(DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse),
    _api(AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse),
    _api(UpdateFeaturesRequest, UpdateFeaturesResponse),
    _api(DescribeClusterRequest, DescribeClusterResponse),
    _api(DescribeProducersRequest, DescribeProducersResponse),
    _api(DescribeTransactionsRequest, DescribeTransactionsResponse),
    _api(ListTransactionsRequest, ListTransactionsResponse),
    _api(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
    _api(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
    _api(GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse),
    _api(PushTelemetryRequest, PushTelemetryResponse),
    _api(ListConfigResourcesRequest, ListConfigResourcesResponse),
    _api(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
)

APIS: Mapping[int, Api] = MappingProxyType({api.key: api for api in _ALL})
