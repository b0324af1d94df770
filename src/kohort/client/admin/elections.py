"""Leader elections on demand."""

from collections.abc import Collection

from kohort.client.net import Cluster
from kohort.errors import ErrorCode, error_code
from kohort.model import TopicPartition
from kohort.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

_PREFERRED, _UNCLEAN = 0, 1


async def elect_leaders(
    cluster: Cluster, partitions: Collection[TopicPartition] | None, *, unclean: bool
) -> dict[TopicPartition, ErrorCode]:
    """Return the result for each partition; ELECTION_NOT_NEEDED if the wanted leader already leads."""
    topics: dict[str, TopicPartitions] | None = None
    if partitions is not None:
        topics = {}
        for name, number in partitions:
            topics.setdefault(name, TopicPartitions(topic=name, partitions=[])).partitions.append(number)
    request = ElectLeadersRequest(
        election_type=_UNCLEAN if unclean else _PREFERRED,
        topic_partitions=None if topics is None else list(topics.values()),
        timeout_ms=cluster.options.request_timeout_ms,
    )
    response = await cluster.retrying(lambda: cluster.ask_any(request, ElectLeadersResponse))
    return {
        TopicPartition(topic.topic, result.partition_id): error_code(result.error_code)
        for topic in response.replica_election_results
        for result in topic.partition_result
    }
