"""DescribeAcls: list the ACLs that match a filter (KIP-140)."""

from kohort.wire.codec import Int8, Int16, Int32, Message, NullableString, String, Struct, array, message, since, struct


@message(key=29, versions=(1, 3), flexible=2)
class DescribeAclsRequest(Message):
    """Filter of ACLs; null matches any name, principal or host. `kohort.security` names the numbers."""

    resource_type_filter: Int8 = 0
    resource_name_filter: NullableString = ""
    pattern_type_filter: Int8 = since(1, default=3)  # KIP-290
    principal_filter: NullableString = ""
    host_filter: NullableString = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class AclDescription(Struct):
    """Principal, host, operation and permission of one ACL."""

    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class DescribeAclsResource(Struct):
    """ACLs of one resource pattern."""

    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = since(1, default=3)
    acls: list[AclDescription] = array()


@message(key=29, versions=(1, 3), flexible=2)
class DescribeAclsResponse(Message):
    """The matching ACLs, by resource pattern."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
    resources: list[DescribeAclsResource] = array()
