"""DeleteGroups and OffsetDelete: deletion of groups and of committed offsets by an admin."""

from typing import Protocol

from kohort.broker.apis.gather import Gather
from kohort.broker.groups import GroupCoordinator
from kohort.broker.logs import Topics
from kohort.broker.net import Call
from kohort.coordinator import RequestContext
from kohort.errors import ErrorCode
from kohort.wire.codec import Message
from kohort.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    groups: GroupCoordinator
    topics: Topics


def groups(broker: Dependencies, call: Call, request: DeleteGroupsRequest) -> None:
    """Delete each group in its own shard; a group that is named twice is answered once, as in Kafka."""
    names = list(dict.fromkeys(request.groups_names))

    def join(answers: list[DeleteGroupsResponse]) -> None:
        call.reply(DeleteGroupsResponse(results=[result for answer in answers for result in answer.results]))

    gather = Gather(len(names), join, DeleteGroupsResponse)
    for place, name in enumerate(names):
        part = DeleteGroupsRequest(groups_names=[name])
        waiter = gather.waiter(place, part, call.version)
        broker.groups.shard(name).handle(part, waiter, RequestContext(waiter, call.version))


def offsets(broker: Dependencies, call: Call, request: OffsetDeleteRequest) -> None:
    """Delete offsets (KIP-496). Unknown partitions are answered here, the rest by the coordinator."""
    known, missing = OffsetDeleteRequest(group_id=request.group_id), []
    for topic in request.topics:
        found = broker.topics.named(topic.name)
        count = 0 if found is None else found.partitions
        here = [partition for partition in topic.partitions if 0 <= partition.partition_index < count]
        gone = [
            partition.partition_index for partition in topic.partitions if not 0 <= partition.partition_index < count
        ]
        if here:
            known.topics.append(OffsetDeleteRequestTopic(name=topic.name, partitions=here))
        if gone:
            missing.append(_unknown(topic.name, gone))
    waiter = _WithMissing(call, known, missing)
    if not request.group_id:
        call.reply(OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID))
    else:
        broker.groups.shard(request.group_id).handle(known, waiter, RequestContext(waiter, call.version))


class _WithMissing:
    """A waiter that adds unknown partitions to the coordinator's answer for the others."""

    __slots__ = ("_call", "_missing", "request", "version")

    def __init__(self, call: Call, known: OffsetDeleteRequest, missing: list[OffsetDeleteResponseTopic]) -> None:
        self._call = call
        self._missing = missing
        self.request: Message = known
        self.version = call.version

    def reply(self, response: Message, /) -> None:
        """Send the answer; if the whole request failed, it has no partitions."""
        assert isinstance(response, OffsetDeleteResponse)
        if response.error_code == ErrorCode.NONE:
            by_name = {topic.name: topic for topic in response.topics}
            for missing in self._missing:
                if missing.name in by_name:
                    by_name[missing.name].partitions += missing.partitions
                else:
                    response.topics.append(missing)
        self._call.reply(response)


def _unknown(name: str, indexes: list[int]) -> OffsetDeleteResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partitions = [OffsetDeleteResponsePartition(partition_index=index, error_code=code) for index in indexes]
    return OffsetDeleteResponseTopic(name=name, partitions=partitions)
