"""DeleteGroups: forget groups that have no members (KIP-229)."""

from kohort.wire.codec import Int16, Int32, Message, String, Struct, array, message, struct


@message(key=42, versions=(0, 2), flexible=2)
class DeleteGroupsRequest(Message):
    """Delete groups, each by itself."""

    groups_names: list[String] = array()


@struct
class DeletableGroupResult(Struct):
    """Whether one group was deleted."""

    group_id: String = ""
    error_code: Int16 = 0


@message(key=42, versions=(0, 2), flexible=2)
class DeleteGroupsResponse(Message):
    """Whether the groups were deleted."""

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = array()
