"""LeaveGroup: leave a group immediately instead of waiting for the session timeout."""

from kohort.wire.codec import Int16, Int32, Message, NullableString, String, Struct, message, since, struct


@struct
class MemberIdentity(Struct):
    """A member that leaves. A static member may be identified by its instance ID alone."""

    member_id: String = ""
    group_instance_id: NullableString = None
    reason: NullableString = since(5, default=None, ignorable=True)  # KIP-800


@message(key=13, versions=(0, 5), flexible=4)
class LeaveGroupRequest(Message):
    """Remove one member or, from version 3, several members (KIP-345)."""

    group_id: String = ""
    member_id: String = since(0, until=2)
    members: list[MemberIdentity] = since(3)


@struct
class MemberResponse(Struct):
    """Result for one member."""

    member_id: String = ""
    group_instance_id: NullableString = None
    error_code: Int16 = 0


@message(key=13, versions=(0, 5), flexible=4)
class LeaveGroupResponse(Message):
    """Result for each member."""

    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16 = 0
    members: list[MemberResponse] = since(3)
