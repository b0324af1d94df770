"""DescribeTopicPartitions: topics in the order of their names, in pages of limited size (KIP-966)."""

from collections.abc import Iterable
from typing import Protocol

from kohort.broker.access import AccessControl
from kohort.broker.apis.operations import TOPIC_OPERATIONS
from kohort.broker.logs import INTERNAL_TOPICS, Leadership, Topics, is_legal_name
from kohort.broker.net import Call
from kohort.errors import ErrorCode
from kohort.log import Topic
from kohort.log.cluster import NOBODY
from kohort.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    access_control: AccessControl | None
    leadership: Leadership
    topics: Topics


_PAGE = 2_000
"""Maximum number of partitions in a page, whatever a client asks for; Kafka's max.request.partition.size.limit."""


def handle(broker: Dependencies, call: Call, request: DescribeTopicPartitionsRequest) -> None:
    """Return one page, from the cursor if there is one.

    The cursor's topic may have been deleted. If the request names topics, it must be one of them.
    """
    cursor = request.cursor
    since = "" if cursor is None else cursor.topic_name
    wanted = {topic.name for topic in request.topics}
    if cursor is not None and (cursor.partition_index < 0 or (wanted and since not in wanted)):
        call.reply(_refused(request))
        return
    # The cursor must not name a topic that the client may not describe.
    control = broker.access_control
    names = sorted(
        name
        for name in wanted or broker.topics.all()
        if name >= since and (control is None or control.may_describe_topic(call.connection, name))
    )
    first = 0
    if cursor is not None and names and names[0] == since:
        first = cursor.partition_index
    room = max(1, min(request.response_partition_limit, _PAGE))
    call.reply(_page(broker, names, first, room))


def _page(broker: Dependencies, names: Iterable[str], first: int, room: int) -> DescribeTopicPartitionsResponse:
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if room <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = broker.topics.named(name)
        if topic is None:
            response.topics.append(_unknown(name))
        else:
            end = min(topic.partitions, first + room)
            response.topics.append(_describe(broker, topic, range(first, end)))
            if end < topic.partitions:
                response.next_cursor = Cursor(topic_name=name, partition_index=end)
                break
            room -= max(0, end - first)
        first = 0
    return response


def _describe(broker: Dependencies, topic: Topic, partitions: Iterable[int]) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS,
        partitions=[_partition(broker, topic, index) for index in partitions],
    )


def _partition(broker: Dependencies, topic: Topic, index: int) -> DescribeTopicPartitionsResponsePartition:
    leader, replicas = broker.leadership.leader(topic, index), broker.leadership.replicas(topic, index)
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader.node_id == NOBODY else ErrorCode.NONE,
        partition_index=index,
        leader_id=leader.node_id,
        leader_epoch=leader.epoch,
        replica_nodes=list(replicas.nodes),
        isr_nodes=list(replicas.in_sync),
        offline_replicas=list(replicas.offline),
        eligible_leader_replicas=[],
        last_known_elr=[],
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal_name(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=TOPIC_OPERATIONS
    )


def _refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name)
            for topic in request.topics
        ]
    )
