"""Group administration through the groups' coordinators."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

from kohort.client.admin.group_descriptions import GroupDescription, classic_description, consumer_description
from kohort.client.membership import committed_offsets
from kohort.client.net import BrokerConnection, Cluster, list_offsets
from kohort.client.offset_spec import OffsetSpec
from kohort.errors import ErrorCode
from kohort.model import TopicPartition
from kohort.requests import check
from kohort.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from kohort.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kohort.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

_GROUPS = "groups"
_DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class GroupListing:
    """Group in a coordinator's list. `state` and `type` are None if the broker is too old to report them."""

    group_id: str
    protocol_type: str
    state: str | None
    type: str | None


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """Progress of a group in one partition. `lag` is None if nothing is committed."""

    partition: TopicPartition
    committed: int | None
    end: int
    metadata: str = ""

    @property
    def lag(self) -> int | None:
        return None if self.committed is None else max(0, self.end - self.committed)


async def list_groups(
    cluster: Cluster, states: Collection[str] = (), types: Collection[str] = ()
) -> list[GroupListing]:
    """Return the groups of all brokers, sorted by name.

    `states` and `types` select groups; empty ones select all. A broker too old to know types has
    only classic groups.
    """
    await cluster.retrying(cluster.refresh)

    async def ask(node: int) -> ListGroupsResponse:
        async def attempt() -> ListGroupsResponse:
            connection = await cluster.connection(node)
            response = await connection.request(ListGroupsRequest(states_filter=list(states)), ListGroupsResponse)
            check(response.error_code, f"broker {node}")
            return response

        return await cluster.retrying(attempt)

    answers = await asyncio.gather(*(ask(node) for node in cluster.metadata.brokers))
    listed = {
        group.group_id: GroupListing(
            group.group_id, group.protocol_type, group.group_state or None, group.group_type or None
        )
        for answer in answers
        for group in answer.groups
    }
    wanted = {name.lower() for name in types}
    return [
        listing for _, listing in sorted(listed.items()) if not wanted or (listing.type or "classic").lower() in wanted
    ]


async def describe_group(cluster: Cluster, group_id: str) -> GroupDescription:
    """Return the group's state and members."""

    async def attempt() -> GroupDescription:
        connection = await cluster.coordinator(group_id, _GROUPS)
        response = await connection.request(DescribeGroupsRequest(groups=[group_id]), DescribeGroupsResponse)
        described = response.groups[0]
        here = next(
            (broker for broker in cluster.metadata.brokers.values() if (broker.host, broker.port) == connection.peer),
            None,
        )
        missing = described.error_code == ErrorCode.GROUP_ID_NOT_FOUND  # KIP-1043: an error since version 6
        if not missing:
            check(described.error_code, group_id, described.error_message)
        if not missing and described.group_state != _DEAD:
            return classic_description(described, here)
        newer = await _describe_newer(connection, group_id)
        none = GroupDescription(group_id, _DEAD, "", "", None, ())
        return none if newer is None else consumer_description(newer, here)

    return await cluster.retrying(attempt)


async def _describe_newer(connection: BrokerConnection, group_id: str) -> DescribedGroup | None:
    """Describe a consumer group (KIP-848), which DescribeGroups does not cover; None if there is none."""
    if not connection.speaks(ConsumerGroupDescribeRequest):
        return None
    request = ConsumerGroupDescribeRequest(group_ids=[group_id])
    [described] = (await connection.request(request, ConsumerGroupDescribeResponse)).groups
    if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    check(described.error_code, group_id, described.error_message)
    return described


async def group_lag(cluster: Cluster, group_id: str) -> list[GroupOffset]:
    """Return committed offset, end and lag of each partition with a committed offset or an assignment."""
    committed = await committed_offsets(cluster, group_id, None, require_stable=False)
    described = await describe_group(cluster, group_id)
    assigned = {partition for member in described.members for partition in member.assignment}
    wanted = sorted(assigned | {partition for partition, position in committed.items() if position is not None})
    ends = await list_offsets(cluster, dict.fromkeys(wanted, OffsetSpec.LATEST))
    lags = []
    for partition in wanted:
        position, end = committed.get(partition), ends[partition]
        lags.append(
            GroupOffset(
                partition,
                None if position is None else position.offset,
                0 if end is None else end.offset,
                "" if position is None else position.metadata,
            )
        )
    return lags


async def delete_group(cluster: Cluster, group_id: str) -> None:
    """Delete a group and its offsets. Raises NON_EMPTY_GROUP or GROUP_ID_NOT_FOUND."""

    async def attempt() -> None:
        connection = await cluster.coordinator(group_id, _GROUPS)
        response = await connection.request(DeleteGroupsRequest(groups_names=[group_id]), DeleteGroupsResponse)
        for result in response.results:
            check(result.error_code, result.group_id)

    await cluster.retrying(attempt)


async def remove_members(cluster: Cluster, group_id: str, members: Collection[str], instances: Collection[str]) -> None:
    """Remove members. Raises UNKNOWN_MEMBER_ID for the first that is not in the group."""
    leaving = [MemberIdentity(member_id=member_id, reason=_REMOVED) for member_id in members]
    leaving += [MemberIdentity(group_instance_id=instance_id, reason=_REMOVED) for instance_id in instances]

    async def attempt() -> None:
        connection = await cluster.coordinator(group_id, _GROUPS)
        response = await connection.request(LeaveGroupRequest(group_id=group_id, members=leaving), LeaveGroupResponse)
        check(response.error_code, group_id)
        for result in response.members:
            check(result.error_code, result.group_instance_id or result.member_id)

    if leaving:
        await cluster.retrying(attempt)


async def delete_offsets(cluster: Cluster, group_id: str, partitions: Collection[TopicPartition]) -> None:
    """Delete committed offsets of a group. Raises the first error."""
    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for name, number in partitions:
        topic = topics.setdefault(name, OffsetDeleteRequestTopic(name=name, partitions=[]))
        topic.partitions.append(OffsetDeleteRequestPartition(partition_index=number))

    async def attempt() -> None:
        connection = await cluster.coordinator(group_id, _GROUPS)
        request = OffsetDeleteRequest(group_id=group_id, topics=list(topics.values()))
        response = await connection.request(request, OffsetDeleteResponse)
        check(response.error_code, group_id)
        for topic in response.topics:
            for result in topic.partitions:
                check(result.error_code, f"{topic.name}-{result.partition_index}")

    if topics:
        await cluster.retrying(attempt)


_REMOVED = "removed by an administrator"
