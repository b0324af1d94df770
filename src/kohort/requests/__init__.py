"""Requests about topics and partitions, and their responses as values, for clients of every kind.

The functions have no I/O: the asyncio client and the Spark package send what they build.
"""

from kohort.requests.errors import PartitionResults, check, error_of
from kohort.requests.fetch import FetchRequestPartition, fetch_topics, forgotten_topics
from kohort.requests.metadata import Broker, ClusterMetadata, Leader, TopicMetadata, metadata_request
from kohort.requests.offsets import FoundOffset, list_offsets_request, read_offsets
from kohort.requests.produce import ProduceOutcome, produce_request, read_outcomes
from kohort.requests.producers import (
    ActiveProducer,
    ProducerId,
    describe_producers_request,
    producer_id_request,
    read_producer_id,
    read_producers,
)
from kohort.requests.transactional import (
    add_offsets_request,
    add_partitions_request,
    added_partitions,
    committed_in_transaction,
    end_request,
    transactional_id_request,
)

__all__ = [
    "ActiveProducer",
    "Broker",
    "ClusterMetadata",
    "FetchRequestPartition",
    "FoundOffset",
    "Leader",
    "PartitionResults",
    "ProduceOutcome",
    "ProducerId",
    "TopicMetadata",
    "add_offsets_request",
    "add_partitions_request",
    "added_partitions",
    "check",
    "committed_in_transaction",
    "describe_producers_request",
    "end_request",
    "error_of",
    "fetch_topics",
    "forgotten_topics",
    "list_offsets_request",
    "metadata_request",
    "produce_request",
    "producer_id_request",
    "read_offsets",
    "read_outcomes",
    "read_producer_id",
    "read_producers",
    "transactional_id_request",
]
