"""Administrative changes to whole groups, with error messages for an operator rather than a member."""

from collections.abc import Mapping

from kohort.client.admin.group_descriptions import MemberDescription
from kohort.client.admin.groups import describe_group
from kohort.client.failures import CommitFailedError
from kohort.client.membership import commit_outside
from kohort.client.net import Cluster
from kohort.errors import ErrorCode, KafkaError
from kohort.member import OffsetAndMetadata
from kohort.model import TopicPartition
from kohort.requests import check
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

_REASON = "removed by an administrator, as all members are"


async def alter_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
) -> None:
    """Commit offsets for a group without members.

    Raises the broker's UNKNOWN_MEMBER_ID if it has members.
    """
    try:
        await commit_outside(cluster, group_id, offsets)
    except CommitFailedError as refused:
        if refused.code is not ErrorCode.UNKNOWN_MEMBER_ID:
            raise
        sentence = f"the group {group_id} has members, and only they can commit: stop or remove them first"
        raise KafkaError(refused.code, sentence) from refused


async def remove_all_members(cluster: Cluster, group_id: str) -> tuple[MemberDescription, ...]:
    """Remove all current members and return them. Members that still run join again.

    Static members lose their assignments, too. A member that left meanwhile is not an error.
    """
    members = (await describe_group(cluster, group_id)).members
    leaving = [
        MemberIdentity(reason=_REASON, group_instance_id=member.instance_id)
        if member.instance_id is not None
        else MemberIdentity(reason=_REASON, member_id=member.member_id)
        for member in members
    ]

    gone: set[str] = set()

    async def attempt() -> None:
        connection = await cluster.coordinator(group_id, "groups")
        response = await connection.request(LeaveGroupRequest(group_id=group_id, members=leaving), LeaveGroupResponse)
        check(response.error_code, group_id)
        for result in response.members:
            name = result.group_instance_id or result.member_id
            if result.error_code != ErrorCode.UNKNOWN_MEMBER_ID:
                check(result.error_code, name)
                gone.add(name)

    if leaving:
        await cluster.retrying(attempt)
    return tuple(member for member in members if (member.instance_id or member.member_id) in gone)
