"""DeleteGroups: delete groups that have no members (KIP-229)."""

from kohort.wire.codec import Int16, Int32, Message, String, Struct, array, message, struct


@message(key=42, versions=(0, 2), flexible=2)
class DeleteGroupsRequest(Message):
    """Delete groups independently of each other."""

    groups_names: list[String] = array()


@struct
class DeletableGroupResult(Struct):
    """Result for one group."""

    group_id: String = ""
    error_code: Int16 = 0


@message(key=42, versions=(0, 2), flexible=2)
class DeleteGroupsResponse(Message):
    """Result for each group."""

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = array()
