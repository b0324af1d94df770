"""OffsetCommit and OffsetFetch: the checks that need the topics and their IDs, which the coordinator does not know."""

from typing import Protocol

from kohort.broker.apis.gather import Gather
from kohort.broker.fetch import WaitingFetches
from kohort.broker.groups import GroupCoordinator
from kohort.broker.logs import Topics
from kohort.broker.net import Call
from kohort.coordinator import RequestContext
from kohort.errors import ErrorCode
from kohort.wire.codec import Message
from kohort.wire.commits import CommitShape, RepeatedCommit
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    groups: GroupCoordinator
    waiting_fetches: WaitingFetches
    topics: Topics


_TOPIC_IDS_FROM = 10
_MANY_GROUPS_FROM = 8


def commit(broker: Dependencies, call: Call, request: OffsetCommitRequest) -> None:
    """Commit offsets. Commits for unknown partitions are rejected here; the coordinator handles the rest."""
    if isinstance(request, RepeatedCommit):
        if _all_exist(broker.topics, request.shape):
            connection = call.connection
            context = RequestContext(call, call.version, connection.client_id, connection.host)
            broker.groups.shard(request.group_id).handle(request, call, context)
            return
        request = request.plain()
        assert call.connection.commits is not None, "a connection with a known shape"
        call.connection.commits.forget()
    shard = broker.groups.shard(request.group_id)
    refused = {}
    if not all(topic.partitions for topic in request.topics):
        request.topics = [topic for topic in request.topics if topic.partitions]  # others get no answer
    for topic in request.topics:
        refused.update(_identify(broker, topic, call.version))
    if not refused:
        connection = call.connection
        shard.handle(request, call, RequestContext(call, call.version, connection.client_id, connection.host))
        return
    rest = OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        retention_time_ms=request.retention_time_ms,
        topics=[known for topic in request.topics if (known := _without(topic, refused)).partitions],
    )
    waiter = _PartlyRefused(call, request, rest, refused)
    if rest.topics:
        shard.handle(rest, waiter, RequestContext(waiter, call.version))
    else:
        waiter.reply(OffsetCommitResponse())


def _all_exist(topics: Topics, shape: CommitShape) -> bool:
    """Return whether the topics still have these IDs and partitions."""
    for topic in shape.topics:
        found = topics.named(topic.name)
        if found is None or found.topic_id.int != topic.topic_id.int or found.partitions <= topic.largest:
            return False
    return True


_Refused = dict[tuple[int, int], ErrorCode]
"""Error codes of rejected commits, by `id()` of the request's topic and by partition."""


def _identify(broker: Dependencies, topic: OffsetCommitRequestTopic, version: int) -> _Refused:
    """Fill in the topic's name or ID, whichever the request lacks; return the partitions to reject."""
    if version >= _TOPIC_IDS_FROM:
        found, missing = broker.topics.with_id(topic.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        found, missing = broker.topics.named(topic.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if found is None:
        return {(id(topic), p.partition_index): missing for p in topic.partitions}
    topic.name, topic.topic_id = found.name, found.topic_id
    count = found.partitions
    return {
        (id(topic), p.partition_index): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for p in topic.partitions
        if not 0 <= p.partition_index < count
    }


def _without(topic: OffsetCommitRequestTopic, refused: _Refused) -> OffsetCommitRequestTopic:
    partitions = [p for p in topic.partitions if (id(topic), p.partition_index) not in refused]
    return OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


class _PartlyRefused:
    """A waiter that adds the rejected partitions to the coordinator's answer, in the order of the request."""

    __slots__ = ("_asked", "_call", "_refused", "request", "version")

    def __init__(self, call: Call, asked: OffsetCommitRequest, rest: OffsetCommitRequest, refused: _Refused) -> None:
        self._call = call
        self._asked = asked
        self._refused = refused
        self.request: Message = rest
        self.version = call.version

    def reply(self, response: Message, /) -> None:
        """Send the combined answer."""
        assert isinstance(response, OffsetCommitResponse)
        codes = {(t.name, p.partition_index): p.error_code for t in response.topics for p in t.partitions}
        topics = []
        for topic in self._asked.topics:
            partitions = []
            for asked in topic.partitions:
                code = self._refused.get((id(topic), asked.partition_index))
                if code is None:
                    code = ErrorCode(codes[topic.name, asked.partition_index])
                partitions.append(OffsetCommitResponsePartition(partition_index=asked.partition_index, error_code=code))
            topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
        self._call.reply(OffsetCommitResponse(topics=topics))


def fetch(broker: Dependencies, call: Call, request: OffsetFetchRequest) -> None:
    """Fetch the offsets of one group before v8 (KIP-709), or of several, each from its own shard.

    A client that fetches offsets is about to read newly assigned partitions, and can do so once its last fetch is
    answered. So that fetch is answered soon.
    """
    who, fetches = call.connection.who, broker.waiting_fetches
    call.on_reply = lambda _: fetches.end_soon(who)
    if call.version < _MANY_GROUPS_FROM:
        broker.groups.shard(request.group_id).handle(request, call, RequestContext(call, call.version))
        return
    unknown = [_name_topics(broker, group, call.version) for group in request.groups]

    def join(answers: list[OffsetFetchResponse]) -> None:
        groups = [answer.groups[0] for answer in answers]
        for asked, group, missing in zip(request.groups, groups, unknown, strict=True):
            _add_ids(broker, asked, group, call.version)
            group.topics.extend(missing)
        call.reply(OffsetFetchResponse(groups=groups))

    gather = Gather(len(request.groups), join, OffsetFetchResponse)
    for place, group in enumerate(request.groups):
        part = OffsetFetchRequest(groups=[group], require_stable=request.require_stable)
        waiter = gather.waiter(place, part, call.version)
        broker.groups.shard(group.group_id).handle(part, waiter, RequestContext(waiter, call.version))


def _name_topics(broker: Dependencies, group: OffsetFetchRequestGroup, version: int) -> list[OffsetFetchResponseTopics]:
    """Fill in the names of topics, which v10 and later identify by ID; return the answers for unknown IDs."""
    if version < _TOPIC_IDS_FROM or group.topics is None:
        return []
    unknown = []
    named = []
    for topic in group.topics:
        found = broker.topics.with_id(topic.topic_id)
        if found is None:
            partitions = [
                OffsetFetchResponsePartitions(
                    partition_index=index, committed_offset=-1, error_code=ErrorCode.UNKNOWN_TOPIC_ID
                )
                for index in topic.partition_indexes
            ]
            unknown.append(OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions))
        else:
            topic.name = found.name
            named.append(topic)
    group.topics = named
    return unknown


def _add_ids(
    broker: Dependencies, asked: OffsetFetchRequestGroup, group: OffsetFetchResponseGroup, version: int
) -> None:
    """Fill in the IDs of topics: those of the request, because a topic may have been deleted since it arrived."""
    if version < _TOPIC_IDS_FROM:
        return
    if asked.topics is not None:
        ids = {topic.name: topic.topic_id for topic in asked.topics}
        for topic in group.topics:
            topic.topic_id = ids[topic.name]
        return
    kept = []
    for topic in group.topics:
        found = broker.topics.named(topic.name)
        if found is not None:  # an offset of a deleted topic has no ID with which to return it
            topic.topic_id = found.topic_id
            kept.append(topic)
    group.topics = kept
