"""The guard of each API: what Apache Kafka checks before it handles a request."""

from collections.abc import Mapping

from kohort.broker.access import cluster_guards, group_guards, topic_guards, transaction_guards
from kohort.broker.access.access_control import AccessControl
from kohort.broker.access.cluster_guards import cluster
from kohort.broker.access.request_access import Guard, RequestAccess
from kohort.broker.logs import Topics
from kohort.broker.net import Call
from kohort.security import Operation
from kohort.wire.codec import Message
from kohort.wire.messages.api_key import ApiKey

GUARDS: Mapping[ApiKey, Guard] = {
    ApiKey.PRODUCE: topic_guards.produce,
    ApiKey.FETCH: topic_guards.fetch,
    ApiKey.LIST_OFFSETS: topic_guards.list_offsets,
    ApiKey.METADATA: topic_guards.metadata,
    ApiKey.OFFSET_COMMIT: group_guards.offset_commit,
    ApiKey.OFFSET_FETCH: group_guards.offset_fetch,
    ApiKey.FIND_COORDINATOR: group_guards.find_coordinator,
    ApiKey.JOIN_GROUP: group_guards.member,
    ApiKey.HEARTBEAT: group_guards.member,
    ApiKey.LEAVE_GROUP: group_guards.member,
    ApiKey.SYNC_GROUP: group_guards.member,
    ApiKey.DESCRIBE_GROUPS: group_guards.describe_groups,
    ApiKey.LIST_GROUPS: group_guards.list_groups,
    ApiKey.CREATE_TOPICS: topic_guards.create_topics,
    ApiKey.DELETE_TOPICS: topic_guards.delete_topics,
    ApiKey.DELETE_RECORDS: topic_guards.delete_records,
    ApiKey.INIT_PRODUCER_ID: topic_guards.init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: topic_guards.offset_for_leader_epoch,
    ApiKey.ADD_PARTITIONS_TO_TXN: transaction_guards.add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: transaction_guards.add_offsets,
    ApiKey.END_TXN: transaction_guards.end,
    ApiKey.WRITE_TXN_MARKERS: transaction_guards.write_markers,
    ApiKey.TXN_OFFSET_COMMIT: transaction_guards.commit_offsets,
    ApiKey.DESCRIBE_ACLS: cluster(Operation.DESCRIBE, cluster_guards.described_acls),
    ApiKey.CREATE_ACLS: cluster(Operation.ALTER, cluster_guards.created_acls),
    ApiKey.DELETE_ACLS: cluster(Operation.ALTER, cluster_guards.deleted_acls),
    ApiKey.DESCRIBE_CONFIGS: cluster_guards.describe_configs,
    ApiKey.ALTER_CONFIGS: cluster_guards.alter_configs,
    ApiKey.DESCRIBE_LOG_DIRS: cluster(Operation.DESCRIBE, cluster_guards.log_dirs),
    ApiKey.CREATE_PARTITIONS: topic_guards.create_partitions,
    ApiKey.DELETE_GROUPS: group_guards.delete_groups,
    ApiKey.ELECT_LEADERS: cluster_guards.elect_leaders,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: cluster_guards.incremental_alter_configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: cluster(Operation.ALTER, cluster_guards.altered_reassignments),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: cluster(Operation.DESCRIBE, cluster_guards.listed_reassignments),
    ApiKey.OFFSET_DELETE: group_guards.offset_delete,
    ApiKey.DESCRIBE_TRANSACTIONS: transaction_guards.describe,
    ApiKey.LIST_TRANSACTIONS: transaction_guards.list_all,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: cluster(Operation.DESCRIBE_CONFIGS, cluster_guards.described_quotas),
    ApiKey.ALTER_CLIENT_QUOTAS: cluster(Operation.ALTER_CONFIGS, cluster_guards.altered_quotas),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: cluster(Operation.DESCRIBE, cluster_guards.described_credentials),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: cluster(Operation.ALTER, cluster_guards.altered_credentials),
    ApiKey.UPDATE_FEATURES: cluster(Operation.ALTER, cluster_guards.updated_features),
    ApiKey.DESCRIBE_CLUSTER: cluster_guards.describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: topic_guards.describe_producers,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: group_guards.consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: group_guards.consumer_group_describe,
    ApiKey.LIST_CONFIG_RESOURCES: cluster(Operation.DESCRIBE_CONFIGS, cluster_guards.config_resources),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: topic_guards.describe_topic_partitions,
}

OPEN = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
    }
)
"""APIs that any client may use."""


def guarded(control: AccessControl, topics: Topics, call: Call, request: Message) -> Message | None:
    """Return the part of the request that the client may do; None if it may do nothing and has its answer."""
    key = ApiKey(call.route.api_key)
    if key in OPEN:
        return request
    # An API without a guard is a bug, and must not give access: KeyError closes the connection.
    found: Message | None = GUARDS[key](RequestAccess(control, call, topics), request)
    return found
