"""A bit that flipped on the disk, as a consumer meets it: an error at that place, and everything else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.wire.batches import Record, batches, encode_batch
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
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


async def broker_of_five_batches(start_broker: MakeBroker, data: Path, size: int, flip: Callable[[int], int]) -> Broker:
    """Each of one record of that size, of the times 0 to 4; a bit has changed in the byte `flip(size of the file)`."""
    options = BrokerOptions(port=0, data=data)
    first = await start_broker(options)
    first.topics.create("t", 1)
    log = first.partition("t", 0)
    assert log is not None
    for number in range(5):
        log.append(encode_batch([Record(0, number, None, b"%d" % number * size)]), log.leader_epoch)
    first.writer.current()
    await first.writer.drain()
    await first.stop()
    path = data / "t-0" / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    content[flip(len(content))] ^= 1
    path.write_bytes(content)
    return await start_broker(options)


@pytest.mark.parametrize("size", [10, 100_000])  # through memory, and by sendfile
async def test_damaged_batches_are_errors_and_the_rest_is_served(
    start_broker: MakeBroker, tmp_path: Path, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    again = await broker_of_five_batches(start_broker, tmp_path, size, lambda end: end // 2)  # in the third batch
    async with talking_to(again) as peer:
        for _ in range(2):
            assert offsets(await fetch(peer, 0)) == [0, 1]
            assert (await fetch(peer, 2)).error_code == ErrorCode.CORRUPT_MESSAGE
            assert offsets(await fetch(peer, 3)) == [3, 4]
    # The operator is informed once, because a consumer repeats the request as long as it runs.
    (told,) = [record.getMessage() for record in caplog.records if record.getMessage().startswith("cannot read")]
    assert told.startswith(
        "cannot read t-0: the checksum of the batch at offset 2 is wrong; clients get CORRUPT_MESSAGE"
    )


async def test_looking_up_a_time_behind_a_damaged_size_is_an_error(start_broker: MakeBroker, tmp_path: Path) -> None:
    broker = await broker_of_five_batches(start_broker, tmp_path, 10, lambda end: end // 5 * 2 + 8)
    async with talking_to(broker) as peer:
        for time, expected in ((1, (ErrorCode.NONE, 1)), (4, (ErrorCode.CORRUPT_MESSAGE, -1))):
            wanted = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(timestamp=time)])
            answer = await peer.ask(ListOffsetsRequest(topics=[wanted]), 5, ListOffsetsResponse)
            found = answer.topics[0].partitions[0]
            assert (found.error_code, found.offset) == expected
