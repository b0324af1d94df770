"""Every batch of a topic as the brokers hold it: only its header shows the producer and its epoch."""

from __future__ import annotations

import asyncio

from kohort.errors import ErrorCode
from kohort.wire.batches import batches
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from tests.broker.peer import Peer, connected

_AT_ONCE = 1 << 20


def read_batches(bootstrap: str, topic: str) -> dict[int, list[bytes]]:
    """The batches of each partition, several in one piece, of a cluster at rest."""
    return asyncio.run(_read_batches(bootstrap, topic))


def topic_ids(bootstrap: str) -> dict[str, str]:
    """The id of every topic, by name."""
    return asyncio.run(_topic_ids(bootstrap))


async def _topic_ids(bootstrap: str) -> dict[str, str]:
    async with connected(bootstrap.split(",")[0]) as peer:
        answer = await peer.ask(MetadataRequest(topics=None), 12, MetadataResponse)
        return {str(topic.name): str(topic.topic_id) for topic in answer.topics}


async def _read_batches(bootstrap: str, name: str) -> dict[int, list[bytes]]:
    async with connected(bootstrap.split(",")[0]) as peer:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        answer = await peer.ask(request, 12, MetadataResponse)
    (topic,) = answer.topics
    read: dict[int, list[bytes]] = {}
    for broker in answer.brokers:
        async with connected(f"{broker.host}:{broker.port}") as peer:
            for partition in _led(topic, broker.node_id):
                read[partition] = await _read_partition(peer, name, partition)
    assert len(read) == len(topic.partitions), f"not every partition of {name} has a leader that lives"
    return dict(sorted(read.items()))


def _led(topic: MetadataResponseTopic, node_id: int) -> list[int]:
    return [partition.partition_index for partition in topic.partitions if partition.leader_id == node_id]


async def _read_partition(peer: Peer, topic: str, partition: int) -> list[bytes]:
    pieces: list[bytes] = []
    offset = 0
    while True:
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=_AT_ONCE)
        answer = await peer.ask(FetchRequest(topics=[FetchTopic(topic=topic, partitions=[wanted])]), 4, FetchResponse)
        (part,) = answer.responses[0].partitions
        assert part.error_code == ErrorCode.NONE, f"{topic}-{partition} at {offset}: error {part.error_code}"
        assert part.records is None or isinstance(part.records, bytes | bytearray | memoryview)
        piece = bytes(part.records or b"")
        headers = [header for _, header in batches(piece)]
        if not headers:
            return pieces
        pieces.append(piece[: sum(header.size for header in headers)])
        offset = headers[-1].next_offset
