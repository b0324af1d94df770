"""DescribeGroups and ListGroups."""

from collections.abc import Iterator

from kohort.coordinator.classic import ClassicGroup, GroupState
from kohort.coordinator.consumer import ConsumerGroup
from kohort.coordinator.groups import Group, Groups
from kohort.coordinator.subscriptions import CONSUMER
from kohort.errors import ErrorCode
from kohort.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsRequest
from kohort.wire.messages.list_groups import ListedGroup, ListGroupsRequest

_NOT_FOUND = 6
"""First version of DescribeGroups that reports a missing group as an error; earlier ones report Dead (KIP-1043)."""


def describe(groups: Groups, request: DescribeGroupsRequest, api_version: int) -> list[DescribedGroup]:
    """Return the requested groups, in the order of the request."""
    return [_describe(groups.get(group_id), group_id, api_version) for group_id in request.groups]


def _describe(group: Group | None, group_id: str, api_version: int) -> DescribedGroup:
    if not isinstance(group, ClassicGroup):
        described = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if api_version >= _NOT_FOUND:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = f"Group {group_id} {'not found' if group is None else 'is not a classic group'}."
        return described
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if group.state is GroupState.STABLE else "",
        members=list(_members(group)),
    )


def _members(group: ClassicGroup) -> Iterator[DescribedGroupMember]:
    """Yield the members of a group with their last assignments.

    Subscriptions are included only for a Stable group; in other states no assignor is chosen.
    """
    for member in group.members.values():
        described = DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_assignment=member.assignment,
        )
        if group.state is GroupState.STABLE:
            described.member_metadata = member.protocols[group.protocol or ""]
        yield described


def listed(groups: Groups, request: ListGroupsRequest) -> list[ListedGroup]:
    """Return the shard's groups with the requested states (KIP-518) and types (KIP-848), ignoring case."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    return [
        _list(group)
        for group in groups.by_id.values()
        if (not states or group.state.value.lower() in states) and (not types or _kind(group) in types)
    ]


def _list(group: Group) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=CONSUMER if isinstance(group, ConsumerGroup) else group.protocol_type or "",
        group_state=group.state.value,
        group_type=_kind(group),
    )


def _kind(group: Group) -> str:
    return "consumer" if isinstance(group, ConsumerGroup) else "classic"
