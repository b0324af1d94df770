"""A loaded broker is killed at random, again and again; what it acknowledged is compared with what is read.

    python -m tests.chaos.kills [--kills 200] [--seed N]

Written all the time: records of idempotent producers, who send again what was not answered; a table that is compacted;
commits of groups. Segments are tiny, so that kills meet rolls, swaps of compacted segments and half-written batches.
After each kill every acknowledged record must be there once and in its place, no other value may appear twice, each
key and each group must stand at what was acknowledged last or at what was sent after it.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kohort.errors import ErrorCode
from kohort.wire.batches import Record, batches, decode_records, encode_batch
from kohort.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.broker.peer import Peer, connected
from tests.interop.process import ServerProcess

PARTITIONS = 3
PRODUCERS, TABLE_WRITERS, GROUPS = 3, 2, 4
_TINY = {"segment.bytes": "20000"}
_TABLE = {**_TINY, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "delete.retention.ms": "100"}
_SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.segment.bytes": "20000",
    "log.cleaner.backoff.ms": "30",
}
Sent = tuple[int, bytes]


class Checked(AssertionError):
    """Raised if the acknowledged records differ from the records that were read."""


class Expected:
    """Records that were sent and acknowledged, over all runs of the broker."""

    def __init__(self) -> None:
        self.records: dict[tuple[int, int], bytes] = {}
        """By partition and offset, each acknowledged value."""
        self.rows: dict[bytes, list[bytes | None]] = {}
        """By key what it may be: the last acknowledged value and what was sent since."""
        self.commits: dict[str, list[int]] = {}
        """The same of each group."""
        self.acknowledged = 0

    def acknowledge(self) -> None:
        self.acknowledged += 1


class Producer:
    """An idempotent producer of one partition. What was not answered is sent again in its next life."""

    def __init__(self, partition: int, seed: int) -> None:
        self.partition = partition
        self.chance = random.Random(seed)
        self.producer_id = -1
        self.sequence = 0
        self.unanswered: tuple[list[bytes], bytes] | None = None

    async def run(self, peer: Peer, expected: Expected) -> None:
        if self.producer_id < 0:
            answer = await peer.ask(InitProducerIdRequest(), 1, InitProducerIdResponse)
            self.producer_id = answer.producer_id
        while True:
            if self.unanswered is None:
                values = [self._value(n) for n in range(self.chance.randint(1, 4))]
                records = [Record(n, 1, None, value) for n, value in enumerate(values)]
                batch = encode_batch(
                    records, producer_id=self.producer_id, producer_epoch=0, base_sequence=self.sequence
                )
                self.unanswered = values, bytes(batch)
            values, sent = self.unanswered
            base_offset = await _produce(peer, "records", self.partition, sent)
            for offset, value in enumerate(values, base_offset):
                expected.records[self.partition, offset] = value
            self.sequence += len(values)
            self.unanswered = None
            expected.acknowledge()

    def _value(self, number: int) -> bytes:
        size = self.chance.choice([1, 30, 300, 3000])
        return b"%d %d %d " % (self.partition, self.producer_id, self.sequence + number) + self.chance.randbytes(size)


class TableWriter:
    """Writes and deletes rows of its own."""

    def __init__(self, number: int, seed: int) -> None:
        self.number = number
        self.chance = random.Random(seed)

    async def run(self, peer: Peer, expected: Expected) -> None:
        while True:
            key = b"row %d %d" % (self.number, self.chance.randrange(20))
            value = None if self.chance.random() < 0.2 else self.chance.randbytes(self.chance.choice([5, 200]))
            may_be = expected.rows.setdefault(key, [None])
            may_be.append(value)
            await _produce(peer, "table", 0, bytes(encode_batch([Record(0, 1, key, value)])))
            del may_be[:-1]
            expected.acknowledge()


class Committer:
    """Commits ever larger offsets of one group, of ten partitions at once."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.next = 1

    async def run(self, peer: Peer, expected: Expected) -> None:
        while True:
            number, self.next = self.next, self.next + 1
            may_be = expected.commits.setdefault(self.group, [-1])
            may_be.append(number)
            partitions = [OffsetCommitRequestPartition(partition_index=n, committed_offset=number) for n in range(10)]
            topics = [OffsetCommitRequestTopic(name="wide", partitions=partitions)]
            answer = await peer.ask(OffsetCommitRequest(group_id=self.group, topics=topics), 7, OffsetCommitResponse)
            codes = {partition.error_code for partition in answer.topics[0].partitions}
            if codes == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
                may_be.pop()
                await asyncio.sleep(0.005)
                continue
            if codes != {ErrorCode.NONE}:
                raise Checked(f"a commit of {self.group} was answered {codes}")
            del may_be[:-1]
            expected.acknowledge()


Writer = Producer | TableWriter | Committer


class Killed:
    """Rounds of load and kill over one data directory."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.data = directory / "data"
        self.chance = random.Random(seed)
        self.expected = Expected()
        self.writers: list[Writer] = [
            *(Producer(n % PARTITIONS, seed + n) for n in range(PRODUCERS)),
            *(TableWriter(n, seed + 100 + n) for n in range(TABLE_WRITERS)),
            *(Committer(f"g{n}") for n in range(GROUPS)),
        ]

    async def round(self) -> int:
        """One life of the broker: check what it finds, load it, kill it. Returns how many acknowledgements it gave."""
        before = self.expected.acknowledged
        broker, bootstrap = self._start()
        try:
            async with connected(bootstrap) as peer:
                await self._check(peer)
            load = [asyncio.ensure_future(self._write(bootstrap, writer)) for writer in self.writers]
            while self.expected.acknowledged == before and not any(task.done() for task in load):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            await asyncio.sleep(self.chance.uniform(0, 0.5))
        finally:
            broker.kill()
        for outcome in await asyncio.gather(*load, return_exceptions=True):
            if not isinstance(outcome, ConnectionError | asyncio.IncompleteReadError):
                raise Checked(f"a writer ended with {outcome!r} while the broker lived") from outcome
        return self.expected.acknowledged - before

    async def check(self) -> None:
        """Look once more."""
        broker, bootstrap = self._start()
        try:
            async with connected(bootstrap) as peer:
                await self._check(peer)
        finally:
            broker.kill()

    def _start(self) -> tuple[ServerProcess, str]:
        settings = [part for name, value in _SETTINGS.items() for part in ("--set", f"{name}={value}")]
        command = [sys.executable, "-m", "kohort", "broker", "--listen", "127.0.0.1:0", "--data", str(self.data)]
        broker = ServerProcess([*command, *settings])
        return broker, broker.wait_for(r"^ready (\S+)", timeout=30.0)[1]

    async def _write(self, bootstrap: str, writer: Writer) -> None:
        async with connected(bootstrap) as peer:
            await writer.run(peer, self.expected)

    async def _check(self, peer: Peer) -> None:
        new = [("records", PARTITIONS, _TINY), ("table", 1, _TABLE), ("wide", 10, {})]
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=1,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
            for name, partitions, configs in new
        ]
        await peer.ask(CreateTopicsRequest(topics=topics), 5, CreateTopicsResponse)
        await self._check_records(peer)
        await self._check_table(peer)
        for group, may_be in self.expected.commits.items():
            await self._check_commits(peer, group, may_be)

    async def _check_records(self, peer: Peer) -> None:
        for partition in range(PARTITIONS):
            found = {record.offset: record.value for record in await _read(peer, "records", partition)}
            if list(found) != list(range(len(found))):
                raise Checked(f"records-{partition} has gaps in its offsets")
            if len(set(found.values())) != len(found):
                raise Checked(f"records-{partition} has a record twice")
            for (of, offset), value in self.expected.records.items():
                if of == partition and found.get(offset) != value:
                    raise Checked(f"records-{partition} lost what it acknowledged at {offset}")

    async def _check_table(self, peer: Peer) -> None:
        found = {record.key: record.value for record in await _read(peer, "table", 0)}
        for key, may_be in self.expected.rows.items():
            value = found.get(key)
            if value not in may_be:
                raise Checked(f"{key!r} of the table is {value!r}, neither acknowledged last nor sent since")
            may_be[:] = [value]

    async def _check_commits(self, peer: Peer, group: str, may_be: list[int]) -> None:
        request = OffsetFetchRequest(group_id=group, topics=None)
        answer = await peer.ask(request, 5, OffsetFetchResponse)
        while answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            await asyncio.sleep(0.005)
            answer = await peer.ask(request, 5, OffsetFetchResponse)
        found = {partition.committed_offset for topic in answer.topics for partition in topic.partitions} or {-1}
        if len(found) != 1:
            raise Checked(f"{group} has half of a commit: {sorted(found)}")
        (offset,) = found
        if offset not in may_be:
            raise Checked(f"{group} stands at {offset}, neither acknowledged last nor sent since: {may_be}")
        may_be[:] = [offset]


async def _produce(peer: Peer, topic: str, partition: int, batch: bytes) -> int:
    """The base offset that was acknowledged."""
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    answer = await peer.ask(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), 7, ProduceResponse)
    found = answer.responses[0].partition_responses[0]
    if found.error_code != ErrorCode.NONE:
        raise Checked(f"an append to {topic}-{partition} was answered {found.error_code}: {found.error_message}")
    return found.base_offset


async def _read(peer: Peer, topic: str, partition: int) -> list[Record]:
    found: list[Record] = []
    offset = 0
    while True:
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        answer = await peer.ask(FetchRequest(topics=[FetchTopic(topic=topic, partitions=[wanted])]), 4, FetchResponse)
        part = answer.responses[0].partitions[0]
        if part.error_code != ErrorCode.NONE:
            raise Checked(f"{topic}-{partition} cannot be read at {offset}: {part.error_code}")
        if not part.records:
            return found
        assert isinstance(part.records, bytes | bytearray | memoryview)
        for at, header in batches(part.records):
            found += [record for record in decode_records(part.records, at) if record.offset >= offset]
            offset = header.next_offset


async def run(directory: Path, kills: int, seed: int, report: Callable[[str], None]) -> int:
    """That many kills; returns how many acknowledgements were checked. Raises Checked."""
    killed, began = Killed(directory, seed), time.monotonic()
    for number in range(1, kills + 1):
        await killed.round()
        if number % 10 == 0:
            report(f"{number} kills, {killed.expected.acknowledged} acknowledged, {time.monotonic() - began:.0f} s")
    await killed.check()
    return killed.expected.acknowledged


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill a loaded broker again and again.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    directory = Path(tempfile.mkdtemp(prefix="kohort-kills-", dir="/var/tmp"))
    try:
        count = asyncio.run(run(directory, options.kills, options.seed, lambda line: print(line, flush=True)))
    except Checked as error:
        sys.exit(f"FAILED: {error}\nthe data directory is kept: {directory}")
    shutil.rmtree(directory)
    print(f"{options.kills} kills, {count} acknowledgements, none lost")


if __name__ == "__main__":
    main()
