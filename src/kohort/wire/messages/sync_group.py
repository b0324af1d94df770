"""SyncGroup: distribute the assignments of the leader to all members of a classic group."""

from kohort.wire.codec import (
    Bytes,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Struct,
    array,
    message,
    since,
    struct,
)


@struct
class SyncGroupRequestAssignment(Struct):
    """Assignment of one member, as computed by the leader."""

    member_id: String = ""
    assignment: Bytes = b""


@message(key=14, versions=(0, 5), flexible=4)
class SyncGroupRequest(Message):
    """Request the member's assignment. The leader's request contains all assignments."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: NullableString = since(3, default=None)  # KIP-345
    protocol_type: NullableString = since(5, default=None, ignorable=True)  # KIP-559
    protocol_name: NullableString = since(5, default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array()


@message(key=14, versions=(0, 5), flexible=4)
class SyncGroupResponse(Message):
    """Assignment of the member."""

    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16 = 0
    protocol_type: NullableString = since(5, default=None, ignorable=True)
    protocol_name: NullableString = since(5, default=None, ignorable=True)
    assignment: Bytes = b""
