"""LeaveGroup: leave a classic group at once instead of by timeout."""

from kohort.wire.codec import Int16, Int32, Message, NullableString, String, Struct, message, since, struct


@struct
class MemberIdentity(Struct):
    member_id: String = ""
    group_instance_id: NullableString = None
    reason: NullableString = since(5, default=None, ignorable=True)


@message(key=13, versions=(0, 5), flexible=4)
class LeaveGroupRequest(Message):
    group_id: String = ""
    member_id: String = since(0, until=2)
    members: list[MemberIdentity] = since(3)


@struct
class MemberResponse(Struct):
    member_id: String = ""
    group_instance_id: NullableString = ""
    error_code: Int16 = 0


@message(key=13, versions=(0, 5), flexible=4)
class LeaveGroupResponse(Message):
    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16 = 0
    members: list[MemberResponse] = since(3)
