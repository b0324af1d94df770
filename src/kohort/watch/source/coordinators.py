"""All groups as their coordinators describe them, in a few requests to each broker."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from kohort.client import Cluster, ErrorCode, KafkaError
from kohort.group_events import MemberFacts
from kohort.model import UUID, TopicPartition
from kohort.requests import check, error_of
from kohort.watch.group import GroupFound, WatchedMember
from kohort.wire.codec import DecodeError
from kohort.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kohort.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kohort.wire.messages.consumer_protocol import decode_assignment, decode_subscription
from kohort.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kohort.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)

_AT_ONCE = 200
"""Number of groups in one request."""
_MANY_GROUPS = 8  # KIP-709: since this version OffsetFetch takes a list of groups


@dataclass(slots=True)
class Described:
    """What the coordinators that answered told."""

    groups: dict[str, GroupFound] = field(default_factory=dict)
    denied: dict[str, ErrorCode] = field(default_factory=dict)
    """Groups that may not be described, with the error: the group's, or that of a topic of its members."""
    failed: set[str] = field(default_factory=set)
    """Groups whose coordinator could not describe them now."""
    whole: bool = True
    """Whether all brokers answered, so that a group that is missing does not exist."""
    ids: dict[str, UUID] = field(default_factory=dict)
    """IDs of topics by name, as far as the answers have them."""


async def describe_groups(cluster: Cluster) -> Described:
    """Describe all classic and consumer groups. Raises KafkaError if no broker answers."""
    brokers = list((await cluster.refresh()).brokers)
    described = Described()
    results = await asyncio.gather(*(_of_broker(cluster, node, described) for node in brokers))
    problems = [problem for problem in results if problem is not None]
    described.whole = not problems
    if problems and len(problems) == len(results):
        raise problems[0]
    return described


async def _of_broker(cluster: Cluster, node: int, described: Described) -> KafkaError | None:
    """Describe the groups that this broker coordinates: it lists no others."""
    try:
        connection = await cluster.connection(node, "groups")
        listed = await connection.request(ListGroupsRequest(), ListGroupsResponse)
        check(listed.error_code, f"broker {node}")
        asker = _Asker(cluster, node, described)
        await asker.classic([group for group in listed.groups if _type(group) == "classic"])
        await asker.consumer([group.group_id for group in listed.groups if _type(group) == "consumer"])
    except KafkaError as problem:
        return problem
    return None


def _type(group: ListedGroup) -> str:
    return group.group_type.lower() or "classic"


@dataclass(slots=True)
class _Asker:
    """Questions to one coordinator."""

    cluster: Cluster
    node: int
    described: Described

    async def classic(self, groups: Sequence[ListedGroup]) -> None:
        connection = await self.cluster.connection(self.node, "groups")
        for some in _parts([group.group_id for group in groups]):
            response = await connection.request(DescribeGroupsRequest(groups=some), DescribeGroupsResponse)
            found = [_classic(group) for group in response.groups if self._described(group.group_id, group.error_code)]
            await self._add(found)

    async def consumer(self, group_ids: Sequence[str]) -> None:
        connection = await self.cluster.connection(self.node, "groups")
        for some in _parts(group_ids):
            request = ConsumerGroupDescribeRequest(group_ids=some)
            response = await connection.request(request, ConsumerGroupDescribeResponse)
            groups = [group for group in response.groups if self._described(group.group_id, group.error_code)]
            for group in groups:
                for member in group.members:
                    for topic in (*member.assignment.topic_partitions, *member.target_assignment.topic_partitions):
                        self.described.ids[topic.topic_name] = topic.topic_id
            await self._add([_consumer(group) for group in groups])

    def _described(self, group_id: str, code: int) -> bool:
        problem = error_of(code, group_id)
        if problem is None:
            return True
        if problem.code in (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            self.described.denied[group_id] = problem.code
        elif problem.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            self.described.failed.add(group_id)
        return False

    async def _add(self, groups: Iterable[GroupFound]) -> None:
        living = {group.group_id: group for group in groups if group.state != "Dead"}
        self.described.groups |= living
        connection = await self.cluster.connection(self.node, "groups")
        if connection.version_of(OffsetFetchRequest) < _MANY_GROUPS:
            for group_id in living:
                request = OffsetFetchRequest(group_id=group_id, topics=None)
                await self._commits(request, group_id)
        elif living:
            asked = [OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in living]
            await self._commits(OffsetFetchRequest(groups=asked), "")

    async def _commits(self, request: OffsetFetchRequest, group_id: str) -> None:
        connection = await self.cluster.connection(self.node, "groups")
        response = await connection.request(request, OffsetFetchResponse)
        answers: list[OffsetFetchResponse | OffsetFetchResponseGroup] = [*response.groups] or [response]
        for group in answers:
            of = group.group_id if isinstance(group, OffsetFetchResponseGroup) else group_id
            if error_of(group.error_code, of) is not None:
                self.described.failed.add(of)
                continue
            commits = cast("dict[TopicPartition, int]", self.described.groups[of].commits)
            for topic in group.topics:
                name = topic.name
                if isinstance(topic, OffsetFetchResponseTopics) and not name:
                    name = await self._name_of(topic.topic_id)
                for entry in topic.partitions if name else ():
                    if entry.error_code == 0 and entry.committed_offset >= 0:
                        commits[TopicPartition(name, entry.partition_index)] = entry.committed_offset

    async def _name_of(self, topic_id: UUID) -> str:
        """Return the name of a topic, "" if it is deleted. Since version 10 the offsets have IDs only (KIP-848)."""
        ids = self.described.ids
        if topic_id not in ids.values():
            known = await self.cluster.metadata_of(None)
            ids |= {name: topic.topic_id for name, topic in known.topics.items()}
        return next((name for name, known_id in ids.items() if known_id == topic_id), "")


def _parts(group_ids: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(group_ids), _AT_ONCE):
        yield list(group_ids[start : start + _AT_ONCE])


def _classic(group: DescribedGroup) -> GroupFound:
    members = tuple(_classic_member(member) for member in group.members)
    protocol_type, protocol = group.protocol_type or None, group.protocol_data or None
    return GroupFound(group.group_id, "classic", group.group_state, None, None, protocol, protocol_type, members, {})


def _classic_member(member: DescribedGroupMember) -> WatchedMember:
    facts = MemberFacts(member.member_id, member.client_id, member.client_host, member.group_instance_id)
    try:  # a group of another protocol type (such as Kafka Connect's) has different bytes here
        topics = frozenset(decode_subscription(member.member_metadata).topics if member.member_metadata else ())
        owned = frozenset(decode_assignment(member.member_assignment).partitions if member.member_assignment else ())
    except DecodeError:
        return WatchedMember(facts)
    return WatchedMember(facts, topics, owned=owned)


def _consumer(group: DescribedConsumerGroup) -> GroupFound:
    members = []
    for member in group.members:
        owned, target = _partitions(member.assignment), _partitions(member.target_assignment)
        members.append(
            WatchedMember(
                MemberFacts(member.member_id, member.client_id, member.client_host, member.instance_id),
                frozenset(member.subscribed_topic_names),
                member.subscribed_topic_regex or None,
                member.member_epoch,
                member.member_epoch == group.group_epoch and owned == target,
                owned,
            )
        )
    return GroupFound(
        group.group_id,
        "consumer",
        group.group_state,
        group.group_epoch,
        group.assignment_epoch,
        group.assignor_name or None,
        "consumer",
        tuple(members),
        {},
    )


def _partitions(assignment: Assignment) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.topic_name, number) for topic in assignment.topic_partitions for number in topic.partitions
    )
