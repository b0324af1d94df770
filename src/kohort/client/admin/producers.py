"""Active producers of partitions."""

from collections.abc import Collection, Mapping

from kohort.client.net import BrokerConnection, Cluster, ask_leaders
from kohort.model import TopicPartition
from kohort.requests import ActiveProducer, PartitionResults, describe_producers_request, read_producers
from kohort.wire.messages.describe_producers import DescribeProducersResponse


async def describe_producers(
    cluster: Cluster, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, list[ActiveProducer]]:
    """Return the active producers of each partition. Raises KafkaError."""

    async def ask(
        connection: BrokerConnection, some: Mapping[TopicPartition, None]
    ) -> PartitionResults[list[ActiveProducer]]:
        request = describe_producers_request(some)
        return read_producers(await connection.request(request, DescribeProducersResponse))

    return await ask_leaders(cluster, dict.fromkeys(partitions), ask)
