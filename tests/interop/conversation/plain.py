"""Answers as plain values that two brokers' can be compared by.

What must differ from run to run gets a name instead: member ids, topic ids, producer ids, session ids, the port, the
cluster id. A member id keeps its form (`worker-#1` for `worker-` and a UUID), so that one of another form shows.
Sentences are each broker's own words: whether there is one is compared. Nothing else is hidden.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kohort.model import NO_TOPIC_ID, UUID
from kohort.wire.codec import Message, Struct

Plain = Any
"""A dict, a list, a str, a number or None."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_BASE64_UUID = re.compile(r"[A-Za-z0-9_-]{22}")
_SENTENCES = {"error_message", "batch_index_error_message"}
_MEMBER_IDS = {"member_id", "leader"}
_ALL = ""
"""Sort by all fields."""
# Kafka keeps these in hash maps, or asks its coordinators one after the other: the order says nothing.
_SORTED = {
    "JoinGroupResponse.members": "member_id",
    "DescribedGroup.members": "member_id",
    "Assignment.topic_partitions": "topic_id",
    "ConsumerGroupDescribeResponse.groups": "group_id",
    "ListGroupsResponse.groups": "group_id",
    "DescribeGroupsResponse.groups": "group_id",
    "DeleteGroupsResponse.results": "group_id",
    "MetadataResponse.topics": "name",
    "CreateTopicsResponse.topics": "name",
    "DeleteTopicsResponse.responses": "name",
    "OffsetFetchResponse.groups": "group_id",
    # Kafka answers for what it refuses before what it takes.
    "OffsetCommitResponseTopic.partitions": "partition_index",
    "AddPartitionsToTxnTopicResult.results_by_partition": "partition_index",
    "AddPartitionsToTxnResponse.results_by_topic_v3_and_below": "name",
    "WritableTxnMarkerResult.topics": "name",
    "FetchableTopicResponse.partitions": "partition_index",
    "OffsetFetchResponseTopic.partitions": "partition_index",
    "OffsetFetchResponseTopics.partitions": "partition_index",
    "OffsetDeleteResponseTopic.partitions": "partition_index",
    "CreatePartitionsResponse.results": "name",
    "DeleteRecordsResponse.topics": "name",
    "DeleteRecordsTopicResult.partitions": "partition_index",
    "DescribeLogDirsTopic.partitions": "partition_index",
    "IncrementalAlterConfigsResponse.responses": "resource_name",
    "DescribeTopicPartitionsResponse.topics": "name",
    "ElectLeadersResponse.replica_election_results": "topic",
    "ReplicaElectionResult.partition_result": "partition_id",
    "OffsetForLeaderEpochResponse.topics": "topic",
    "DescribeProducersResponse.topics": "name",
    "AlterUserScramCredentialsResponse.results": "user",
    "DescribeUserScramCredentialsResponse.results": "user",
    "DescribeUserScramCredentialsResult.credential_infos": "mechanism",
    "DescribeAclsResponse.resources": _ALL,
    "DescribeAclsResource.acls": _ALL,
    "DeleteAclsFilterResult.matching_acls": _ALL,
    "AlterClientQuotasResponse.entries": "entity",
    "DescribeClientQuotasResponse.entries": "entity",
    "EntryData.entity": "entity_type",
    "EntryData.values": "key",
    "EntryDataResult.entity": "entity_type",
}
_SETS = {"Member.subscribed_topic_names"}
# Told apart by name, so that one that only one broker has does not move all others.
_KEYED = {
    "ApiVersionsResponse.api_keys": "api_key",
    "ApiVersionsResponse.supported_features": "name",
    "ApiVersionsResponse.finalized_features": "name",
    "CreatableTopicResult.configs": "name",
    "DescribeConfigsResult.configs": "name",
}


@dataclass
class Names:
    """Names that replace random ids in one scene with one broker."""

    port: int
    known: dict[tuple[str, Any], str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def of(self, kind: str, value: Any) -> str:
        """Return `kind#1` for the first value of its kind, and so on."""
        if (kind, value) not in self.known:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            self.known[kind, value] = f"{kind}#{self.counts[kind]}"
        return self.known[kind, value]

    def _member(self, member_id: str) -> str:
        if _BASE64_UUID.fullmatch(member_id):
            return self.of("base64", member_id)
        matched = _UUID.search(member_id)
        if matched is None:
            return member_id
        return self.of(member_id[: matched.start()], member_id)

    def plain(self, message: Message | Struct) -> dict[str, Plain]:
        """The message's fields by name."""
        kind = type(message).__name__
        self._learn(message)
        found = {}
        for declared in message.FIELDS:
            value = self._value(declared.name, getattr(message, declared.name))
            order = _SORTED.get(f"{kind}.{declared.name}")
            if order is not None and value:
                value = sorted(value, key=lambda row: str(row[order] if order else row))
            if f"{kind}.{declared.name}" in _SETS:
                value = sorted(value)
            key = _KEYED.get(f"{kind}.{declared.name}")
            if key is not None and value is not None:
                value = {str(row.pop(key)): row for row in value}
            found[declared.name] = value
        return found

    def _learn(self, message: Message | Struct) -> None:
        """Learn the id of a topic from a response with both its name and its id."""
        name, topic_id = getattr(message, "name", None), getattr(message, "topic_id", NO_TOPIC_ID)
        if name and topic_id != NO_TOPIC_ID and ("topic", topic_id) not in self.known:
            self.known["topic", topic_id] = self.of(f"topic {name}", topic_id)

    def _value(self, name: str, value: Any) -> Plain:
        match value:
            case Struct():
                return self.plain(value)
            case list() if name != "records":
                return [self._value(name, element) for element in value]
            case list() | bytes() | bytearray() | memoryview():
                return _bytes(value)
            case UUID():
                return "no id" if value == NO_TOPIC_ID else self.of("topic", value)
            case str() if name in _MEMBER_IDS:
                return self._member(value)
            case str() if name in _SENTENCES and value:
                return "a sentence"
            case str() if name == "cluster_id":
                return "the cluster's id"
            case int() if name == "port" and value == self.port:
                return "the broker's port"
            case int() if name == "producer_id" and value >= 0:
                return self.of("producer", value)
            case int() if name == "session_id" and value:
                return self.of("session", value)
        return value


def _bytes(value: list[Any] | bytes | bytearray | memoryview) -> str:
    whole = b"".join(value) if isinstance(value, list) else bytes(value)
    return repr(whole) if len(whole) < 400 else f"{len(whole)} bytes, {hash_of(whole)}"


def hash_of(whole: bytes) -> str:
    """Enough of a digest to tell two byte strings apart."""
    return hashlib.sha256(whole).hexdigest()[:16]


def flat(value: Plain, path: str = "") -> Mapping[str, Plain]:
    """Leaves by path: `topics[0].partitions[1].error_code`."""
    match value:
        case dict():
            leaves: dict[str, Plain] = {}
            for name, inner in value.items():
                leaves.update(flat(inner, f"{path}.{name}" if path else name))
            return leaves
        case list():
            leaves = {f"{path}.length": len(value)}
            for index, inner in enumerate(value):
                leaves.update(flat(inner, f"{path}[{index}]"))
            return leaves
        case _:
            return {path: value}
