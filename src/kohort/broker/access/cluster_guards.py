"""Guards of requests about the cluster, its configs, its ACLs and its users."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from kohort.broker.access.request_access import Guard, RequestAccess
from kohort.errors import ErrorCode
from kohort.security import Operation
from kohort.wire.codec import Message
from kohort.wire.messages import alter_configs as replacing
from kohort.wire.messages import incremental_alter_configs as incremental
from kohort.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryDataResult,
)
from kohort.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kohort.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kohort.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kohort.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from kohort.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kohort.wire.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from kohort.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kohort.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kohort.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kohort.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kohort.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kohort.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from kohort.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kohort.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_TOPIC, _GROUP = 2, 32
"""Types of resources with configs; configs of any other type belong to the cluster."""

_M = TypeVar("_M", bound=Message)
_R = TypeVar("_R")


def cluster(operation: Operation, refused: Callable[[Any], Message]) -> Guard:
    """Return a guard of requests that need one operation on the cluster."""

    def guard(access: RequestAccess, request: _M) -> _M | None:
        if access.cluster(operation):
            return request
        access.refuse(refused(request))
        return None

    return guard


def describe_cluster(access: RequestAccess, request: DescribeClusterRequest) -> DescribeClusterRequest:
    """Describe the cluster to any client, with the operations that it may perform."""
    if request.include_cluster_authorized_operations:

        def tell(response: DescribeClusterResponse) -> None:
            if response.error_code == ErrorCode.NONE:
                response.cluster_authorized_operations = access.cluster_bits()

        access.amend(tell)
    return request


def describe_configs(access: RequestAccess, request: DescribeConfigsRequest) -> DescribeConfigsRequest | None:
    """Describe the configs that the client may describe."""

    return access.keep_allowed(
        request,
        "resources",
        lambda resource: _may_config(access, Operation.DESCRIBE_CONFIGS, resource),
        partial(_refused_config, DescribeConfigsResult),
        DescribeConfigsResponse(),
        "results",
    )


def alter_configs(access: RequestAccess, request: replacing.AlterConfigsRequest) -> Message | None:
    """Replace the configs that the client may alter."""

    return access.keep_allowed(
        request,
        "resources",
        lambda resource: _may_config(access, Operation.ALTER_CONFIGS, resource),
        partial(_refused_config, replacing.AlterConfigsResourceResponse),
        replacing.AlterConfigsResponse(),
        "responses",
        refused_first=True,
    )


def incremental_alter_configs(
    access: RequestAccess, request: incremental.IncrementalAlterConfigsRequest
) -> Message | None:
    """Change the configs that the client may alter."""

    return access.keep_allowed(
        request,
        "resources",
        lambda resource: _may_config(access, Operation.ALTER_CONFIGS, resource),
        partial(_refused_config, incremental.AlterConfigsResourceResponse),
        incremental.IncrementalAlterConfigsResponse(),
        "responses",
    )


def elect_leaders(access: RequestAccess, request: ElectLeadersRequest) -> ElectLeadersRequest | None:
    """Elect leaders if the client may alter the cluster; otherwise return the error for each partition, too."""
    if access.cluster(Operation.ALTER):
        return request
    response = ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=_DENIED, error_message=_DENIED.sentence)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )
    if access.call.version >= 1:
        response.error_code = _DENIED
    access.refuse(response)
    return None


def _may_config(access: RequestAccess, operation: Operation, resource: Any) -> bool:
    if resource.resource_type == _TOPIC:
        return access.topic(operation, resource.resource_name)
    if resource.resource_type == _GROUP:
        return access.group(operation, resource.resource_name)
    return access.cluster(operation)


def _refused_config(result: Callable[..., _R], resource: Any) -> _R:
    code = _config_code(resource.resource_type)
    return result(
        error_code=code,
        error_message=code.sentence,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _config_code(resource_type: int) -> ErrorCode:
    if resource_type == _TOPIC:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.GROUP_AUTHORIZATION_FAILED if resource_type == _GROUP else _DENIED


# Responses of requests that are refused as a whole


def log_dirs(request: DescribeLogDirsRequest) -> Message:
    """Return the response without any directory."""
    return DescribeLogDirsResponse(error_code=_DENIED)


def altered_reassignments(request: AlterPartitionReassignmentsRequest) -> Message:
    """Return the error for the request and for each partition that it names."""
    return AlterPartitionReassignmentsResponse(
        error_code=_DENIED,
        error_message=_DENIED.sentence,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index, error_code=_DENIED, error_message=_DENIED.sentence
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def listed_reassignments(request: ListPartitionReassignmentsRequest) -> Message:
    """Return the error for the request."""
    return ListPartitionReassignmentsResponse(error_code=_DENIED, error_message=_DENIED.sentence)


def config_resources(request: ListConfigResourcesRequest) -> Message:
    """Return the error for the request."""
    return ListConfigResourcesResponse(error_code=_DENIED)


def described_acls(request: DescribeAclsRequest) -> Message:
    """Return the error for the request."""
    return DescribeAclsResponse(error_code=_DENIED, error_message=_DENIED.sentence)


def created_acls(request: CreateAclsRequest) -> Message:
    """Return the error for each ACL."""
    result = AclCreationResult(error_code=_DENIED, error_message=_DENIED.sentence)
    return CreateAclsResponse(results=[result] * len(request.creations))


def deleted_acls(request: DeleteAclsRequest) -> Message:
    """Return the error for each filter."""
    result = DeleteAclsFilterResult(error_code=_DENIED, error_message=_DENIED.sentence)
    return DeleteAclsResponse(filter_results=[result] * len(request.filters))


def described_quotas(request: DescribeClientQuotasRequest) -> Message:
    """Return the error for the request."""
    return DescribeClientQuotasResponse(error_code=_DENIED, error_message=_DENIED.sentence, entries=None)


def altered_quotas(request: AlterClientQuotasRequest) -> Message:
    """Return the error for each entity."""
    return AlterClientQuotasResponse(
        entries=[
            EntryDataResult(error_code=_DENIED, error_message=_DENIED.sentence, entity=entry.entity)
            for entry in request.entries
        ]
    )


def updated_features(request: UpdateFeaturesRequest) -> Message:
    """Return the error for the request."""
    return UpdateFeaturesResponse(error_code=_DENIED, error_message=_DENIED.sentence)


def described_credentials(request: DescribeUserScramCredentialsRequest) -> Message:
    """Return the error for the request, and for each user without the name (Kafka does the same)."""
    results = [DescribeUserScramCredentialsResult(error_code=_DENIED) for _ in request.users or ()]
    return DescribeUserScramCredentialsResponse(error_code=_DENIED, error_message=_DENIED.sentence, results=results)


def altered_credentials(request: AlterUserScramCredentialsRequest) -> Message:
    """Return the error for each user."""
    users = dict.fromkeys([deletion.name for deletion in request.deletions])
    users |= dict.fromkeys([upsertion.name for upsertion in request.upsertions])
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=_DENIED, error_message=_DENIED.sentence)
            for user in users
        ]
    )
