"""Admin client for topics, groups, offsets, configs, logs, users and ACLs."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self, TypeVar, Unpack

from kohort.client.admin.acls import create_acls, delete_acls, describe_acls
from kohort.client.admin.configs import (
    ConfigKind,
    ConfigValue,
    alter_configs,
    checked_changes,
    checked_resource,
    describe_configs,
    list_config_resources,
)
from kohort.client.admin.elections import elect_leaders
from kohort.client.admin.features import FeatureMetadata, FeatureUpdate, describe_features, update_features
from kohort.client.admin.group_changes import alter_offsets, remove_all_members
from kohort.client.admin.group_descriptions import GroupDescription, MemberDescription
from kohort.client.admin.groups import (
    GroupListing,
    GroupOffset,
    delete_group,
    delete_offsets,
    describe_group,
    group_lag,
    list_groups,
    remove_members,
)
from kohort.client.admin.logs import LogDirectory, delete_records, describe_log_dirs
from kohort.client.admin.producers import describe_producers
from kohort.client.admin.quotas import (
    ClientQuotaEntity,
    ClientQuotaFilter,
    alter_client_quotas,
    describe_client_quotas,
)
from kohort.client.admin.transactions import (
    HangingTransaction,
    TransactionDescription,
    TransactionListing,
    abort_transaction,
    describe_transactions,
    fence_producers,
    find_hanging_transactions,
    list_transactions,
)
from kohort.client.admin.users import (
    ScramCredentialInfo,
    UserScramCredentialAlteration,
    alter_user_scram_credentials,
    describe_user_scram_credentials,
)
from kohort.client.arguments import (
    listed_names,
    name_of,
    objects_of,
    partition_of,
    partitions_of,
    whole_number,
    whole_numbers,
)
from kohort.client.keywords import AdminKeywords
from kohort.client.loops import warn_unclosed
from kohort.client.membership import committed_offsets
from kohort.client.metrics import MetricName, MetricValue, Report
from kohort.client.net import BrokerConnection, Cluster, list_offsets
from kohort.client.offset_spec import OffsetSpec
from kohort.client.options import AdminOptions
from kohort.errors import ConfigError, ErrorCode, KafkaError
from kohort.member import OffsetAndMetadata
from kohort.model import NO_TOPIC_ID, UUID, Millis, TopicPartition
from kohort.requests import ActiveProducer, ClusterMetadata, FoundOffset, ProducerId, TopicMetadata, check
from kohort.security import Acl, AclFilter
from kohort.wire.codec import Message
from kohort.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kohort.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

_T = TypeVar("_T")
_R = TypeVar("_R", bound=Message)

_BROKER_DEFAULT = -1
_DELETE_BY_STATE = 6


@dataclass(frozen=True, slots=True)
class NewTopic:
    """Topic to create. None selects the broker's default."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


class Admin:
    """Client for administering a cluster.

    Use it as an async context manager, or call `close`. Methods raise KafkaError if the cluster
    rejects a request.

    All methods belong to the event loop in which the client was created; any of its tasks may use
    it. Another thread, another loop or a forked process needs its own admin client; otherwise
    ConcurrentUseError is raised. A client that is not closed emits a ResourceWarning when it is
    garbage collected.
    """

    def __init__(self, **options: Unpack[AdminKeywords]) -> None:
        """Create an admin client. It connects when it is first used.

        - `options`: Options such as bootstrap_servers.
        """
        self._options = AdminOptions.read(options)
        self._cluster = Cluster(self._options)
        self._cluster.metrics.of_admin = True
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            warn_unclosed(self)

    async def close(self) -> None:
        """Close all connections. Closing twice is allowed."""
        self._closed = True
        await self._cluster.close()

    def metrics(self) -> dict[MetricName, MetricValue]:
        """Return the metrics, with the names and groups of Java's admin client."""
        report = Report(self._options.client_id, asyncio.get_running_loop().time())
        self._cluster.report(report, "admin-client")
        return report.finished()

    # -- cluster and topics

    async def describe_cluster(self) -> ClusterMetadata:
        """Return the brokers, the controller and the cluster ID."""
        return await self._cluster.metadata_of([])

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        """Return the names of all topics, sorted; internal topics only if `internal`.

        - `internal`: Whether to include internal topics, such as __consumer_offsets.
        """
        known = await self._cluster.metadata_of(None)
        return sorted(name for name, topic in known.topics.items() if internal or not topic.internal)

    async def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, TopicMetadata]:
        """Return the metadata of these topics, or of all. Raises UNKNOWN_TOPIC_OR_PARTITION.

        - `names`: Names of the topics (default: all).
        """
        known = await self._cluster.metadata_of(None if names is None else listed_names("topic", names))
        for topic in known.topics.values():
            if topic.error is not ErrorCode.NONE and not topic.exists:
                raise KafkaError(topic.error, f"{topic.name}: {topic.error.sentence}")
        return dict(known.topics)

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout_ms: Millis | None = None
    ) -> dict[str, UUID]:
        """Create topics and return their IDs once all of them can be used. Raises the first error.

        - `topics`: Topics to create.
        - `validate_only`: Whether the broker only checks the request and changes nothing.
        - `timeout_ms`: Longest time that the broker waits, in milliseconds (default:
          request_timeout_ms).
        """
        wanted = objects_of(NewTopic, topics, "NewTopic(name)")
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in wanted],
            timeout_ms=self._timeout_ms(timeout_ms),
            validate_only=validate_only,
        )
        response = await self._controller(request, CreateTopicsResponse)
        for topic in response.topics:
            check(topic.error_code, topic.name, topic.error_message)
        if not validate_only:
            await self._until_led([topic.name for topic in wanted])
        return {topic.name: topic.topic_id for topic in response.topics}

    async def delete_topics(self, names: Iterable[str], *, timeout_ms: Millis | None = None) -> None:
        """Delete topics with all their records, and wait until they are gone. Raises the first error.

        - `names`: Names of the topics.
        - `timeout_ms`: Longest time that the broker waits, in milliseconds (default:
          request_timeout_ms).
        """
        listed = listed_names("topic", names)
        timeout = self._timeout_ms(timeout_ms)

        def question(connection: BrokerConnection) -> Message:
            if connection.version_of(DeleteTopicsRequest) >= _DELETE_BY_STATE:
                return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in listed], timeout_ms=timeout)
            return DeleteTopicsRequest(topic_names=listed, timeout_ms=timeout)

        response = await self._controller(question, DeleteTopicsResponse)
        for result in response.responses:
            check(result.error_code, result.name or "", result.error_message)
        await self._until_gone({result.name or "": result.topic_id for result in response.responses})

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, OffsetSpec | Millis], *, read_committed: bool = False
    ) -> dict[TopicPartition, FoundOffset | None]:
        """Return the offset of each partition's start, end, or first record at or after a timestamp.

        The value is None if all records are older than the timestamp.

        - `wanted`: What to find in each partition: an OffsetSpec, or a timestamp in milliseconds
          since 1970.
        - `read_committed`: Whether the end is the last stable offset instead of the high watermark.
        """
        return await list_offsets(self._cluster, wanted, read_committed=read_committed)

    async def create_partitions(self, topic: str, total: int, *, validate_only: bool = False) -> None:
        """Increase a topic's partition count to `total`. Keys then map anew, and consumers rebalance.

        - `topic`: Name of the topic.
        - `total`: New number of partitions, which must be larger than the current one.
        - `validate_only`: Whether the broker only checks the request and changes nothing.
        """
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(
                    name=name_of("topic", topic), count=whole_number("total", total, None), assignments=None
                )
            ],
            timeout_ms=self._options.request_timeout_ms,
            validate_only=validate_only,
        )
        response = await self._controller(request, CreatePartitionsResponse)
        for result in response.results:
            check(result.error_code, result.name, result.error_message)
        if not validate_only:
            await self._until_led([topic], total)

    # -- logs

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete records before these offsets (-1: all records) and return the new start offsets.

        Raises the first error, such as OFFSET_OUT_OF_RANGE, after the other partitions are done.

        - `before`: Offset of the first record to keep, by partition; -1 deletes all records.
        """
        return await delete_records(self._cluster, before)

    async def describe_log_dirs(self, topics: Collection[str] | None = None) -> list[LogDirectory]:
        """Return each broker's log directories.

        Each has the sizes of the partitions of these topics, or of all, in bytes.

        - `topics`: Names of topics whose partitions to list (default: all).
        """
        return await describe_log_dirs(self._cluster, None if topics is None else listed_names("topic", topics))

    async def describe_producers(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        """Return the active producers of each partition: IDs, last sequence numbers and open transactions.

        - `partitions`: Partitions to ask for.
        """
        return await describe_producers(self._cluster, partitions_of(partitions))

    # -- transactions

    async def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        min_duration_ms: Millis | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional IDs of all coordinators that match all filters, sorted by name.

        - `states`: States to select, such as Ongoing (default: all).
        - `producer_ids`: Producer IDs to select (default: all).
        - `min_duration_ms`: Minimum age of the transaction in milliseconds (default: any).
        - `pattern`: Regular expression (RE2) of the transactional ID (default: any).
        """
        if pattern is not None and not isinstance(pattern, str):
            raise ConfigError(f"the pattern is {pattern!r}, but must be text.")
        return await list_transactions(
            self._cluster,
            listed_names("state", states),
            whole_numbers("a producer ID", producer_ids),
            None if min_duration_ms is None else whole_number("min_duration_ms", min_duration_ms),
            pattern,
        )

    async def describe_transactions(self, transactional_ids: Collection[str]) -> dict[str, TransactionDescription]:
        """Return the transaction of each transactional ID. Raises TRANSACTIONAL_ID_NOT_FOUND.

        - `transactional_ids`: Transactional IDs to ask for.
        """
        return await describe_transactions(self._cluster, listed_names("transactional ID", transactional_ids))

    async def abort_transaction(self, partition: TopicPartition, producer: ActiveProducer) -> None:
        """Abort the open transaction of a producer in one partition, without its coordinator.

        Only for a transaction that hangs: in another one, its coordinator may commit the other
        partitions.

        - `partition`: Partition with the open transaction.
        - `producer`: Producer from `describe_producers`.
        """
        if not isinstance(producer, ActiveProducer):
            raise ConfigError(f"{producer!r} is no producer of a partition: pass one that describe_producers returned.")
        await abort_transaction(self._cluster, partition_of(partition), producer)

    async def fence_producers(self, transactional_ids: Collection[str]) -> dict[str, ProducerId]:
        """Fence the producers of these transactional IDs and abort their open transactions.

        Returns the new producer ID and epoch of each transactional ID.

        - `transactional_ids`: Transactional IDs whose producers to fence.
        """
        return await fence_producers(self._cluster, listed_names("transactional ID", transactional_ids))

    async def find_hanging_transactions(
        self, partitions: Collection[TopicPartition], *, max_transaction_timeout_ms: Millis = 900_000
    ) -> list[HangingTransaction]:
        """Return the open transactions of these partitions that no coordinator will end.

        - `partitions`: Partitions to look at.
        - `max_transaction_timeout_ms`: The brokers' transaction.max.timeout.ms. A transaction that has
          written since is not looked at.
        """
        return await find_hanging_transactions(
            self._cluster,
            partitions_of(partitions),
            whole_number("max_transaction_timeout_ms", max_transaction_timeout_ms),
        )

    async def elect_leaders(
        self, partitions: Collection[TopicPartition] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, ErrorCode]:
        """Elect the preferred leaders of these partitions, or of all, and return the result for each.

        ELECTION_NOT_NEEDED means that the preferred leader already leads. `unclean` elects any
        replica, which may lose records.

        - `partitions`: Partitions that need a leader (default: all).
        - `unclean`: Whether a replica that is not in sync may become the leader.
        """
        wanted = None if partitions is None else partitions_of(partitions)
        return await elect_leaders(self._cluster, wanted, unclean=unclean)

    # -- configs

    async def list_config_resources(self, kinds: Collection[ConfigKind] = ()) -> list[tuple[ConfigKind, str]]:
        """Return the resources that have configs (topics, brokers, groups), of these kinds or of all.

        - `kinds`: Kinds of resources to return (default: all).
        """
        wanted = objects_of(ConfigKind, kinds, "ConfigKind.TOPIC")
        return await list_config_resources(self._cluster, wanted)

    async def describe_configs(self, kind: ConfigKind, name: str) -> dict[str, ConfigValue]:
        """Return the configs of a topic, a broker (node ID as text; "" for cluster-wide defaults) or a group.

        - `kind`: Kind of the resource.
        - `name`: Name of the topic or the group, or node ID of the broker as text.
        """
        return await describe_configs(self._cluster, *checked_resource(kind, name))

    async def alter_configs(self, kind: ConfigKind, name: str, changes: Mapping[str, str | None]) -> None:
        """Set configs, or reset them to their defaults (None). Other configs remain unchanged.

        - `kind`: Kind of the resource.
        - `name`: Name of the topic or the group, or node ID of the broker as text.
        - `changes`: New value by name of the config; None resets it to its default.
        """
        await alter_configs(self._cluster, *checked_resource(kind, name), checked_changes(changes))

    # -- users

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, list[ScramCredentialInfo]]:
        """Return the SCRAM mechanisms and iterations of these users, or of all.

        Raises RESOURCE_NOT_FOUND for a user without credentials.

        - `users`: Names of the users (default: all that have credentials).
        """
        return await describe_user_scram_credentials(self._cluster, users)

    async def alter_user_scram_credentials(self, alterations: Iterable[UserScramCredentialAlteration]) -> None:
        """Set and delete SCRAM credentials. The broker never receives a password.

        Raises the first error of a request, such as RESOURCE_NOT_FOUND, after its other users are
        changed. A broker takes one alteration of a user in a request, so further ones are sent
        afterwards.

        - `alterations`: Credentials to set and to delete.
        """
        await alter_user_scram_credentials(self._cluster, alterations)

    # -- ACLs

    async def create_acls(self, acls: Iterable[Acl]) -> None:
        """Create ACLs. One that exists already remains as it is.

        Raises AclsFailedError, with the error of each ACL that is rejected; the others are created.

        - `acls`: ACLs to create.
        """
        await create_acls(self._cluster, acls)

    async def describe_acls(self, acl_filter: AclFilter | None = None) -> list[Acl]:
        """Return the ACLs that the filter finds, or all, sorted. Raises SECURITY_DISABLED without an authorizer.

        - `acl_filter`: Filter of the ACLs to return (default: all).
        """
        return await describe_acls(self._cluster, AclFilter() if acl_filter is None else acl_filter)

    async def delete_acls(self, filters: Iterable[AclFilter]) -> dict[AclFilter, list[Acl]]:
        """Delete the ACLs that the filters find, and return them by filter.

        Raises AclsFailedError, with the error of each filter or ACL that fails; other ACLs are
        deleted.

        - `filters`: Filters; an ACL is deleted if one of them finds it.
        """
        return await delete_acls(self._cluster, filters)

    # -- quotas

    async def describe_client_quotas(
        self, quota_filter: ClientQuotaFilter | None = None
    ) -> dict[ClientQuotaEntity, dict[str, float]]:
        """Return the quotas of the users, client IDs and IP addresses that the filter finds, or all.

        - `quota_filter`: Filter of the entities to return (default: all).
        """
        return await describe_client_quotas(
            self._cluster, ClientQuotaFilter() if quota_filter is None else quota_filter
        )

    async def alter_client_quotas(
        self, changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> None:
        """Set quotas such as `producer_byte_rate`, or remove them (None). Other quotas remain unchanged.

        Raises the first error, such as INVALID_REQUEST, after the other entities are changed.

        - `changes`: New value by name of the quota, for each entity; None removes the quota.
        - `validate_only`: Whether the broker only checks the request and changes nothing.
        """
        await alter_client_quotas(self._cluster, changes, validate_only=validate_only)

    # -- features

    async def describe_features(self) -> FeatureMetadata:
        """Return the cluster's features: their finalized levels, and the levels that the broker supports."""
        return await describe_features(self._cluster)

    async def update_features(self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False) -> None:
        """Raise or lower the finalized levels of features such as `transaction.version`: all, or none after an error.

        Raises INVALID_UPDATE_VERSION for a level or feature that the brokers do not support, and for a downgrade
        without its `UpgradeType`. Brokers and their clients see the change some time later.

        - `updates`: New level by name of the feature.
        - `validate_only`: Whether the broker only checks the request and changes nothing.
        """
        await update_features(self._cluster, updates, validate_only=validate_only)

    # -- groups

    async def list_groups(self, states: Collection[str] = (), types: Collection[str] = ()) -> list[GroupListing]:
        """Return the groups of all brokers, sorted by name.

        `states` and `types` select groups; empty ones select all.

        - `states`: Names of states, such as `Stable` (default: all).
        - `types`: Names of types: `classic` or `consumer` (default: all).
        """
        return await list_groups(self._cluster, listed_names("state", states), listed_names("type", types))

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """Return the state and members of each group, in the given order.

        - `group_ids`: Names of the groups.
        """
        wanted = listed_names("group", group_ids)
        return {group_id: await describe_group(self._cluster, group_id) for group_id in wanted}

    async def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups and their offsets. Raises NON_EMPTY_GROUP if a group has members.

        - `group_ids`: Names of the groups.
        """
        for group_id in listed_names("group", group_ids):
            await delete_group(self._cluster, group_id)

    async def remove_members(self, group_id: str, members: Iterable[str], *, instances: Iterable[str] = ()) -> None:
        """Remove members by member ID, or static members by instance ID. They may join again.

        - `group_id`: Name of the group.
        - `members`: Member IDs.
        - `instances`: Instance IDs of static members.
        """
        member_ids, instance_ids = listed_names("member", members), listed_names("static member", instances)
        await remove_members(self._cluster, name_of("group", group_id), member_ids, instance_ids)

    async def remove_all_members(self, group_id: str) -> tuple[MemberDescription, ...]:
        """Remove all current members, including static ones, and return them.

        - `group_id`: Name of the group.
        """
        return await remove_all_members(self._cluster, name_of("group", group_id))

    async def group_offsets(
        self,
        group_id: str,
        partitions: Collection[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets, in these partitions or in all.

        - `group_id`: Name of the group.
        - `partitions`: Partitions to return (default: all with a committed offset).
        - `require_stable`: Whether to wait for the end of transactions that may change these offsets, as members of
          the group do. Otherwise, offsets in open transactions do not count.
        """
        wanted = None if partitions is None else partitions_of(partitions)
        return await committed_offsets(self._cluster, name_of("group", group_id), wanted, require_stable=require_stable)

    async def group_lag(self, group_id: str) -> list[GroupOffset]:
        """Return committed offset, end and lag of each partition with a committed offset or an assignment.

        - `group_id`: Name of the group.
        """
        return await group_lag(self._cluster, name_of("group", group_id))

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> None:
        """Commit offsets for a group without members. Raises UNKNOWN_MEMBER_ID if it has members.

        - `group_id`: Name of the group.
        - `offsets`: Offset of the next record to process, by partition.
        """
        await alter_offsets(self._cluster, name_of("group", group_id), offsets)

    async def delete_group_offsets(self, group_id: str, partitions: Collection[TopicPartition]) -> None:
        """Delete committed offsets. Raises GROUP_SUBSCRIBED_TO_TOPIC if a member subscribes to the topic.

        - `group_id`: Name of the group.
        - `partitions`: Partitions whose offsets to delete.
        """
        await delete_offsets(self._cluster, name_of("group", group_id), partitions_of(partitions))

    # -- requests

    async def _controller(self, request: "Message | Callable[[BrokerConnection], Message]", answer: type[_R]) -> _R:
        """Send a controller request to any broker, which forwards it (KIP-590)."""

        async def attempt() -> _R:
            return await self._cluster.ask_any(request, answer)

        return await self._retrying(attempt)

    async def _until_led(self, names: list[str], least: int = 1) -> None:
        async def attempt() -> None:
            known = await self._cluster.metadata_of(names)
            for name in names:
                topic = known.topics.get(name)
                if (
                    topic is None
                    or len(topic.leaders) < least
                    or None in {leader.node_id for leader in topic.leaders.values()}
                ):
                    raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{name} has no leaders yet")

        await self._retrying(attempt)

    async def _until_gone(self, deleted: Mapping[str, UUID]) -> None:
        """Wait until no broker that is asked knows the deleted topics.

        A client that uses a topic may create a new one of the same name at any time. It has another
        ID. Old brokers send no IDs; then a topic of the name counts as the deleted one.
        """

        async def attempt() -> None:
            known = await self._cluster.metadata_of(list(deleted))
            for name, topic_id in deleted.items():
                topic = known.topics.get(name)
                if topic is None or not topic.exists:
                    continue
                if topic.topic_id == topic_id or NO_TOPIC_ID in (topic.topic_id, topic_id):
                    raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{name} is not deleted yet")

        await self._retrying(attempt)

    def _timeout_ms(self, timeout_ms: Millis | None) -> Millis:
        return self._options.request_timeout_ms if timeout_ms is None else whole_number("timeout_ms", timeout_ms)

    async def _retrying(self, attempt: Callable[[], Awaitable[_T]]) -> _T:
        return await self._cluster.retrying(attempt)


def _or_default(name: str, given: int | None) -> int:
    return _BROKER_DEFAULT if given is None else whole_number(name, given, None)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=name_of("topic", topic.name),
        num_partitions=_or_default("partitions", topic.partitions),
        replication_factor=_or_default("replication_factor", topic.replication_factor),
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in checked_changes(topic.configs).items()
        ],
    )
