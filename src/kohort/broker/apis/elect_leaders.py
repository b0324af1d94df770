"""ElectLeaders: every partition has its only replica as leader, so there is never anything to elect."""

from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.call import Call
from kohort.errors import ErrorCode
from kohort.wire.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from kohort.broker.server import Broker

_PREFERRED, _UNCLEAN = 0, 1


def handle(broker: "Broker", call: Call, request: ElectLeadersRequest) -> None:
    """All partitions (null): those that need no election are left out, as in Kafka, so only the topics' names stay."""
    known = request.election_type in (_PREFERRED, _UNCLEAN)
    if request.topic_partitions is None:
        results = [ReplicaElectionResult(topic=name) for name in broker.topics.all()] if known else []
    else:
        outcome = partial(_outcome, broker) if known else _refuse
        results = [
            ReplicaElectionResult(
                topic=one.topic,
                partition_result=[_result(index, outcome(one.topic, index)) for index in one.partitions],
            )
            for one in request.topic_partitions
        ]
    error = ErrorCode.NONE if known else ErrorCode.INVALID_REQUEST
    call.reply(ElectLeadersResponse(error_code=error, replica_election_results=results))


def _outcome(broker: "Broker", name: str, index: int) -> ErrorCode:
    topic = broker.topics.named(name)
    if topic is None or not 0 <= index < topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.ELECTION_NOT_NEEDED


def _refuse(name: str, index: int) -> ErrorCode:
    """The type of election is unknown."""
    return ErrorCode.INVALID_REQUEST


def _result(index: int, code: ErrorCode) -> PartitionResult:
    return PartitionResult(partition_id=index, error_code=code, error_message=code.sentence)
