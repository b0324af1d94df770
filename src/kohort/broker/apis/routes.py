"""The served requests, with their versions and handlers."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kohort.broker.apis import (
    acls,
    alter_configs,
    api_versions,
    client_quotas,
    consumer_groups,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    find_coordinator,
    groups,
    init_producer_id,
    list_config_resources,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    offsets,
    produce,
    reassignments,
    sasl,
    scram_credentials,
    telemetry,
    transactions,
    txn_offset_commit,
    update_features,
)
from kohort.broker.net import Call, Route, Served
from kohort.wire.api import APIS, flexible_header, flexible_response
from kohort.wire.codec import decoder, encoder
from kohort.wire.messages.api_key import ApiKey


class Dependencies(
    acls.Dependencies,
    alter_configs.Dependencies,
    api_versions.Dependencies,
    client_quotas.Dependencies,
    consumer_groups.Dependencies,
    create_partitions.Dependencies,
    create_topics.Dependencies,
    delete_groups.Dependencies,
    delete_records.Dependencies,
    describe_cluster.Dependencies,
    describe_configs.Dependencies,
    describe_log_dirs.Dependencies,
    describe_producers.Dependencies,
    describe_topic_partitions.Dependencies,
    elect_leaders.Dependencies,
    fetch.Dependencies,
    find_coordinator.Dependencies,
    groups.Dependencies,
    init_producer_id.Dependencies,
    list_config_resources.Dependencies,
    list_offsets.Dependencies,
    metadata.Dependencies,
    offset_for_leader_epoch.Dependencies,
    offsets.Dependencies,
    produce.Dependencies,
    reassignments.Dependencies,
    sasl.Dependencies,
    scram_credentials.Dependencies,
    telemetry.Dependencies,
    transactions.Dependencies,
    txn_offset_commit.Dependencies,
    update_features.Dependencies,
    Protocol,
):
    """The parts of the broker that all handlers together use."""


_Handler = Callable[[Dependencies, Call, Any], None]

_HANDLERS: Mapping[ApiKey, tuple[_Handler, int]] = {
    ApiKey.PRODUCE: (produce.handle, 13),
    ApiKey.FETCH: (fetch.handle, 17),
    ApiKey.LIST_OFFSETS: (list_offsets.handle, 10),
    ApiKey.METADATA: (metadata.handle, 13),
    ApiKey.OFFSET_COMMIT: (offsets.commit, 10),
    ApiKey.OFFSET_FETCH: (offsets.fetch, 10),
    ApiKey.FIND_COORDINATOR: (find_coordinator.handle, 6),
    ApiKey.JOIN_GROUP: (groups.member, 9),
    ApiKey.HEARTBEAT: (groups.heartbeat, 4),
    ApiKey.LEAVE_GROUP: (groups.member, 5),
    ApiKey.SYNC_GROUP: (groups.member, 5),
    ApiKey.DESCRIBE_GROUPS: (groups.describe, 6),
    ApiKey.LIST_GROUPS: (groups.list_all, 5),
    ApiKey.SASL_HANDSHAKE: (sasl.handshake, 1),
    ApiKey.API_VERSIONS: (api_versions.handle, 4),
    ApiKey.CREATE_TOPICS: (create_topics.create, 7),
    ApiKey.DELETE_TOPICS: (create_topics.delete, 6),
    ApiKey.DELETE_RECORDS: (delete_records.handle, 2),
    ApiKey.INIT_PRODUCER_ID: (init_producer_id.handle, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (offset_for_leader_epoch.handle, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (transactions.add_partitions, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: (transactions.of_one, 4),
    ApiKey.END_TXN: (transactions.of_one, 5),
    ApiKey.WRITE_TXN_MARKERS: (transactions.write_markers, 2),
    ApiKey.TXN_OFFSET_COMMIT: (txn_offset_commit.handle, 5),
    ApiKey.DESCRIBE_ACLS: (acls.describe, 3),
    ApiKey.CREATE_ACLS: (acls.create, 3),
    ApiKey.DELETE_ACLS: (acls.delete, 3),
    ApiKey.DESCRIBE_CONFIGS: (describe_configs.handle, 4),
    ApiKey.ALTER_CONFIGS: (alter_configs.replace_all, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (describe_log_dirs.handle, 5),
    ApiKey.SASL_AUTHENTICATE: (sasl.authenticate, 2),
    ApiKey.CREATE_PARTITIONS: (create_partitions.handle, 3),
    ApiKey.DELETE_GROUPS: (delete_groups.groups, 2),
    ApiKey.ELECT_LEADERS: (elect_leaders.handle, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (alter_configs.incremental, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (reassignments.alter, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (reassignments.list_all, 0),
    ApiKey.OFFSET_DELETE: (delete_groups.offsets, 0),
    ApiKey.UPDATE_FEATURES: (update_features.handle, 2),
    ApiKey.DESCRIBE_CLUSTER: (describe_cluster.handle, 2),
    ApiKey.DESCRIBE_PRODUCERS: (describe_producers.handle, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (transactions.describe, 0),
    ApiKey.LIST_TRANSACTIONS: (transactions.list_all, 2),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (client_quotas.describe, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (client_quotas.alter, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (scram_credentials.describe, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (scram_credentials.alter, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (consumer_groups.heartbeat, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (consumer_groups.describe, 1),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (telemetry.ask, 0),
    ApiKey.PUSH_TELEMETRY: (telemetry.push, 0),
    ApiKey.LIST_CONFIG_RESOURCES: (list_config_resources.handle, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (describe_topic_partitions.handle, 0),
}
"""Handler and highest served version of each API key."""

TELEMETRY = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
"""API keys that a broker serves only if it receives telemetry (KIP-714)."""

_HEARTBEATS = {ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT}

SERVED: Served = [
    (int(key), APIS[key].min_version, min(highest, APIS[key].max_version))
    for key, (_, highest) in sorted(_HANDLERS.items())
]


def _compile(api_key: int, version: int) -> Route:
    api = APIS[api_key]
    handler, _ = _HANDLERS[ApiKey(api_key)]
    decode = decoder(api.request, version)
    encode: Any = encoder(api.response, version)
    return Route(
        api_key=api_key,
        version=version,
        decode=decode,
        encode=encode,
        handler=handler,
        flexible_request=flexible_header(api_key, version),
        flexible_answer=flexible_response(api_key, version),
        repeats=api_key in _HEARTBEATS,
    )


_compiled: dict[tuple[int, int], Route] = {}
"""Routes used so far by any broker of this process."""


class Routes:
    """The routes of one broker: those of the versions that it announces."""

    def __init__(self, served: Served) -> None:
        self._versions = {key: (low, high) for key, low, high in served}
        self.used: dict[tuple[int, int], Route] = {}
        """By key and version, the routes used so far; the dispatcher looks here first."""

    def find(self, api_key: int, version: int) -> Route | None:
        """Return the route of a request, compiled on first use; None if it is not served."""
        low, high = self._versions.get(api_key, (0, -1))
        if not low <= version <= high:
            return None
        found = _compiled.get((api_key, version))
        if found is None:
            found = _compiled[api_key, version] = _compile(api_key, version)
        self.used[api_key, version] = found
        return found
