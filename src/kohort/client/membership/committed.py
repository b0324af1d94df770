"""Committed offsets of a group, requested from its coordinator."""

import asyncio
from collections.abc import Collection, Mapping
from types import MappingProxyType

from kohort.client.arguments import partition_of, whole_number
from kohort.client.error_table import Operation, Reaction, reaction
from kohort.client.failures import CommitFailedError
from kohort.client.net import TOPIC_IDS_FROM, BrokerConnection, Cluster
from kohort.errors import ErrorCode, KafkaError, error_code
from kohort.member import UNKNOWN_TOPIC, UNKNOWN_TOPIC_ATTEMPTS, Commit, OffsetAndMetadata, commit_request
from kohort.model import NO_TOPIC_ID, UUID, Millis, TopicPartition
from kohort.requests import PartitionResults, check, metadata_request
from kohort.wire.codec import Message
from kohort.wire.messages.metadata import MetadataResponse
from kohort.wire.messages.offset_commit import OffsetCommitResponse
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseTopics,
)

_NAMES_ONLY: Mapping[str, UUID] = MappingProxyType({})
_MANY_GROUPS = 8  # KIP-709: since this version OffsetFetch takes a list of groups


async def committed_offsets(
    cluster: Cluster,
    group_id: str,
    partitions: Collection[TopicPartition] | None,
    timeout_ms: Millis | None = None,
    *,
    granted: Mapping[str, UUID] = _NAMES_ONLY,
    require_stable: bool = True,
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """Return the committed offset of each partition, or None where nothing is committed.

    If `partitions` is None, return all committed offsets of the group. `granted` has the IDs of
    topics that a coordinator assigned, which may not be those that have the names now. With
    `require_stable`, the call waits for offsets of an open transaction. A deleted topic has no
    committed offsets. Raises KafkaError.
    """
    found = await committed_positions(
        cluster, group_id, partitions, timeout_ms, granted=granted, require_stable=require_stable
    )
    return {partition: position and position._replace(topic_id=None) for partition, position in found.items()}


async def committed_positions(
    cluster: Cluster,
    group_id: str,
    partitions: Collection[TopicPartition] | None,
    timeout_ms: Millis | None = None,
    *,
    granted: Mapping[str, UUID] = _NAMES_ONLY,
    require_stable: bool = True,
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """Return what `committed_offsets` returns, with the ID of the topic to which each offset belongs, if known."""
    topics = {partition[0] for partition in partitions or ()}

    async def attempt() -> dict[TopicPartition, OffsetAndMetadata | None]:
        ids = {topic: granted.get(topic) or cluster.metadata.topic_id(topic) for topic in topics}
        found, refused = await ask_committed(cluster, group_id, partitions, ids, granted, require_stable=require_stable)
        if refused:
            raise min(refused.values(), key=lambda problem: problem.retriable)
        found = {
            partition: position and position._replace(topic_id=ids.get(partition.topic))
            for partition, position in found.items()
        }
        return (
            found if partitions is None else {partition: found[TopicPartition(*partition)] for partition in partitions}
        )

    if partitions is not None and not partitions:
        return {}
    return await cluster.retrying(attempt, timeout_ms)


async def ask_committed(
    cluster: Cluster,
    group_id: str,
    partitions: Collection[TopicPartition] | None,
    ids: Mapping[str, UUID | None],
    granted: Collection[str] = (),
    *,
    require_stable: bool = True,
) -> PartitionResults[OffsetAndMetadata | None]:
    """Ask the coordinator once, by topic IDs where they are known and its version allows.

    With `require_stable`, offsets that an open transaction may still change are an error (KIP-447).
    A deleted topic has no committed offsets. The IDs of the topics in `granted` stay the same if
    other topics get their names. Raises KafkaError for an error of the whole group.
    """
    connection = await cluster.coordinator(group_id, "offsets")
    found: dict[TopicPartition, OffsetAndMetadata | None] = {}
    refused: dict[TopicPartition, KafkaError] = {}
    for some in _parts(connection.version_of(OffsetFetchRequest), partitions, ids):
        response = await connection.request(
            _request(connection, ids, group_id, some, require_stable), OffsetFetchResponse
        )
        # Use the IDs of the request, because metadata may have changed meanwhile.
        names = {**cluster.metadata.names, **{topic_id: name for name, topic_id in ids.items() if topic_id is not None}}
        answered, failed = _read(response, names, group_id)
        found |= answered
        refused |= failed
    for name, number in partitions or ():
        partition = TopicPartition(name, number)
        if partition not in found and partition not in refused:
            detail = f"{partition}: the coordinator's answer lacks this partition"
            refused[partition] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, detail)
    unknown = [partition for partition, problem in refused.items() if problem.code is ErrorCode.UNKNOWN_TOPIC_ID]
    deleted = await _deleted(cluster, {partition.topic for partition in unknown}, ids, granted) if unknown else ()
    for partition in unknown:
        if partition.topic in deleted:
            del refused[partition]
            found[partition] = None
    return found, refused


def _parts(
    version: int, partitions: Collection[TopicPartition] | None, ids: Mapping[str, UUID | None]
) -> list[Collection[TopicPartition] | None]:
    """Return the partitions of each request: those of topics with known IDs, then the others.

    A request has either IDs or names. By name, a coordinator may answer with the offset of a deleted
    topic, so a topic without an ID must not make the others go by name.
    """
    if partitions is None or version < TOPIC_IDS_FROM:
        return [partitions]
    identified = [partition for partition in partitions if ids.get(partition[0]) is not None]
    named = [partition for partition in partitions if ids.get(partition[0]) is None]
    return [some for some in (identified, named) if some]


async def _deleted(
    cluster: Cluster, topics: Collection[str], ids: Mapping[str, UUID | None], granted: Collection[str]
) -> set[str]:
    """Return those of these topics that do not exist. The coordinator does not know their IDs in `ids`.

    If a topic of a name exists, the ID is outdated, or the coordinator does not know a new topic yet.
    In both cases the caller asks by ID again: until the coordinator knows the new topic, the offsets
    under its name are those of a deleted topic that had the name before. An outdated ID in `granted`
    stays, so its topic was deleted. Raises KafkaError.
    """
    answer = await cluster.ask_any(metadata_request(sorted(topics)), MetadataResponse)
    known = {topic.name: topic for topic in answer.topics}
    existing = [topic for topic in topics if topic in known and known[topic].error_code == ErrorCode.NONE]
    if renewed := [topic for topic in existing if known[topic].topic_id != ids.get(topic)]:
        await cluster.refresh(renewed)
    gone = {name for name, topic in known.items() if name and topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    return gone.union(topic for topic in renewed if topic in granted)


async def commit_outside(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
    timeout_ms: Millis | None = None,
) -> None:
    """Commit for a group without being a member, which works while it has none. Raises CommitFailedError."""
    positions = identified(cluster, positions_of(offsets))
    # A request has either topic IDs or names: offsets without an ID must not make the others go by name.
    by_id = {partition: position for partition, position in positions.items() if position.topic_id is not None}
    by_name = {partition: position for partition, position in positions.items() if position.topic_id is None}
    parts = [some for some in (by_id, by_name) if some]
    refused = await asyncio.gather(*(_commit_part(cluster, group_id, some, timeout_ms) for some in parts))
    if any(refused):
        raise CommitFailedError({partition: code for some in refused for partition, code in some.items()})


async def _commit_part(
    cluster: Cluster, group_id: str, left: dict[TopicPartition, OffsetAndMetadata], timeout_ms: Millis | None
) -> dict[TopicPartition, ErrorCode]:
    """Commit offsets that one request can carry; return the errors of those that were refused."""
    names = {position.topic_id: partition.topic for partition, position in left.items()}
    refused: dict[TopicPartition, ErrorCode] = {}
    attempts = 0

    async def attempt() -> None:
        nonlocal attempts
        attempts += 1
        connection = await cluster.coordinator(group_id, "offsets")
        request = commit_request(Commit(0, left, 0), group_id, "", None, None)
        response = await connection.request(request, OffsetCommitResponse)
        errors: dict[TopicPartition, ErrorCode] = {}
        for topic in response.topics:
            name = topic.name or names.get(topic.topic_id, "")
            for entry in topic.partitions:
                partition = TopicPartition(name, entry.partition_index)
                code = error_code(entry.error_code)
                if code is ErrorCode.NONE:
                    left.pop(partition, None)
                elif reaction(Operation.OFFSET_COMMIT, code) is Reaction.RAISE or (
                    code in UNKNOWN_TOPIC and attempts >= UNKNOWN_TOPIC_ATTEMPTS
                ):
                    left.pop(partition, None)
                    refused[partition] = code
                else:
                    errors[partition] = code
        if errors:
            raise CommitFailedError(errors)

    try:
        await cluster.retrying(attempt, timeout_ms)
    except CommitFailedError as problem:
        return {**refused, **problem.errors}
    return refused


def positions_of(
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets as OffsetAndMetadata, wrapping plain integers.

    Raises ConfigError for invalid offsets.
    """
    return {(wanted := partition_of(partition)): _position(wanted, at) for partition, at in offsets.items()}


def _position(partition: TopicPartition, at: object) -> OffsetAndMetadata:
    position = at if isinstance(at, OffsetAndMetadata) else OffsetAndMetadata(at)  # type: ignore[arg-type]
    offset = whole_number(f"the offset of {partition}", position.offset)
    return position if offset is position.offset else position._replace(offset=offset)


def identified(
    cluster: Cluster, offsets: Mapping[TopicPartition, OffsetAndMetadata], granted: Mapping[str, UUID] = _NAMES_ONLY
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets with topic IDs, if known, where a position has none: the granted or else the current ones."""
    metadata = cluster.metadata
    return {
        partition: position
        if position.topic_id is not None
        else position._replace(topic_id=granted.get(partition.topic) or metadata.topic_id(partition.topic))
        for partition, position in offsets.items()
    }


def _request(
    connection: BrokerConnection,
    ids: Mapping[str, UUID | None],
    group_id: str,
    partitions: Collection[TopicPartition] | None,
    require_stable: bool,
) -> Message:
    by_topic: dict[str, list[int]] | None = None
    if partitions is not None:
        by_topic = {}
        for topic, number in partitions:
            by_topic.setdefault(topic, []).append(number)
    version = connection.version_of(OffsetFetchRequest)
    if version >= _MANY_GROUPS:
        topics = None
        if by_topic is not None:
            topics = [
                OffsetFetchRequestTopics(name=name, topic_id=ids.get(name) or NO_TOPIC_ID, partition_indexes=some)
                for name, some in by_topic.items()
            ]
        return OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)], require_stable=require_stable
        )
    old = None
    if by_topic is not None:
        old = [OffsetFetchRequestTopic(name=name, partition_indexes=some) for name, some in by_topic.items()]
    return OffsetFetchRequest(group_id=group_id, topics=old, require_stable=require_stable and version >= 7)


def _read(
    response: OffsetFetchResponse, names: Mapping[UUID, str], group_id: str
) -> PartitionResults[OffsetAndMetadata | None]:
    group = response.groups[0] if response.groups else response
    check(group.error_code, group_id)
    found: dict[TopicPartition, OffsetAndMetadata | None] = {}
    refused: dict[TopicPartition, KafkaError] = {}
    for topic in group.topics:
        name = topic.name
        if isinstance(topic, OffsetFetchResponseTopics) and not name:
            name = names.get(topic.topic_id, "")
        for entry in topic.partitions:
            partition = TopicPartition(name, entry.partition_index)
            try:
                check(entry.error_code, str(partition))
            except KafkaError as problem:
                refused[partition] = problem
                continue
            epoch = None if entry.committed_leader_epoch < 0 else entry.committed_leader_epoch
            position = OffsetAndMetadata(entry.committed_offset, entry.metadata or "", epoch)
            found[partition] = position if entry.committed_offset >= 0 else None
    return found, refused
