"""ElectLeaders: every partition has its only replica as leader, so there is never anything to elect."""

from collections.abc import Iterable
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
    """All partitions (null): Kafka leaves out those that need no election, so the answer is empty."""
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        call.reply(ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    results = [
        ReplicaElectionResult(topic=one.topic, partition_result=_results(broker, one.topic, one.partitions))
        for one in request.topic_partitions or []
    ]
    call.reply(ElectLeadersResponse(replica_election_results=results))


def _results(broker: "Broker", name: str, partitions: Iterable[int]) -> list[PartitionResult]:
    topic = broker.topics.named(name)
    count = 0 if topic is None else topic.partitions
    results = []
    for index in partitions:
        code = ErrorCode.ELECTION_NOT_NEEDED if 0 <= index < count else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        results.append(PartitionResult(partition_id=index, error_code=code, error_message=code.sentence))
    return results
