"""Topics, groups and offsets, as an operator sees them."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from kohort.client.cluster import Cluster
from kohort.client.committed import commit_outside, committed_offsets
from kohort.client.connection import Connection
from kohort.client.metadata import Broker, ClusterMetadata, TopicMetadata
from kohort.client.offsets import FoundOffset, OffsetSpec, list_offsets
from kohort.client.options import AdminOptions, read_options
from kohort.errors import ErrorCode, KafkaError, error_code
from kohort.member import OffsetAndMetadata
from kohort.model import UUID, Millis, TopicPartition
from kohort.wire.codec import DecodeError, Message
from kohort.wire.consumer_protocol import decode_assignment, decode_subscription
from kohort.wire.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.wire.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from kohort.wire.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kohort.wire.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

_T = TypeVar("_T")
_R = TypeVar("_R", bound=Message)

_GROUPS = "groups"
_BROKER_DEFAULT = -1
_DELETE_BY_STATE = 6


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; None takes the broker's default."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as its coordinator lists it. `state` and `type` are None with a broker too old to say."""

    group_id: str
    protocol_type: str
    state: str | None
    type: str | None


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member and what it was assigned; `topics` is what it asked for."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    topics: frozenset[str]
    assignment: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group. Its state is as Kafka prints it; that of a group which does not exist is Dead."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: Broker | None
    members: tuple[MemberDescription, ...]


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


class Admin:
    """Use it as an async context manager, or close it. Each call raises KafkaError where the cluster says no."""

    def __init__(self, **options: Any) -> None:
        self._options = read_options(AdminOptions, options)
        self._cluster = Cluster(self._options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closing twice is fine."""
        await self._cluster.close()

    # -- cluster and topics

    async def describe_cluster(self) -> ClusterMetadata:
        """Brokers, controller and the cluster's id."""
        return await self._metadata([])

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        """All topics, without the cluster's own unless asked for."""
        known = await self._metadata(None)
        return sorted(name for name, topic in known.topics.items() if internal or not topic.internal)

    async def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, TopicMetadata]:
        """The topics of these names, or all. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        known = await self._metadata(None if names is None else list(names))
        for topic in known.topics.values():
            if topic.error is not ErrorCode.NONE and not topic.exists:
                raise KafkaError(topic.error, f"{topic.name}: {topic.error.sentence}")
        return dict(known.topics)

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout_ms: Millis | None = None
    ) -> dict[str, UUID]:
        """Create them and return their ids, when every one can be used. Raises the first refusal."""
        wanted = list(topics)
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in wanted],
            timeout_ms=self._options.request_timeout_ms if timeout_ms is None else timeout_ms,
            validate_only=validate_only,
        )
        response = await self._controller(request, CreateTopicsResponse)
        for one in response.topics:
            _check(one.error_code, one.name, one.error_message)
        if not validate_only:
            await self._until_led([topic.name for topic in wanted])
        return {one.name: one.topic_id for one in response.topics}

    async def delete_topics(self, names: Iterable[str], *, timeout_ms: Millis | None = None) -> None:
        """Delete them with all their records. Raises the first refusal."""
        listed = list(names)
        timeout = self._options.request_timeout_ms if timeout_ms is None else timeout_ms

        def question(connection: Connection) -> Message:
            if connection.version_of(DeleteTopicsRequest) >= _DELETE_BY_STATE:
                return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in listed], timeout_ms=timeout)
            return DeleteTopicsRequest(topic_names=listed, timeout_ms=timeout)

        response = await self._controller(question, DeleteTopicsResponse)
        for one in response.responses:
            _check(one.error_code, one.name or "", one.error_message)

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, OffsetSpec | Millis], *, read_committed: bool = False
    ) -> dict[TopicPartition, FoundOffset | None]:
        """The offset of each partition's start, end or time; None where no record is that young."""
        return await list_offsets(self._cluster, wanted, read_committed=read_committed)

    # -- groups

    async def list_groups(self, states: Collection[str] = ()) -> list[GroupListing]:
        """Groups of every broker, sorted by name; only those in the given states, if any are."""
        await self._retrying(self._cluster.refresh)

        async def ask(node: int) -> ListGroupsResponse:
            async def attempt() -> ListGroupsResponse:
                connection = await self._cluster.connection(node)
                request = ListGroupsRequest(states_filter=list(states))
                response = await connection.request(request, ListGroupsResponse)
                _check(response.error_code, f"broker {node}", None)
                return response

            return await self._retrying(attempt)

        answers = await asyncio.gather(*(ask(node) for node in self._cluster.metadata.brokers))
        listed = {
            one.group_id: GroupListing(one.group_id, one.protocol_type, one.group_state or None, one.group_type or None)
            for answer in answers
            for one in answer.groups
        }
        return [listed[group_id] for group_id in sorted(listed)]

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """Their states and members, in the order of the names given."""
        return {group_id: await self._describe_group(group_id) for group_id in group_ids}

    async def _describe_group(self, group_id: str) -> GroupDescription:
        async def attempt() -> GroupDescription:
            connection = await self._cluster.coordinator(group_id, _GROUPS)
            response = await connection.request(DescribeGroupsRequest(groups=[group_id]), DescribeGroupsResponse)
            described = response.groups[0]
            if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND:  # KIP-1043, from version 6 on
                return GroupDescription(group_id, "Dead", "", "", None, ())
            _check(described.error_code, group_id, described.error_message)
            brokers = self._cluster.metadata.brokers.values()
            here = next((one for one in brokers if (one.host, one.port) == connection.peer), None)
            return _description(described, here)

        return await self._retrying(attempt)

    async def group_offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed: in these partitions, or everywhere."""
        return await committed_offsets(self._cluster, group_id, partitions)

    async def group_lag(self, group_id: str) -> list[GroupOffset]:
        """Committed offset, end and lag of each partition that the group has committed or is assigned."""
        committed = await self.group_offsets(group_id)
        described = await self._describe_group(group_id)
        assigned = {partition for member in described.members for partition in member.assignment}
        wanted = sorted(assigned | {partition for partition, position in committed.items() if position is not None})
        ends = await self.list_offsets(dict.fromkeys(wanted, OffsetSpec.LATEST))
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

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> None:
        """Commit for a group that has no members. Raises UNKNOWN_MEMBER_ID where it has some."""
        await commit_outside(self._cluster, group_id, offsets)

    # -- asking

    async def _metadata(self, names: list[str] | None) -> ClusterMetadata:
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)

        async def attempt() -> ClusterMetadata:
            return ClusterMetadata().merged(await self._cluster.ask_any(request, MetadataResponse))

        return await self._retrying(attempt)

    async def _controller(self, request: "Message | Callable[[Connection], Message]", answer: type[_R]) -> _R:
        """KIP-590: any broker passes on what concerns the controller."""

        async def attempt() -> _R:
            return await self._cluster.ask_any(request, answer)

        return await self._retrying(attempt)

    async def _until_led(self, names: list[str]) -> None:
        async def attempt() -> None:
            known = await self._metadata(names)
            for name in names:
                topic = known.topics.get(name)
                if topic is None or not topic.leaders or None in {one.node_id for one in topic.leaders.values()}:
                    raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{name} has no leaders yet")

        await self._retrying(attempt)

    async def _retrying(self, attempt: Callable[[], Awaitable[_T]]) -> _T:
        return await self._cluster.retrying(attempt)


def _check(number: int, what: str, message: str | None) -> None:
    if number != ErrorCode.NONE:
        code = error_code(number)
        raise KafkaError(code, f"{what}: {message or code.sentence}")


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=_BROKER_DEFAULT if topic.partitions is None else topic.partitions,
        replication_factor=_BROKER_DEFAULT if topic.replication_factor is None else topic.replication_factor,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _description(group: DescribedGroup, coordinator: Broker | None) -> GroupDescription:
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=coordinator,
        members=tuple(_member(one) for one in group.members),
    )


def _member(one: DescribedGroupMember) -> MemberDescription:
    topics: frozenset[str] = frozenset()
    assignment: frozenset[TopicPartition] = frozenset()
    try:
        # A group of another protocol type (Kafka Connect's) has other bytes here.
        if one.member_metadata:
            topics = frozenset(decode_subscription(one.member_metadata).topics)
        if one.member_assignment:
            assignment = frozenset(decode_assignment(one.member_assignment).partitions)
    except DecodeError:
        topics, assignment = frozenset(), frozenset()
    return MemberDescription(one.member_id, one.client_id, one.client_host, one.group_instance_id, topics, assignment)
