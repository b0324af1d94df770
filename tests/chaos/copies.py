"""Java's TransactionalMessageCopier, while the broker that it copies on is killed at random, again and again.

    python -m tests.chaos.copies [--kills 1000] [--seed N] [--transaction-version 1] [--gateway] [--group] [--brokers 3]

Two copiers copy a topic exactly once, each a partition in its own transactions, a third of which it aborts. When both
have come to the end, the sink must have each record of the source once and in its order, and the group must stand at
the end; then more records are written to the source. The segments of `__transaction_state`, `__consumer_offsets` and
the sink are tiny, so that kills meet rolls and compaction. With --gateway the copiers use a gateway, which gets three
of ten kills. With --group the copiers subscribe to the source as members of a group, and their offsets carry the
generation (KIP-447). With --brokers, a cluster over a shared directory loses one of its brokers at a time, which stays
dead for up to four seconds.
"""

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kohort import TopicPartition
from tests.gateway.ports import consecutive_free_ports
from tests.interop.kafka import free_ports, java
from tests.interop.kohort import kohort
from tests.interop.process import NotReady, ServerProcess
from tests.interop.settled import settled

PARTITIONS = 2
SOURCE, SINK, GROUP = "source", "sink", "copiers"
_RECORDS = 2000
"""How many are written to a partition before the copiers start."""
_SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.segment.bytes": "20000",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.segment.bytes": "20000",
    "log.cleaner.backoff.ms": "30",
    "group.initial.rebalance.delay.ms": "0",
}
_PATIENCE_S = 60.0
_LEASE_MS = 2_000
"""Time after which a broker of a cluster is replaced."""
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class World:
    """What the copiers copy on."""

    version: int = 2
    """Level of transaction.version."""
    gateway: bool = False
    brokers: int = 1
    group: bool = False
    """Whether the copiers are members of a group."""


class Checked(AssertionError):
    """Raised if the sink differs from the source, or if a copier gets no further."""


class Copiers:
    """A JVM per partition."""

    def __init__(self, bootstrap: str, *, group: bool) -> None:
        mode = ["--group-mode"] if group else []
        commands = [[*_copier(bootstrap, partition), *mode] for partition in range(PARTITIONS)]
        self._processes = [ServerProcess(command) for command in commands]

    @property
    def copied(self) -> int:
        """Records that they have committed, as they say themselves."""
        return sum(_processed(process) for process in self._processes)

    @property
    def running(self) -> bool:
        return any(process.alive for process in self._processes)

    def check_end(self) -> None:
        for process in self._processes:
            code = process.wait(_PATIENCE_S)
            if code != 0:
                raise Checked(f"a copier ended with {code}\n{process.output()}")

    def kill(self) -> None:
        for process in self._processes:
            process.kill()

    def output(self) -> str:
        return "\n".join("\n".join(process.output().splitlines()[-60:]) for process in self._processes)


class Copies:
    """Source and sink on brokers over files, and what the sink must have."""

    def __init__(self, directory: Path, seed: int, world: World, report: Report) -> None:
        self.kills = 0
        self.written = 0
        """Records in each partition of the source."""
        self._chance = random.Random(seed)
        self._report = report
        self._began = time.monotonic()
        self._world = world
        addresses = [f"127.0.0.1:{port}" for port in free_ports(world.brokers)]
        self.bootstrap = ",".join(addresses)
        commands = [_broker(world, directory / "data", number, each) for number, each in enumerate(addresses, 1)]
        self._brokers = [_started(ServerProcess(command)) for command in commands]
        self._gateway: ServerProcess | None = None
        self._for_copiers = self.bootstrap
        if world.gateway:
            assert world.brokers == 1, "the gateway has a port for one broker"
            # The next port is that of the broker.
            self._for_copiers = f"127.0.0.1:{consecutive_free_ports(2)}"
            command = kohort("gateway", "--upstream", self.bootstrap, "--listen", self._for_copiers)
            self._gateway = _started(ServerProcess(command))
        self._checked = [0] * PARTITIONS
        """Up to which offset of the sink its records are compared."""
        self._seen = [0] * PARTITIONS
        """How many records of the sink they were."""

    def close(self) -> None:
        if self._gateway is not None:
            self._gateway.kill()
        for broker in self._brokers:
            broker.kill()

    def create_topics(self) -> None:
        topics = [NewTopic(SOURCE, PARTITIONS, 1), NewTopic(SINK, PARTITIONS, 1, config={"segment.bytes": "20000"})]
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for created in admin.create_topics(topics).values():
            created.result(_PATIENCE_S)

    def copy(self, kills: int) -> None:
        """Write more records, have them copied under at most that many kills, and compare."""
        self._write(_RECORDS)
        limit = self.kills + kills
        with _running_copiers(self._for_copiers, group=self._world.group) as copiers:
            while self._get_further(copiers):
                if self.kills < limit:
                    self._kill()
            copiers.check_end()
        self.compare()

    def _get_further(self, copiers: Copiers) -> bool:
        """Wait until more is copied, then for a moment; whether the copiers go on.

        Some kills do not wait, so that they meet the broker and the producers while they recover.
        """
        if self._chance.random() < 0.2:
            time.sleep(self._chance.uniform(0.0, 0.3))
            return copiers.running
        before, deadline = copiers.copied, time.monotonic() + _PATIENCE_S
        while copiers.running and copiers.copied == before:
            if time.monotonic() > deadline:
                raise Checked(f"no copier got further within {_PATIENCE_S:.0f} s\n{copiers.output()}")
            time.sleep(0.002)
        time.sleep(self._chance.uniform(0.0, 0.5))
        return copiers.running

    def _kill(self) -> None:
        if self._gateway is not None and self._chance.random() < 0.3:
            self._gateway.kill()
            self._gateway = _started(self._gateway.again())
        else:
            victim = self._chance.randrange(len(self._brokers)) if self._world.brokers > 1 else 0
            self._brokers[victim].kill()
            if self._world.brokers > 1:  # sometimes others take over before it is back
                time.sleep(self._chance.uniform(0.0, 2 * _LEASE_MS / 1000))
            self._brokers[victim] = _started(self._brokers[victim].again())
        self.kills += 1
        if self.kills % 10 == 0:
            seconds = time.monotonic() - self._began
            self._report(f"{self.kills} kills, {sum(self._seen)} records compared, {seconds:.0f} s")

    def _write(self, count: int) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        for number in range(self.written, self.written + count):
            for partition in range(PARTITIONS):
                producer.produce(SOURCE, b"%d" % number, partition=partition)
            producer.poll(0)
        if producer.flush(_PATIENCE_S) != 0:
            raise Checked("the source does not take records")
        self.written += count

    def compare(self) -> None:
        """Compare what is new in the sink since the last time, and where the group stands."""
        sink = [TopicPartition(SINK, partition) for partition in range(PARTITIONS)]
        try:
            asyncio.run(settled(self.bootstrap, *sink))
        except TimeoutError as error:
            raise Checked("a transaction stayed open though all producers have ended") from error
        for partition, (values, end) in enumerate(read_committed(self.bootstrap, self._checked)):
            expected = [b"%d" % number for number in range(self._seen[partition], self.written)]
            if values != expected:
                raise Checked(f"{SINK}-{partition}: {_difference(values, expected)}")
            self._seen[partition] += len(values)
            self._checked[partition] = end
        stands = committed(self.bootstrap)
        if stands != [self.written] * PARTITIONS:
            raise Checked(f"the group stands at {stands}, not at {self.written}")

    def compare_all(self) -> None:
        """Compare the whole sink once more, from the beginning."""
        self._checked = [0] * PARTITIONS
        self._seen = [0] * PARTITIONS
        self.compare()


def _started(server: ServerProcess) -> ServerProcess:
    """Wait until a server is ready, and return it."""
    try:
        server.wait_for(r"^ready (\S+)", timeout=_PATIENCE_S)
    except NotReady as error:
        raise Checked(f"a server did not start: {error}") from error
    return server


def _broker(world: World, data: Path, node_id: int, listen: str) -> list[str]:
    settings = _SETTINGS | {"transaction.version": str(world.version)}
    options = ["--listen", listen, "--data", str(data)]
    if world.brokers > 1:
        settings["broker.lease.ms"] = str(_LEASE_MS)
        options += ["--shared", "--node-id", str(node_id)]
    named = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    return kohort("broker", *options, *named)


@contextmanager
def _running_copiers(bootstrap: str, *, group: bool) -> Iterator[Copiers]:
    copiers = Copiers(bootstrap, group=group)
    try:
        yield copiers
    finally:
        copiers.kill()


def _copier(bootstrap: str, partition: int) -> list[str]:
    return java(
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--broker-list", bootstrap, "--input-topic", SOURCE, "--input-partition", str(partition)),
        *("--output-topic", SINK, "--transactional-id", f"copier-{partition}", "--consumer-group", GROUP),
        *("--transaction-size", "10", "--enable-random-aborts", "--use-group-metadata"),
    )


def _processed(process: ServerProcess) -> int:
    """What the last report of a copier says that it has committed."""
    lines = [line for line in process.stdout if line.startswith("{")]
    return int(json.loads(lines[-1]).get("totalProcessed", 0)) if lines else 0


def read_committed(bootstrap: str, start: list[int]) -> list[tuple[list[bytes], int]]:
    """Return of each partition of the sink the committed values from an offset on, and the offset after them."""
    found: list[tuple[list[bytes], int]] = []
    for partition, offset in enumerate(start):
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "judge", "enable.partition.eof": True}
            | {"isolation.level": "read_committed", "enable.auto.commit": False}
        )
        consumer.assign([confluent_kafka.TopicPartition(SINK, partition, offset)])
        values: list[bytes] = []
        while True:
            message = consumer.poll(_PATIENCE_S)
            if message is None:
                raise Checked(f"{SINK}-{partition} cannot be read to its end")
            error = message.error()
            if error is None:
                values.append(message.value() or b"")
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                break
            else:
                raise Checked(f"{SINK}-{partition} cannot be read: {error}")
        end = message.offset()
        assert end is not None
        found.append((values, end))
        consumer.close()
    return found


def committed(bootstrap: str) -> list[int]:
    """Return the offsets of the group in the source."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    asked = [confluent_kafka.TopicPartition(SOURCE, partition) for partition in range(PARTITIONS)]
    found = [int(partition.offset) for partition in consumer.committed(asked, timeout=_PATIENCE_S)]
    consumer.close()
    return found


def _difference(values: list[bytes], expected: list[bytes]) -> str:
    at = next((n for n, pair in enumerate(zip(values, expected, strict=False)) if pair[0] != pair[1]), None)
    if at is None:
        return f"has {len(values)} records instead of {len(expected)}"
    return f"has {values[at]!r} where {expected[at]!r} should be, after {values[max(0, at - 3) : at]}"


def run(directory: Path, kills: int, seed: int, world: World, report: Report, *, each: int = 25) -> int:
    """That many kills, at most `each` in a copy; returns how many records were compared. Raises Checked."""
    copies = Copies(directory, seed, world, report)
    try:
        copies.create_topics()
        while copies.kills < kills:
            copies.copy(min(each, kills - copies.kills))
        copies.compare_all()
        return copies.written * PARTITIONS
    finally:
        copies.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Copy a topic in transactions while the broker is killed.")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--transaction-version", type=int, default=2, choices=(1, 2))
    parser.add_argument("--gateway", action="store_true", help="put a gateway before the broker, and kill it, too")
    parser.add_argument("--group", action="store_true", help="let the copiers be members of a group")
    parser.add_argument("--brokers", type=int, default=1, metavar="N", help="a cluster of so many brokers")
    options = parser.parse_args()
    if options.gateway and options.brokers > 1:
        parser.error("--gateway is for one broker.")
    print(f"seed {options.seed}", flush=True)
    directory = Path(tempfile.mkdtemp(prefix="kohort-copies-", dir="/var/tmp"))
    began = time.monotonic()
    try:
        world = World(options.transaction_version, options.gateway, options.brokers, options.group)
        count = run(directory, options.kills, options.seed, world, lambda line: print(line, flush=True))
    except Checked as error:
        sys.exit(f"FAILED: {error}\nthe data directory is kept: {directory}")
    shutil.rmtree(directory)
    seconds = time.monotonic() - began
    print(f"{options.kills} kills in {seconds:.0f} s, {count} records copied, each once and in order")


if __name__ == "__main__":
    main()
