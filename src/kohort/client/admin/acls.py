"""ACLs: create, describe and delete (KIP-140, KIP-290)."""

from collections.abc import Iterable

from kohort.client.failures import AclsFailedError
from kohort.client.net import Cluster
from kohort.errors import ErrorCode, KafkaError
from kohort.requests import check, error_of
from kohort.security import Acl, AclFilter, Operation, PatternType, Permission, ResourcePattern, ResourceType
from kohort.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kohort.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kohort.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

_Failed = dict[Acl | AclFilter, KafkaError | None]


async def create_acls(cluster: Cluster, acls: Iterable[Acl]) -> None:
    """Create ACLs. Raises AclsFailedError with the error of each that the broker rejects."""
    wanted = list(dict.fromkeys(acls))
    if not wanted:
        return
    request = CreateAclsRequest(creations=[_creation(acl) for acl in wanted])
    response = await cluster.retrying(lambda: cluster.ask_any(request, CreateAclsResponse))
    failed: _Failed = {}
    for acl, result in zip(wanted, response.results, strict=True):
        failed[acl] = error_of(result.error_code, "", result.error_message)
    _raise_if_any(failed)


async def describe_acls(cluster: Cluster, acl_filter: AclFilter) -> list[Acl]:
    """Return the ACLs that the filter finds, sorted."""
    request = DescribeAclsRequest(
        resource_type_filter=acl_filter.resource_type,
        resource_name_filter=acl_filter.name,
        pattern_type_filter=acl_filter.pattern_type,
        principal_filter=acl_filter.principal,
        host_filter=acl_filter.host,
        operation=acl_filter.operation,
        permission_type=acl_filter.permission,
    )
    response = await cluster.retrying(lambda: cluster.ask_any(request, DescribeAclsResponse))
    check(response.error_code, "", response.error_message)
    return sorted(
        _acl(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for resource in response.resources
        for acl in resource.acls
    )


async def delete_acls(cluster: Cluster, filters: Iterable[AclFilter]) -> dict[AclFilter, list[Acl]]:
    """Delete the ACLs that the filters find, and return them by filter.

    Raises AclsFailedError with the error of each filter that fails, and of each ACL that is found and not deleted.
    """
    wanted = list(dict.fromkeys(filters))
    if not wanted:
        return {}
    request = DeleteAclsRequest(filters=[_filter(acl_filter) for acl_filter in wanted])
    response = await cluster.retrying(lambda: cluster.ask_any(request, DeleteAclsResponse))
    failed: _Failed = {}
    deleted: dict[AclFilter, list[Acl]] = {}
    for acl_filter, result in zip(wanted, response.filter_results, strict=True):
        failed[acl_filter] = error_of(result.error_code, "", result.error_message)
        deleted[acl_filter] = []
        for found in result.matching_acls:
            acl, error = _matched(found), error_of(found.error_code, "", found.error_message)
            failed[acl] = error
            if error is None:
                deleted[acl_filter].append(acl)
        deleted[acl_filter].sort()
    _raise_if_any(failed)
    return deleted


def _raise_if_any(failed: _Failed) -> None:
    errors = {failing: error for failing, error in failed.items() if error is not None}
    if errors:
        raise AclsFailedError(errors)


def _creation(acl: Acl) -> AclCreation:
    return AclCreation(
        resource_type=acl.pattern.resource_type,
        resource_name=acl.pattern.name,
        resource_pattern_type=acl.pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _filter(wanted: AclFilter) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def _matched(acl: DeleteAclsMatchingAcl) -> Acl:
    return _acl(
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )


def _acl(kind: int, name: str, pattern: int, principal: str, host: str, operation: int, permission: int) -> Acl:
    try:
        resources = ResourcePattern(ResourceType(kind), name, PatternType(pattern))
        return Acl(resources, principal, host, Operation(operation), Permission(permission))
    except ValueError as error:
        # To omit an ACL from a list would hide what it allows.
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"{principal}: this version does not know a part of the ACL: {error}"
        ) from None
