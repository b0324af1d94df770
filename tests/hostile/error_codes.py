"""The error codes that a broker of classic groups gives, each beside an input that earns it.

An entry is played to both brokers by test_error_codes; what only ours says so, docs/interop.md explains.
"""

from __future__ import annotations

from collections.abc import Mapping

from kohort.errors import ErrorCode as E
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopicConfig
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.describe_cluster import DescribeClusterRequest
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.list_config_resources import ListConfigResourcesRequest
from kohort.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.hostile.error_inputs import (
    Case,
    a_second_holder,
    another_member_under_its_instance_id,
    batch_over_the_topics_own_limit,
    commit_before_the_assignment_is_there,
    credential_deleted,
    credentials_set,
    delete_a_tables_records,
    during_a_rebalance,
    gap_in_a_producers_numbers,
    keyless_in_a_table,
    leaders_of,
    legacy_config,
    member_of_another_group,
    offset_at,
    offsets_by_an_unknown_id,
    offsets_deleted,
    old_epoch_of_a_producer,
    records_deleted,
    users_named,
)
from tests.hostile.peer import Batch, old_message
from tests.interop.conversation.members import SUBSCRIPTION
from tests.interop.conversation.scenes.records import batch

GROUPS = (
    # Joining
    Case(E.INVALID_GROUP_ID, "a join of no group", lambda w: w.stranger.join("", group_id="")),
    Case(E.INVALID_SESSION_TIMEOUT, "a session of 5.999 s", lambda w: w.stranger.join("", session_timeout_ms=5_999)),
    Case(
        E.INVALID_SESSION_TIMEOUT,
        "a session of 30 minutes and 1 ms",
        lambda w: w.stranger.join("", session_timeout_ms=1_800_001),
    ),
    Case(E.INCONSISTENT_GROUP_PROTOCOL, "a join without assignors", lambda w: w.stranger.join("", protocols={})),
    Case(
        E.INCONSISTENT_GROUP_PROTOCOL,
        "an assignor that nobody else has",
        lambda w: w.stranger.join("", protocols={"mine": SUBSCRIPTION}),
    ),
    Case(
        E.INCONSISTENT_GROUP_PROTOCOL,
        "a Connect worker in a group of consumers",
        lambda w: w.stranger.join("", protocol_type="connect"),
    ),
    Case(
        E.INCONSISTENT_GROUP_PROTOCOL,
        "a subscription that cannot be read",
        lambda w: w.stranger.join("", protocols={"range": b"\0\1\xff\xff"}),
        ours_alone="Kafka takes it and lets the leader fail",
    ),
    Case(E.MEMBER_ID_REQUIRED, "a first join", lambda w: w.stranger.join("")),
    Case(E.UNKNOWN_MEMBER_ID, "a join with a made-up id", lambda w: w.stranger.join("", member_id="made-up")),
    Case(
        E.FENCED_INSTANCE_ID,
        "a join with an instance id and another member's id",
        lambda w: another_member_under_its_instance_id(w, "joins"),
    ),
    # Invalid requests of members
    Case(E.INVALID_GROUP_ID, "a sync in no group", lambda w: w.leader.sync("", group_id="")),
    Case(E.INVALID_GROUP_ID, "a heartbeat in no group", lambda w: w.leader.heartbeat("", group_id="")),
    Case(E.INVALID_GROUP_ID, "a leave of no group", lambda w: w.leader.leave("", group_id="")),
    Case(E.UNKNOWN_MEMBER_ID, "a sync before the join", lambda w: w.stranger.sync("", protocol_name="range")),
    Case(E.UNKNOWN_MEMBER_ID, "a heartbeat before the join", lambda w: w.stranger.heartbeat("")),
    Case(E.UNKNOWN_MEMBER_ID, "a leave before the join", lambda w: w.stranger.leave("")),
    Case(
        E.UNKNOWN_MEMBER_ID,
        "a heartbeat in a group that does not exist",
        lambda w: w.leader.heartbeat("", group_id=f"{w.group}-none"),
    ),
    Case(
        E.ILLEGAL_GENERATION,
        "a heartbeat of the generation before",
        lambda w: w.follower.heartbeat("", generation_id=w.follower.generation - 1),
    ),
    Case(
        E.ILLEGAL_GENERATION,
        "a sync of the next generation",
        lambda w: w.follower.sync("", generation_id=w.follower.generation + 1),
    ),
    Case(
        E.INCONSISTENT_GROUP_PROTOCOL,
        "a sync under another assignor than was voted for",
        lambda w: w.follower.sync("", protocol_name="sticky"),
    ),
    Case(
        E.FENCED_INSTANCE_ID,
        "a sync with an instance id and another member's id",
        lambda w: another_member_under_its_instance_id(w, "syncs"),
    ),
    Case(E.FENCED_INSTANCE_ID, "a heartbeat of whom a second holder replaced", a_second_holder),
    Case(
        E.REBALANCE_IN_PROGRESS,
        "a heartbeat while somebody joins",
        lambda w: during_a_rebalance(w, lambda member: member.heartbeat("")),
        rebalances=True,
    ),
    Case(
        E.REBALANCE_IN_PROGRESS,
        "a sync while somebody joins",
        lambda w: during_a_rebalance(w, lambda member: member.sync("")),
        rebalances=True,
    ),
    # Offsets
    Case(
        E.UNKNOWN_MEMBER_ID,
        "a commit by nobody while the group has members",
        lambda w: w.stranger.commit("", {(w.topic, 0): 1}),
    ),
    Case(E.UNKNOWN_MEMBER_ID, "a commit by another group's member", member_of_another_group),
    Case(
        E.ILLEGAL_GENERATION,
        "a commit of the generation before",
        lambda w: w.follower.commit("", {(w.topic, 0): 1}, generation_id_or_member_epoch=w.follower.generation - 1),
    ),
    Case(
        E.REBALANCE_IN_PROGRESS,
        "a commit between join and assignment",
        commit_before_the_assignment_is_there,
        rebalances=True,
    ),
    Case(
        E.FENCED_INSTANCE_ID,
        "a commit with an instance id and another member's id",
        lambda w: another_member_under_its_instance_id(w, "commits"),
    ),
    Case(
        E.OFFSET_METADATA_TOO_LARGE,
        "4,097 characters of metadata",
        lambda w: w.follower.commit("", {(w.topic, 0): 1}, metadata="x" * 4_097),
    ),
    Case(
        E.UNKNOWN_TOPIC_OR_PARTITION,
        "a commit for a topic that does not exist",
        lambda w: w.follower.commit("", {("no-such-topic", 0): 1}),
    ),
    Case(
        E.UNKNOWN_TOPIC_OR_PARTITION,
        "a commit for a partition that does not exist",
        lambda w: w.follower.commit("", {(w.topic, 7): 1}),
    ),
    Case(
        E.UNKNOWN_TOPIC_ID,
        "a commit for an id of no topic",
        lambda w: w.follower.commit("", {("no-such-topic", 0): 1}, v=10),
    ),
    Case(
        E.UNKNOWN_TOPIC_ID, "the offsets of an id of no topic", lambda w: w.ask(offsets_by_an_unknown_id(w.group), 10)
    ),
    # Operators
    Case(
        E.NON_EMPTY_GROUP,
        "delete a group with members",
        lambda w: w.ask(DeleteGroupsRequest(groups_names=[w.group]), 2),
    ),
    Case(
        E.GROUP_ID_NOT_FOUND,
        "delete a group that is not there",
        lambda w: w.ask(DeleteGroupsRequest(groups_names=["none"]), 2),
    ),
    Case(
        E.GROUP_ID_NOT_FOUND,
        "describe a group that is not there",
        lambda w: w.ask(DescribeGroupsRequest(groups=["none"]), 6),
    ),
    Case(
        E.GROUP_SUBSCRIBED_TO_TOPIC,
        "delete the offsets of a topic in use",
        lambda w: w.ask(offsets_deleted(w.group, w.topic), 0),
    ),
    Case(E.GROUP_ID_NOT_FOUND, "delete offsets of no group", lambda w: w.ask(offsets_deleted("none", w.topic), 0)),
    Case(E.INVALID_GROUP_ID, "delete offsets of the group ''", lambda w: w.ask(offsets_deleted("", w.topic), 0)),
    Case(
        E.INVALID_REQUEST,
        "the coordinator of something unknown",
        lambda w: w.ask(FindCoordinatorRequest(key_type=9, coordinator_keys=["x"]), 4),
    ),
)

RECORDS = (
    Case(E.CORRUPT_MESSAGE, "a wrong checksum", lambda w: w.produce(bytes(Batch(crc=1)))),
    Case(E.INVALID_RECORD, "half a batch", lambda w: w.produce(bytes(Batch())[:-3])),
    Case(E.INVALID_RECORD, "a record without a key for a compacted topic", keyless_in_a_table),
    Case(E.MESSAGE_TOO_LARGE, "a batch over message.max.bytes", lambda w: w.produce(batch("x" * 1_100_000))),
    Case(E.MESSAGE_TOO_LARGE, "a batch over the topic's max.message.bytes", batch_over_the_topics_own_limit),
    Case(
        E.UNSUPPORTED_COMPRESSION_TYPE,
        "a codec that nobody knows",
        lambda w: w.produce(bytes(Batch(attributes=7))),
        ours_alone="Kafka fails with an internal error",
    ),
    Case(
        E.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        "messages of the format before batches",
        lambda w: w.produce(old_message(1, b"x")),
        ours_alone="Kafka says INVALID_RECORD",
    ),
    Case(E.INVALID_REQUIRED_ACKS, "acks of 2", lambda w: w.produce(batch("x"), acks=2)),
    Case(E.INVALID_TIMESTAMP, "a record of the year 2100", lambda w: w.produce(batch("x", at=4_102_444_800_000))),
    Case(E.OUT_OF_ORDER_SEQUENCE_NUMBER, "a gap in a producer's numbers", gap_in_a_producers_numbers),
    Case(E.INVALID_PRODUCER_EPOCH, "an epoch before the producer's last", old_epoch_of_a_producer),
    Case(
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "a batch of a transaction without an ID",
        lambda w: w.produce(batch("x", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)),
    ),
    Case(E.UNKNOWN_TOPIC_OR_PARTITION, "records for no topic", lambda w: w.produce(batch("x"), topic="none")),
    Case(E.UNKNOWN_TOPIC_ID, "records for no topic's id", lambda w: w.produce(batch("x"), topic="none", version=13)),
    Case(E.OFFSET_OUT_OF_RANGE, "a fetch behind the end", lambda w: w.fetch(fetch_offset=99)),
    Case(E.UNKNOWN_LEADER_EPOCH, "a fetch at an epoch to come", lambda w: w.fetch(current_leader_epoch=99)),
    Case(E.UNKNOWN_TOPIC_ID, "a fetch of no topic's id", lambda w: w.fetch(13, topic="none")),
    Case(E.UNKNOWN_TOPIC_OR_PARTITION, "a fetch of a partition too many", lambda w: w.fetch(partition=7)),
    Case(E.FETCH_SESSION_ID_NOT_FOUND, "a fetch session that was never opened", lambda w: w.fetch(session=77)),
    Case(E.UNKNOWN_LEADER_EPOCH, "an offset at an epoch to come", lambda w: w.ask(offset_at(w.topic, -1, 99), 9)),
)

TOPICS = (
    Case(E.INVALID_TOPIC_EXCEPTION, "a topic with a slash", lambda w: w.create("a/b")),
    Case(E.TOPIC_ALREADY_EXISTS, "a topic that exists", lambda w: w.create(w.topic)),
    Case(E.INVALID_PARTITIONS, "a topic of no partitions", lambda w: w.create(num_partitions=0)),
    Case(E.INVALID_PARTITIONS, "fewer partitions than there are", lambda w: w.partitions(1)),
    Case(E.INVALID_REPLICATION_FACTOR, "three replicas on one broker", lambda w: w.create(replication_factor=3)),
    Case(
        E.INVALID_REPLICA_ASSIGNMENT,
        "a partition on a broker that is not there",
        lambda w: w.create(
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[9])],
        ),
    ),
    Case(E.INVALID_REPLICA_ASSIGNMENT, "a new partition on such a broker", lambda w: w.partitions(2, 9)),
    Case(E.INVALID_REPLICA_ASSIGNMENT, "a reassignment to such a broker", lambda w: w.reassign([9])),
    Case(E.INVALID_REPLICA_ASSIGNMENT, "a reassignment to nobody", lambda w: w.reassign([])),
    Case(E.INVALID_REPLICA_ASSIGNMENT, "a reassignment to one broker twice", lambda w: w.reassign([1, 1])),
    Case(E.UNKNOWN_TOPIC_OR_PARTITION, "a reassignment of no topic", lambda w: w.reassign([1], "no-such-topic")),
    Case(E.NO_REASSIGNMENT_IN_PROGRESS, "a reassignment called off that never was", lambda w: w.reassign(None)),
    Case(
        E.INVALID_CONFIG,
        "a retention of 'long'",
        lambda w: w.create(configs=[CreatableTopicConfig(name="retention.ms", value="long")]),
    ),
    Case(
        E.INVALID_CONFIG,
        "a config that nobody knows",
        lambda w: w.ask(legacy_config(w.topic, "no.such.config", "1"), 2),
    ),
    Case(E.INVALID_REQUEST, "a config of null", lambda w: w.ask(legacy_config(w.topic, "retention.ms", None), 2)),
    Case(E.OFFSET_OUT_OF_RANGE, "delete records behind the end", lambda w: w.ask(records_deleted(w.topic, 99), 2)),
    Case(E.POLICY_VIOLATION, "delete a compacted topic's records", delete_a_tables_records),
    Case(E.ELECTION_NOT_NEEDED, "elect a leader who leads", lambda w: w.ask(leaders_of(w.topic), 2)),
    Case(
        E.MISMATCHED_ENDPOINT_TYPE,
        "ask a broker as a controller",
        lambda w: w.ask(DescribeClusterRequest(endpoint_type=2), 1),
    ),
    Case(
        E.UNSUPPORTED_ENDPOINT_TYPE,
        "ask for an endpoint of a third kind",
        lambda w: w.ask(DescribeClusterRequest(endpoint_type=3), 1),
    ),
    Case(
        E.UNSUPPORTED_VERSION,
        "list a kind of resource that has no configs",
        lambda w: w.ask(ListConfigResourcesRequest(resource_types=[99]), 1),
    ),
    Case(
        E.INVALID_UPDATE_VERSION,
        "a level of a feature that no broker has",
        lambda w: w.ask(UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature="f", max_version_level=1)]), 2),
    ),
    Case(
        E.INVALID_REQUEST,
        "a client's software without a name",
        lambda w: w.ask(ApiVersionsRequest(client_software_name="", client_software_version=""), 3),
    ),
)

USERS = (
    Case(E.RESOURCE_NOT_FOUND, "describe a user that nobody knows", lambda w: w.ask(users_named("nobody"), 0)),
    Case(E.RESOURCE_NOT_FOUND, "delete a credential that nobody has", lambda w: w.ask(credential_deleted(), 0)),
    Case(E.DUPLICATE_RESOURCE, "describe a user twice", lambda w: w.ask(users_named("nobody", "nobody"), 0)),
    Case(E.DUPLICATE_RESOURCE, "set two credentials of a user", lambda w: w.ask(credentials_set(4096, 4096), 0)),
    Case(E.UNACCEPTABLE_CREDENTIAL, "4095 iterations", lambda w: w.ask(credentials_set(4095), 0)),
    Case(E.UNSUPPORTED_SASL_MECHANISM, "a third mechanism", lambda w: w.ask(credential_deleted(3), 0)),
)

CASES = GROUPS + RECORDS + TOPICS + USERS

ELSEWHERE: Mapping[E, str] = {
    # These need a broker in a special state: a full group, a coordinator that loads or resigns, a disk that fails.
    E.GROUP_MAX_SIZE_REACHED: "tests/hostile/test_error_codes.py::test_a_join_of_a_full_group_gets_an_error",
    E.COORDINATOR_LOAD_IN_PROGRESS: "tests/broker/groups/test_coordinator_that_is_not_ready.py::"
    "test_while_a_group_loads_requests_wait_but_heartbeats_are_accepted",
    E.COORDINATOR_NOT_AVAILABLE: "tests/broker/groups/test_coordinator_that_is_not_ready.py::"
    "test_a_broker_that_stops_sends_its_groups_to_another_coordinator",
    E.NOT_COORDINATOR: "tests/broker/groups/test_groups.py::"
    "test_a_commit_that_cannot_be_written_is_refused_and_forgotten",
    E.KAFKA_STORAGE_ERROR: "tests/broker/logs/test_full_disk.py::test_a_full_disk_is_an_error_and_nothing_changes",
    E.FENCED_LEADER_EPOCH: "tests/broker/apis/test_offset_for_leader_epoch.py::"
    "test_a_client_with_an_older_leader_epoch_is_fenced",
    # These, a broker that receives metrics.
    E.THROTTLING_QUOTA_EXCEEDED: "tests/broker/telemetry/test_receiver.py::test_a_closed_connection_frees_its_instance",
    E.TELEMETRY_TOO_LARGE: "tests/broker/telemetry/test_receiver.py::test_a_push_that_is_too_large_unpacked_is_refused",
    E.UNKNOWN_SUBSCRIPTION_ID: "tests/broker/telemetry/test_receiver.py::test_another_subscription_is_unknown",
    # This, a subscription of more than a mebibyte.
    E.UNKNOWN_SERVER_ERROR: "tests/broker/groups/test_refused_members.py::test_a_subscription_that_is_too_large",
    # These, fetches that follow each other.
    E.INVALID_FETCH_SESSION_EPOCH: "tests/broker/fetch/test_fetch_sessions.py::"
    "test_the_later_of_two_requests_of_a_session_wins",
    E.FETCH_SESSION_TOPIC_ID_ERROR: "tests/broker/fetch/test_fetch_sessions.py::"
    "test_a_session_of_names_cannot_go_on_with_ids",
    E.INCONSISTENT_TOPIC_ID: "tests/broker/fetch/test_fetch_sessions.py::"
    "test_a_session_returns_that_its_topic_was_recreated",
    # These, several brokers.
    E.NOT_LEADER_OR_FOLLOWER: "tests/cluster/test_failover.py::test_the_wrong_broker_names_the_right_one",
    E.LEADER_NOT_AVAILABLE: "tests/cluster/test_shared_broker.py::"
    "test_a_partition_without_a_leader_is_returned_with_its_error",
    E.NOT_ENOUGH_REPLICAS: "tests/cluster/test_replicated_topics.py::"
    "test_acks_of_all_need_the_topics_minimum_of_replicas_in_sync",
    E.PREFERRED_LEADER_NOT_AVAILABLE: "tests/cluster/test_replicated_topics.py::test_the_preferred_replica_is_elected",
    # These, a listener with SASL.
    E.ILLEGAL_SASL_STATE: "tests/broker/security/test_sasl.py::"
    "test_sasl_requests_to_a_listener_without_sasl_get_an_error",
    E.SASL_AUTHENTICATION_FAILED: "tests/broker/security/test_sasl.py::"
    "test_an_unknown_user_and_a_wrong_password_get_the_same_answer",
    # These, an authorizer, or none.
    E.SECURITY_DISABLED: "tests/broker/access/test_guards.py::test_without_an_authorizer_acls_are_disabled",
    E.TOPIC_AUTHORIZATION_FAILED: "tests/broker/access/test_guards.py::test_a_request_is_handled_in_part",
    E.GROUP_AUTHORIZATION_FAILED: "tests/broker/access/test_guards.py::"
    "test_groups_need_permission_for_the_group_and_for_its_topics",
    E.CLUSTER_AUTHORIZATION_FAILED: "tests/broker/access/test_guards.py::"
    "test_a_producer_that_may_write_any_topic_gets_an_id",
}
"""The tests that provoke the other codes of this broker and assert that they arrive."""

LATER: Mapping[str, frozenset[E]] = {
    "groups of the consumer protocol": frozenset(
        {
            E.FENCED_MEMBER_EPOCH,
            E.UNRELEASED_INSTANCE_ID,
            E.UNSUPPORTED_ASSIGNOR,
            E.STALE_MEMBER_EPOCH,
            E.INVALID_REGULAR_EXPRESSION,
        }
    ),
    "transactions": frozenset(
        {
            E.UNSTABLE_OFFSET_COMMIT,
            E.INVALID_TXN_STATE,
            E.INVALID_PRODUCER_ID_MAPPING,
            E.INVALID_TRANSACTION_TIMEOUT,
            E.CONCURRENT_TRANSACTIONS,
            E.PRODUCER_FENCED,
            E.TRANSACTIONAL_ID_NOT_FOUND,
            E.TRANSACTION_ABORTABLE,
            E.TRANSACTION_COORDINATOR_FENCED,
            E.OPERATION_NOT_ATTEMPTED,
            E.NETWORK_EXCEPTION,
        }
    ),
}
"""What belongs to parts of Kafka that have tests of their own, or are not built yet."""
