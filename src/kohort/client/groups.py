"""Groups as an operator sees them, asked of their coordinators."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

from kohort.client.checks import check
from kohort.client.cluster import Cluster
from kohort.client.committed import committed_offsets
from kohort.client.connection import Connection
from kohort.client.group_descriptions import GroupDescription, classic_description, consumer_description
from kohort.client.offset_spec import OffsetSpec
from kohort.client.offsets import list_offsets
from kohort.errors import ErrorCode
from kohort.model import TopicPartition
from kohort.wire.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from kohort.wire.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kohort.wire.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kohort.wire.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

_GROUPS = "groups"
_DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as its coordinator lists it. `state` and `type` are None with a broker too old to say."""

    group_id: str
    protocol_type: str
    state: str | None
    type: str | None


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """How far a group has come in one partition. `lag` is None where nothing is committed."""

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
    """Groups of every broker, sorted by name; only those in the given states and of the given types, if any are.

    A broker too old to know types has classic groups only.
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
        one.group_id: GroupListing(one.group_id, one.protocol_type, one.group_state or None, one.group_type or None)
        for answer in answers
        for one in answer.groups
    }
    wanted = {name.lower() for name in types}
    return [one for _, one in sorted(listed.items()) if not wanted or (one.type or "classic").lower() in wanted]


async def describe_group(cluster: Cluster, group_id: str) -> GroupDescription:
    """Its state and members."""

    async def attempt() -> GroupDescription:
        connection = await cluster.coordinator(group_id, _GROUPS)
        response = await connection.request(DescribeGroupsRequest(groups=[group_id]), DescribeGroupsResponse)
        described = response.groups[0]
        here = next((one for one in cluster.metadata.brokers.values() if (one.host, one.port) == connection.peer), None)
        missing = described.error_code == ErrorCode.GROUP_ID_NOT_FOUND  # KIP-1043: an error from version 6 on
        if not missing:
            check(described.error_code, group_id, described.error_message)
        if not missing and described.group_state != _DEAD:
            return classic_description(described, here)
        newer = await _describe_newer(connection, group_id)
        none = GroupDescription(group_id, _DEAD, "", "", None, ())
        return none if newer is None else consumer_description(newer, here)

    return await cluster.retrying(attempt)


async def _describe_newer(connection: Connection, group_id: str) -> DescribedGroup | None:
    """DescribeGroups knows nothing of groups of the consumer protocol (KIP-848)."""
    if not connection.speaks(ConsumerGroupDescribeRequest):
        return None
    request = ConsumerGroupDescribeRequest(group_ids=[group_id])
    [described] = (await connection.request(request, ConsumerGroupDescribeResponse)).groups
    if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    check(described.error_code, group_id, described.error_message)
    return described


async def group_lag(cluster: Cluster, group_id: str) -> list[GroupOffset]:
    """Committed offset, end and lag of each partition that the group has committed or is assigned."""
    committed = await committed_offsets(cluster, group_id, None)
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
    """Forget a group and its offsets. Raises NON_EMPTY_GROUP where it has members, GROUP_ID_NOT_FOUND."""

    async def attempt() -> None:
        connection = await cluster.coordinator(group_id, _GROUPS)
        response = await connection.request(DeleteGroupsRequest(groups_names=[group_id]), DeleteGroupsResponse)
        for one in response.results:
            check(one.error_code, one.group_id)

    await cluster.retrying(attempt)


async def remove_members(cluster: Cluster, group_id: str, members: Collection[str], instances: Collection[str]) -> None:
    """Throw members out. Raises UNKNOWN_MEMBER_ID for the first that is not in the group."""
    leaving = [MemberIdentity(member_id=one, reason=_REMOVED) for one in members]
    leaving += [MemberIdentity(group_instance_id=one, reason=_REMOVED) for one in instances]

    async def attempt() -> None:
        connection = await cluster.coordinator(group_id, _GROUPS)
        response = await connection.request(LeaveGroupRequest(group_id=group_id, members=leaving), LeaveGroupResponse)
        check(response.error_code, group_id)
        for one in response.members:
            check(one.error_code, one.group_instance_id or one.member_id)

    if leaving:
        await cluster.retrying(attempt)


async def delete_offsets(cluster: Cluster, group_id: str, partitions: Collection[TopicPartition]) -> None:
    """Forget what a group committed there. Raises the first refusal."""
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
            for one in topic.partitions:
                check(one.error_code, f"{topic.name}-{one.partition_index}")

    if topics:
        await cluster.retrying(attempt)


_REMOVED = "removed by an administrator"
