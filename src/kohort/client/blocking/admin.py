"""`kohort.Admin` for plain threads."""

from collections.abc import Collection, Iterable, Mapping
from typing import Unpack

from kohort.client.admin import Admin as AsyncioAdmin
from kohort.client.admin import (
    ClientQuotaEntity,
    ClientQuotaFilter,
    ConfigKind,
    ConfigValue,
    FeatureMetadata,
    FeatureUpdate,
    GroupDescription,
    GroupListing,
    GroupOffset,
    HangingTransaction,
    LogDirectory,
    MemberDescription,
    NewTopic,
    ScramCredentialInfo,
    TransactionDescription,
    TransactionListing,
    UserScramCredentialAlteration,
)
from kohort.client.blocking.loop import BlockingClient, call_in_loop
from kohort.client.keywords import AdminKeywords
from kohort.client.metrics import MetricName, MetricValue
from kohort.client.offset_spec import OffsetSpec
from kohort.errors import ErrorCode
from kohort.member import OffsetAndMetadata
from kohort.model import UUID, Millis, TopicPartition
from kohort.requests import ActiveProducer, ClusterMetadata, FoundOffset, ProducerId, TopicMetadata
from kohort.security import Acl, AclFilter


class Admin(BlockingClient):
    """Blocking version of `kohort.Admin`.

    Use it as a context manager, or call `close`. Any number of threads may share one client. A
    forked process needs its own admin client; there the methods raise ConcurrentUseError.
    """

    def __init__(self, **options: Unpack[AdminKeywords]) -> None:
        super().__init__("kohort-admin")
        try:
            self._admin = self._call(lambda: call_in_loop(lambda: AsyncioAdmin(**options)))
        except BaseException:
            self._stop()
            raise
        self._made = True

    def metrics(self) -> dict[MetricName, MetricValue]:
        """See `kohort.Admin.metrics`."""
        return self._call(lambda: call_in_loop(self._admin.metrics))

    def describe_cluster(self) -> ClusterMetadata:
        """See `kohort.Admin.describe_cluster`."""
        return self._call(self._admin.describe_cluster)

    def list_topics(self, *, internal: bool = False) -> list[str]:
        """See `kohort.Admin.list_topics`."""
        return self._call(lambda: self._admin.list_topics(internal=internal))

    def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, TopicMetadata]:
        """See `kohort.Admin.describe_topics`."""
        return self._call(lambda: self._admin.describe_topics(names))

    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout_ms: Millis | None = None
    ) -> dict[str, UUID]:
        """See `kohort.Admin.create_topics`."""
        return self._call(lambda: self._admin.create_topics(topics, validate_only=validate_only, timeout_ms=timeout_ms))

    def delete_topics(self, names: Iterable[str], *, timeout_ms: Millis | None = None) -> None:
        """See `kohort.Admin.delete_topics`."""
        self._call(lambda: self._admin.delete_topics(names, timeout_ms=timeout_ms))

    def list_offsets(
        self, wanted: Mapping[TopicPartition, OffsetSpec | Millis], *, read_committed: bool = False
    ) -> dict[TopicPartition, FoundOffset | None]:
        """See `kohort.Admin.list_offsets`."""
        return self._call(lambda: self._admin.list_offsets(wanted, read_committed=read_committed))

    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, list[ScramCredentialInfo]]:
        """See `kohort.Admin.describe_user_scram_credentials`."""
        return self._call(lambda: self._admin.describe_user_scram_credentials(users))

    def alter_user_scram_credentials(self, alterations: Iterable[UserScramCredentialAlteration]) -> None:
        """See `kohort.Admin.alter_user_scram_credentials`."""
        self._call(lambda: self._admin.alter_user_scram_credentials(alterations))

    def create_acls(self, acls: Iterable[Acl]) -> None:
        """See `kohort.Admin.create_acls`."""
        self._call(lambda: self._admin.create_acls(acls))

    def describe_acls(self, acl_filter: AclFilter | None = None) -> list[Acl]:
        """See `kohort.Admin.describe_acls`."""
        return self._call(lambda: self._admin.describe_acls(acl_filter))

    def delete_acls(self, filters: Iterable[AclFilter]) -> dict[AclFilter, list[Acl]]:
        """See `kohort.Admin.delete_acls`."""
        return self._call(lambda: self._admin.delete_acls(filters))

    def describe_client_quotas(
        self, quota_filter: ClientQuotaFilter | None = None
    ) -> dict[ClientQuotaEntity, dict[str, float]]:
        """See `kohort.Admin.describe_client_quotas`."""
        return self._call(lambda: self._admin.describe_client_quotas(quota_filter))

    def alter_client_quotas(
        self, changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> None:
        """See `kohort.Admin.alter_client_quotas`."""
        self._call(lambda: self._admin.alter_client_quotas(changes, validate_only=validate_only))

    def describe_features(self) -> FeatureMetadata:
        """See `kohort.Admin.describe_features`."""
        return self._call(lambda: self._admin.describe_features())

    def update_features(self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False) -> None:
        """See `kohort.Admin.update_features`."""
        self._call(lambda: self._admin.update_features(updates, validate_only=validate_only))

    def list_groups(self, states: Collection[str] = (), types: Collection[str] = ()) -> list[GroupListing]:
        """See `kohort.Admin.list_groups`."""
        return self._call(lambda: self._admin.list_groups(states, types))

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """See `kohort.Admin.describe_groups`."""
        return self._call(lambda: self._admin.describe_groups(group_ids))

    def group_offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """See `kohort.Admin.group_offsets`."""
        return self._call(lambda: self._admin.group_offsets(group_id, partitions, require_stable=require_stable))

    def group_lag(self, group_id: str) -> list[GroupOffset]:
        """See `kohort.Admin.group_lag`."""
        return self._call(lambda: self._admin.group_lag(group_id))

    def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]) -> None:
        """See `kohort.Admin.alter_group_offsets`."""
        self._call(lambda: self._admin.alter_group_offsets(group_id, offsets))

    def create_partitions(self, topic: str, total: int, *, validate_only: bool = False) -> None:
        """See `kohort.Admin.create_partitions`."""
        self._call(lambda: self._admin.create_partitions(topic, total, validate_only=validate_only))

    def describe_configs(self, kind: ConfigKind, name: str) -> dict[str, ConfigValue]:
        """See `kohort.Admin.describe_configs`."""
        return self._call(lambda: self._admin.describe_configs(kind, name))

    def alter_configs(self, kind: ConfigKind, name: str, changes: Mapping[str, str | None]) -> None:
        """See `kohort.Admin.alter_configs`."""
        self._call(lambda: self._admin.alter_configs(kind, name, changes))

    def delete_groups(self, group_ids: Iterable[str]) -> None:
        """See `kohort.Admin.delete_groups`."""
        self._call(lambda: self._admin.delete_groups(group_ids))

    def remove_members(self, group_id: str, members: Iterable[str], *, instances: Iterable[str] = ()) -> None:
        """See `kohort.Admin.remove_members`."""
        self._call(lambda: self._admin.remove_members(group_id, members, instances=instances))

    def remove_all_members(self, group_id: str) -> tuple[MemberDescription, ...]:
        """See `kohort.Admin.remove_all_members`."""
        return self._call(lambda: self._admin.remove_all_members(group_id))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """See `kohort.Admin.delete_records`."""
        return self._call(lambda: self._admin.delete_records(before))

    def describe_log_dirs(self, topics: Collection[str] | None = None) -> list[LogDirectory]:
        """See `kohort.Admin.describe_log_dirs`."""
        return self._call(lambda: self._admin.describe_log_dirs(topics))

    def delete_group_offsets(self, group_id: str, partitions: Collection[TopicPartition]) -> None:
        """See `kohort.Admin.delete_group_offsets`."""
        self._call(lambda: self._admin.delete_group_offsets(group_id, partitions))

    def describe_producers(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, list[ActiveProducer]]:
        """See `kohort.Admin.describe_producers`."""
        return self._call(lambda: self._admin.describe_producers(partitions))

    def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        min_duration_ms: Millis | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """See `kohort.Admin.list_transactions`."""
        return self._call(
            lambda: self._admin.list_transactions(
                states=states, producer_ids=producer_ids, min_duration_ms=min_duration_ms, pattern=pattern
            )
        )

    def describe_transactions(self, transactional_ids: Collection[str]) -> dict[str, TransactionDescription]:
        """See `kohort.Admin.describe_transactions`."""
        return self._call(lambda: self._admin.describe_transactions(transactional_ids))

    def abort_transaction(self, partition: TopicPartition, producer: ActiveProducer) -> None:
        """See `kohort.Admin.abort_transaction`."""
        self._call(lambda: self._admin.abort_transaction(partition, producer))

    def fence_producers(self, transactional_ids: Collection[str]) -> dict[str, ProducerId]:
        """See `kohort.Admin.fence_producers`."""
        return self._call(lambda: self._admin.fence_producers(transactional_ids))

    def find_hanging_transactions(
        self, partitions: Collection[TopicPartition], *, max_transaction_timeout_ms: Millis = 900_000
    ) -> list[HangingTransaction]:
        """See `kohort.Admin.find_hanging_transactions`."""
        return self._call(
            lambda: self._admin.find_hanging_transactions(
                partitions, max_transaction_timeout_ms=max_transaction_timeout_ms
            )
        )

    def elect_leaders(
        self, partitions: Collection[TopicPartition] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, ErrorCode]:
        """See `kohort.Admin.elect_leaders`."""
        return self._call(lambda: self._admin.elect_leaders(partitions, unclean=unclean))

    def list_config_resources(self, kinds: Collection[ConfigKind] = ()) -> list[tuple[ConfigKind, str]]:
        """See `kohort.Admin.list_config_resources`."""
        return self._call(lambda: self._admin.list_config_resources(kinds))

    def close(self) -> None:
        """Close the client and its event loop. Closing twice is allowed."""
        self._check_process()
        if self._stopped:
            return
        try:
            self._call(self._admin.close)
        finally:
            self._stop()

    def _abandon(self) -> None:
        self._thread.stop_soon(self._admin.close)
