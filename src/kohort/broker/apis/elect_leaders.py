"""ElectLeaders: make preferred replicas the leaders of their partitions (KIP-460).

Every partition has a leader while a broker lives, so an unclean election is never needed.
"""

from collections.abc import Callable
from typing import Protocol

from kohort.broker.logs import DiskErrors, Leadership, Topics
from kohort.broker.net import Call
from kohort.errors import ErrorCode
from kohort.log import Topic
from kohort.log.cluster import PartitionId
from kohort.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    disk_errors: DiskErrors
    leadership: Leadership
    topics: Topics


_PREFERRED, _UNCLEAN = 0, 1


def handle(broker: Dependencies, call: Call, request: ElectLeadersRequest) -> None:
    """Elect leaders of the given partitions, or of all if null.

    As in Kafka, the results for all partitions omit those that need no election, but not the names of their topics.
    """
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        call.reply(_refused(request))
        return
    check = _preferred if request.election_type == _PREFERRED else _unclean
    moved: list[PartitionId] = []
    results = []
    everything = request.topic_partitions is None
    for name, indexes in _asked(broker, request):
        outcomes = [(index, _outcome(broker, name, index, check, moved)) for index in indexes]
        told = [outcome for outcome in outcomes if not everything or outcome[1] is not ErrorCode.ELECTION_NOT_NEEDED]
        results.append(ReplicaElectionResult(topic=name, partition_result=[_result(*outcome) for outcome in told]))
    error = ErrorCode.NONE
    try:
        if moved:
            broker.leadership.elect(moved)
    except OSError as trouble:
        broker.disk_errors.note("elect leaders", trouble)
        error = ErrorCode.KAFKA_STORAGE_ERROR
    call.reply(ElectLeadersResponse(error_code=error, replica_election_results=results))


def _asked(broker: Dependencies, request: ElectLeadersRequest) -> list[tuple[str, list[int]]]:
    if request.topic_partitions is None:
        return [(topic.name, list(range(topic.partitions))) for topic in broker.topics.all().values()]
    return [(requested.topic, requested.partitions) for requested in request.topic_partitions]


def _outcome(
    broker: Dependencies,
    name: str,
    index: int,
    check: Callable[[Dependencies, Topic, int], ErrorCode],
    moved: list[PartitionId],
) -> ErrorCode:
    topic = broker.topics.named(name)
    if topic is None or not 0 <= index < topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    code = check(broker, topic, index)
    if code is ErrorCode.NONE:
        moved.append(PartitionId(topic.topic_id, index))
    return code


def _preferred(broker: Dependencies, topic: Topic, index: int) -> ErrorCode:
    leader, replicas = broker.leadership.leader(topic, index), broker.leadership.replicas(topic, index)
    if not replicas.nodes or leader.node_id == replicas.nodes[0]:
        return ErrorCode.ELECTION_NOT_NEEDED
    is_there = broker.leadership.node(replicas.nodes[0]) is not None
    return ErrorCode.NONE if is_there else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def _unclean(broker: Dependencies, topic: Topic, index: int) -> ErrorCode:
    return ErrorCode.ELECTION_NOT_NEEDED


def _refused(request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Reject a request with an unknown type of election."""
    code = ErrorCode.INVALID_REQUEST
    results = [
        ReplicaElectionResult(topic=topic.topic, partition_result=[_result(index, code) for index in topic.partitions])
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code, replica_election_results=results)


def _result(index: int, code: ErrorCode) -> PartitionResult:
    return PartitionResult(partition_id=index, error_code=code, error_message=code.sentence)
