"""CreateAcls: add ACLs (KIP-140)."""

from kohort.wire.codec import Int8, Int16, Int32, Message, NullableString, String, Struct, array, message, since, struct


@struct
class AclCreation(Struct):
    """An ACL: what a principal may or may not do with the resources of a pattern."""

    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Int8 = since(1, default=3)  # KIP-290
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@message(key=30, versions=(1, 3), flexible=2)
class CreateAclsRequest(Message):
    """Add ACLs."""

    creations: list[AclCreation] = array()


@struct
class AclCreationResult(Struct):
    """Result for one ACL."""

    error_code: Int16 = 0
    error_message: NullableString = ""


@message(key=30, versions=(1, 3), flexible=2)
class CreateAclsResponse(Message):
    """Result for each ACL, in the order of the request."""

    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult] = array()
