"""DeleteAcls: remove the ACLs that match filters (KIP-140)."""

from kohort.wire.codec import Int8, Int16, Int32, Message, NullableString, String, Struct, array, message, since, struct


@struct
class DeleteAclsFilter(Struct):
    """Filter of ACLs; null matches any name, principal or host."""

    resource_type_filter: Int8 = 0
    resource_name_filter: NullableString = ""
    pattern_type_filter: Int8 = since(1, default=3)  # KIP-290
    principal_filter: NullableString = ""
    host_filter: NullableString = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@message(key=31, versions=(1, 3), flexible=2)
class DeleteAclsRequest(Message):
    """Remove ACLs."""

    filters: list[DeleteAclsFilter] = array()


@struct
class DeleteAclsMatchingAcl(Struct):
    """An ACL that matches the filter, and whether it was removed."""

    error_code: Int16 = 0
    error_message: NullableString = None
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = since(1, default=3)
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class DeleteAclsFilterResult(Struct):
    """Result for one filter."""

    error_code: Int16 = 0
    error_message: NullableString = None
    matching_acls: list[DeleteAclsMatchingAcl] = array()


@message(key=31, versions=(1, 3), flexible=2)
class DeleteAclsResponse(Message):
    """Result for each filter, in the order of the request."""

    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult] = array()
