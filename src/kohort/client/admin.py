"""Topics, groups and offsets, as an operator sees them."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from kohort.client.arguments import whole
from kohort.client.checks import check
from kohort.client.cluster import Cluster
from kohort.client.committed import committed_offsets
from kohort.client.configs import ConfigKind, ConfigValue, alter_configs, describe_configs, list_config_resources
from kohort.client.connection import Connection
from kohort.client.elections import elect_leaders
from kohort.client.group_changes import alter_offsets, remove_all_members
from kohort.client.group_descriptions import GroupDescription, MemberDescription
from kohort.client.groups import (
    GroupListing,
    GroupOffset,
    delete_group,
    delete_offsets,
    describe_group,
    group_lag,
    list_groups,
    remove_members,
)
from kohort.client.logs import LogDirectory, delete_records, describe_log_dirs
from kohort.client.loops import warn_unclosed
from kohort.client.metadata import ClusterMetadata, TopicMetadata
from kohort.client.offset_spec import OffsetSpec
from kohort.client.offsets import FoundOffset, list_offsets
from kohort.client.options import AdminOptions, read_options
from kohort.client.producers import ActiveProducer, describe_producers
from kohort.errors import ErrorCode, KafkaError
from kohort.member import OffsetAndMetadata
from kohort.model import UUID, Millis, TopicPartition
from kohort.wire.codec import Message
from kohort.wire.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic
from kohort.wire.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.wire.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from kohort.wire.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

__all__ = ["Admin", "GroupDescription", "GroupListing", "GroupOffset", "NewTopic"]

_T = TypeVar("_T")
_R = TypeVar("_R", bound=Message)

_BROKER_DEFAULT = -1
_DELETE_BY_STATE = 6


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; None takes the broker's default."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


class Admin:
    """Use it as an async context manager, or close it. Each call raises KafkaError where the cluster says no.

    All methods belong to the event loop it was made in, any task of which may use it. Another thread, another loop or
    a process that was forked from this one needs an admin client of its own (ConcurrentUseError). One that nobody
    closes warns (ResourceWarning) when it is garbage.
    """

    def __init__(self, **options: Any) -> None:
        self._options = read_options(AdminOptions, options)
        self._cluster = Cluster(self._options)
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            warn_unclosed(self)

    async def close(self) -> None:
        """Closing twice is fine."""
        self._closed = True
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
            timeout_ms=self._patience(timeout_ms),
            validate_only=validate_only,
        )
        response = await self._controller(request, CreateTopicsResponse)
        for one in response.topics:
            check(one.error_code, one.name, one.error_message)
        if not validate_only:
            await self._until_led([topic.name for topic in wanted])
        return {one.name: one.topic_id for one in response.topics}

    async def delete_topics(self, names: Iterable[str], *, timeout_ms: Millis | None = None) -> None:
        """Delete them with all their records, and wait until they are gone. Raises the first refusal."""
        listed = list(names)
        timeout = self._patience(timeout_ms)

        def question(connection: Connection) -> Message:
            if connection.version_of(DeleteTopicsRequest) >= _DELETE_BY_STATE:
                return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in listed], timeout_ms=timeout)
            return DeleteTopicsRequest(topic_names=listed, timeout_ms=timeout)

        response = await self._controller(question, DeleteTopicsResponse)
        for one in response.responses:
            check(one.error_code, one.name or "", one.error_message)
        await self._until_gone(listed)

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, OffsetSpec | Millis], *, read_committed: bool = False
    ) -> dict[TopicPartition, FoundOffset | None]:
        """The offset of each partition's start, end or time; None where no record is that young."""
        return await list_offsets(self._cluster, wanted, read_committed=read_committed)

    async def create_partitions(self, topic: str, total: int, *, validate_only: bool = False) -> None:
        """Widen a topic to `total` partitions. Keys map anew from then on; consumers rebalance."""
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=whole("total", total, None), assignments=None)],
            timeout_ms=self._options.request_timeout_ms,
            validate_only=validate_only,
        )
        response = await self._controller(request, CreatePartitionsResponse)
        for one in response.results:
            check(one.error_code, one.name, one.error_message)
        if not validate_only:
            await self._until_led([topic], total)

    # -- logs

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Move each partition's start forward to this offset (-1: to its end); returns where they start now.

        Raises the first refusal, such as OFFSET_OUT_OF_RANGE, when the other partitions are done.
        """
        return await delete_records(self._cluster, before)

    async def describe_log_dirs(self, topics: Collection[str] | None = None) -> list[LogDirectory]:
        """Of every broker: its directories, and the bytes of each partition of these topics, or of all."""
        return await describe_log_dirs(self._cluster, topics)

    async def describe_producers(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        """The producers that each partition knows: their ids, last sequence numbers and open transactions."""
        return await describe_producers(self._cluster, partitions)

    async def elect_leaders(
        self, partitions: Collection[TopicPartition] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, ErrorCode]:
        """Give these partitions, or all, their preferred leaders; what became of each.

        ELECTION_NOT_NEEDED says that it was so already. `unclean` takes any replica, which may lose records.
        """
        return await elect_leaders(self._cluster, partitions, unclean=unclean)

    # -- configs

    async def list_config_resources(self, kinds: Collection[ConfigKind] = ()) -> list[tuple[ConfigKind, str]]:
        """The names of what has configs: topics, brokers, groups; of these kinds, or of all."""
        return await list_config_resources(self._cluster, kinds)

    async def describe_configs(self, kind: ConfigKind, name: str) -> dict[str, ConfigValue]:
        """The configs of a topic, a broker (its node id as text; "" for the cluster's defaults) or a group."""
        return await describe_configs(self._cluster, kind, name)

    async def alter_configs(self, kind: ConfigKind, name: str, changes: Mapping[str, str | None]) -> None:
        """Set these, or (None) go back to the default; whatever is not named stays."""
        await alter_configs(self._cluster, kind, name, changes)

    # -- groups

    async def list_groups(self, states: Collection[str] = (), types: Collection[str] = ()) -> list[GroupListing]:
        """Groups of every broker, sorted by name; only those in the given states and of the given types, if any are."""
        return await list_groups(self._cluster, states, types)

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """Their states and members, in the order of the names given."""
        return {group_id: await describe_group(self._cluster, group_id) for group_id in group_ids}

    async def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Forget groups and their offsets. Raises NON_EMPTY_GROUP where one has members."""
        for group_id in group_ids:
            await delete_group(self._cluster, group_id)

    async def remove_members(self, group_id: str, members: Iterable[str], *, instances: Iterable[str] = ()) -> None:
        """Throw members out, by member id or (static ones) by instance id; they may join again."""
        await remove_members(self._cluster, group_id, list(members), list(instances))

    async def remove_all_members(self, group_id: str) -> tuple[MemberDescription, ...]:
        """Throw out all that are in the group now, static ones too, and return who went."""
        return await remove_all_members(self._cluster, group_id)

    async def group_offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed: in these partitions, or everywhere."""
        return await committed_offsets(self._cluster, group_id, partitions)

    async def group_lag(self, group_id: str) -> list[GroupOffset]:
        """Committed offset, end and lag of each partition that the group has committed or is assigned."""
        return await group_lag(self._cluster, group_id)

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> None:
        """Commit for a group that has no members. Raises UNKNOWN_MEMBER_ID where it has some."""
        await alter_offsets(self._cluster, group_id, offsets)

    async def delete_group_offsets(self, group_id: str, partitions: Collection[TopicPartition]) -> None:
        """Forget what the group committed there. Raises GROUP_SUBSCRIBED_TO_TOPIC where a member reads the topic."""
        await delete_offsets(self._cluster, group_id, partitions)

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

    async def _until_led(self, names: list[str], least: int = 1) -> None:
        async def attempt() -> None:
            known = await self._metadata(names)
            for name in names:
                topic = known.topics.get(name)
                if (
                    topic is None
                    or len(topic.leaders) < least
                    or None in {one.node_id for one in topic.leaders.values()}
                ):
                    raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{name} has no leaders yet")

        await self._retrying(attempt)

    async def _until_gone(self, names: list[str]) -> None:
        async def attempt() -> None:
            known = await self._metadata(names)
            for name in names:
                if name in known.topics and known.topics[name].exists:
                    raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{name} is not gone yet")

        await self._retrying(attempt)

    def _patience(self, timeout_ms: Millis | None) -> Millis:
        return self._options.request_timeout_ms if timeout_ms is None else whole("timeout_ms", timeout_ms)

    async def _retrying(self, attempt: Callable[[], Awaitable[_T]]) -> _T:
        return await self._cluster.retrying(attempt)


def _or_default(name: str, given: int | None) -> int:
    return _BROKER_DEFAULT if given is None else whole(name, given, None)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=_or_default("partitions", topic.partitions),
        replication_factor=_or_default("replication_factor", topic.replication_factor),
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )
