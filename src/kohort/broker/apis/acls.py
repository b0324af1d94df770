"""DescribeAcls, CreateAcls and DeleteAcls (KIP-140, KIP-290)."""

from typing import Any, Protocol

from kohort.broker.access import AccessControl
from kohort.broker.logs import DiskErrors, Leadership
from kohort.broker.net import Call
from kohort.errors import ErrorCode, KafkaError
from kohort.security import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from kohort.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kohort.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kohort.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    access_control: AccessControl | None
    disk_errors: DiskErrors
    leadership: Leadership


_DISABLED = ErrorCode.SECURITY_DISABLED
_NO_AUTHORIZER = "No Authorizer is configured."  # the words of Kafka's brokers
_UNKNOWN = 0
"""Number of UNKNOWN in the protocol, which no client sends on purpose."""


def describe(broker: Dependencies, call: Call, request: DescribeAclsRequest) -> None:
    """Return the ACLs that the filter finds."""
    control = broker.access_control
    if control is None:
        call.reply(DescribeAclsResponse(error_code=_DISABLED, error_message=_NO_AUTHORIZER))
        return
    numbers = (
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )
    try:
        wanted = _filter(request)
    except KafkaError as error:
        if _UNKNOWN in numbers:
            call.reply(DescribeAclsResponse(error_code=error.code, error_message=error.sentence))
        else:
            call.reply(DescribeAclsResponse())  # no ACL has what only a newer client knows (Kafka does the same)
        return
    resources: dict[ResourcePattern, DescribeAclsResource] = {}
    for acl in control.acls.found(wanted):
        pattern = acl.pattern
        if pattern not in resources:
            resources[pattern] = DescribeAclsResource(
                resource_type=pattern.resource_type, resource_name=pattern.name, pattern_type=pattern.pattern_type
            )
        resources[pattern].acls.append(
            AclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
            )
        )
    call.reply(DescribeAclsResponse(resources=list(resources.values())))


def create(broker: Dependencies, call: Call, request: CreateAclsRequest) -> None:
    """Add the ACLs that are valid; one that exists already is added without effect."""
    control = broker.access_control
    if control is None:
        refused = AclCreationResult(error_code=_DISABLED, error_message=_NO_AUTHORIZER)
        call.reply(CreateAclsResponse(results=[refused] * len(request.creations)))
        return
    results, added = [], []
    for creation in request.creations:
        try:
            added.append(_new_acl(creation))
        except KafkaError as error:
            results.append(AclCreationResult(error_code=error.code, error_message=error.sentence))
        else:
            results.append(AclCreationResult())
    try:
        broker.leadership.catch_up()
        control.add(added)
    except OSError as error:
        broker.disk_errors.note("store ACLs", error)
        for result in results:
            if not result.error_code:
                result.error_code, result.error_message = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
    call.reply(CreateAclsResponse(results=results))


def delete(broker: Dependencies, call: Call, request: DeleteAclsRequest) -> None:
    """Remove the ACLs that the filters find. Each is returned for the filters that find it."""
    control = broker.access_control
    if control is None:
        refused = DeleteAclsFilterResult(error_code=_DISABLED, error_message=_NO_AUTHORIZER)
        call.reply(DeleteAclsResponse(filter_results=[refused] * len(request.filters)))
        return
    try:
        broker.leadership.catch_up()
    except OSError as error:
        broker.disk_errors.note("read ACLs", error)
        failed = DeleteAclsFilterResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, error_message=str(error))
        call.reply(DeleteAclsResponse(filter_results=[failed] * len(request.filters)))
        return
    results: list[DeleteAclsFilterResult] = []
    removed: dict[Acl, None] = {}
    for wanted in request.filters:
        try:
            acl_filter = _filter(wanted)
        except KafkaError as error:
            results.append(DeleteAclsFilterResult(error_code=error.code, error_message=error.sentence))
            continue
        found = control.acls.found(acl_filter)
        removed |= dict.fromkeys(found)
        results.append(DeleteAclsFilterResult(matching_acls=[_matching(acl) for acl in found]))
    try:
        control.remove(list(removed))
    except OSError as error:
        broker.disk_errors.note("remove ACLs", error)
        for result in results:
            for matching in result.matching_acls:
                matching.error_code, matching.error_message = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
    call.reply(DeleteAclsResponse(filter_results=results))


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=acl.pattern.resource_type,
        resource_name=acl.pattern.name,
        pattern_type=acl.pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _new_acl(wanted: AclCreation) -> Acl:
    kind = _number(ResourceType, wanted.resource_type, "resource type")
    pattern = _number(PatternType, wanted.resource_pattern_type, "pattern type")
    operation = _number(Operation, wanted.operation, "operation")
    permission = _number(Permission, wanted.permission_type, "permission type")
    if kind is ResourceType.ANY or pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid("an ACL needs one resource type, and the pattern type literal or prefixed")
    if operation is Operation.ANY or permission is Permission.ANY:
        raise _invalid("an ACL needs one operation, and the permission type allow or deny")
    if not wanted.resource_name:
        raise _invalid("the name of a resource must not be empty")
    if kind is ResourceType.CLUSTER and wanted.resource_name != CLUSTER_NAME:
        raise _invalid(f"the only valid name of a cluster is {CLUSTER_NAME}")
    if ":" not in wanted.principal:
        raise _invalid(f"the principal {wanted.principal[:100]!r} does not have the form TYPE:NAME")
    return Acl(
        ResourcePattern(kind, wanted.resource_name, pattern), wanted.principal, wanted.host, operation, permission
    )


def _filter(wanted: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        _number(ResourceType, wanted.resource_type_filter, "resource type"),
        wanted.resource_name_filter,
        _number(PatternType, wanted.pattern_type_filter, "pattern type"),
        wanted.principal_filter,
        wanted.host_filter,
        _number(Operation, wanted.operation, "operation"),
        _number(Permission, wanted.permission_type, "permission type"),
    )


def _number(kind: Any, number: int, what: str) -> Any:
    try:
        return kind(number)
    except ValueError:
        raise _invalid(f"the {what} {number} is unknown") from None


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, f"{why[0].upper()}{why[1:]}.")
