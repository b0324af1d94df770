"""A bit that flipped on the disk, as a consumer meets it: an error at that place, and everything else."""

from pathlib import Path

import pytest

from kohort.broker import BrokerOptions
from kohort.errors import ErrorCode
from kohort.wire.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kohort.wire.records import Record, batches, encode_batch
from tests.broker.conftest import MakeBroker
from tests.broker.peer import Peer, talking_to


async def fetch(peer: Peer, offset: int) -> PartitionData:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    answer = await peer.ask(FetchRequest(topics=[FetchTopic(topic="t", partitions=[wanted])]), 4, FetchResponse)
    return answer.responses[0].partitions[0]


def offsets(part: PartitionData) -> list[int]:
    assert part.error_code == ErrorCode.NONE
    assert isinstance(part.records, bytes | bytearray | memoryview)
    return [header.base_offset for _, header in batches(part.records)]


@pytest.mark.parametrize("size", [10, 100_000])  # through memory, and by sendfile
async def test_what_is_damaged_is_an_error_and_the_rest_is_served(
    start_broker: MakeBroker, tmp_path: Path, size: int
) -> None:
    options = BrokerOptions(port=0, data=tmp_path / "data")
    first = await start_broker(options)
    first.topics.create("t", 1)
    log = first.partition("t", 0)
    assert log is not None
    for number in range(5):
        log.append(encode_batch([Record(0, 1, None, b"%d" % number * size)]), log.leader_epoch)
    first.writer.current()
    await first.writer.drain()
    await first.stop()
    path = tmp_path / "data" / "t-0" / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1  # in the third of five batches
    path.write_bytes(content)
    again = await start_broker(options)
    async with talking_to(again) as peer:
        for _ in range(2):
            assert offsets(await fetch(peer, 0)) == [0, 1]
            assert (await fetch(peer, 2)).error_code == ErrorCode.CORRUPT_MESSAGE
            assert offsets(await fetch(peer, 3)) == [3, 4]
