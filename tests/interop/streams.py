"""Instances of a Kafka Streams application that counts words exactly once, and what they have counted."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka

from tests.interop.kafka import QUICK_START, VERSION, cache_directory, jars
from tests.interop.process import ServerProcess
from tests.interop_long.suite import Unavailable, build_step, made_once

_COPY_JAR = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_PATIENCE_S = 60.0


def streams_jar() -> Path:
    """Return the directory of Kafka Streams' jar, which Maven fetches on first use.

    RocksDB's is not there: the application keeps its store in memory, and restores it from the changelog at each start.
    """
    home = cache_directory() / f"kafka-streams-{VERSION}"
    with made_once(home) as made:
        if made is not None:
            mvn = shutil.which("mvn")
            if mvn is None:
                raise Unavailable("needs Maven to fetch Kafka Streams (no mvn on the PATH)")
            named = [f"-Dartifact=org.apache.kafka:kafka-streams:{VERSION}", f"-DoutputDirectory={made}"]
            if not os.access(Path.home(), os.W_OK):
                named.append(f"-Dmaven.repo.local={home.parent}/m2")
            log = home.with_name("kafka-streams.log")
            build_step([mvn, "-B", "-q", _COPY_JAR, *named], cwd=made.parent, log=log, timeout=300)
    return home


@dataclass(frozen=True)
class Application:
    """A compiled Kafka Streams application, and the directory in which its instances keep their state."""

    classes: Path
    state: Path

    @contextlib.contextmanager
    def running(self, instances: int, bootstrap: str, source: str, sink: str) -> Iterator[list[ServerProcess]]:
        """Start instances; the tests may replace them in the list."""
        path = f"{jars()}/*:{streams_jar()}/*:{self.classes}"
        command = ["java", *QUICK_START, "-cp", path, "Streams", bootstrap, source, sink]
        # An instance that was killed is to be missed before the tests' patience ends.
        options = ["session.timeout.ms=6000", "heartbeat.interval.ms=1000"]
        running = [ServerProcess([*command, str(self.state / str(number)), *options]) for number in range(instances)]
        try:
            yield running
            for instance in running:
                assert instance.alive, f"an instance has ended\n{instance.output()}"
        finally:
            for instance in running:
                instance.kill()


class Counts:
    """The committed counts in the sink, word by word, in the order of the log."""

    def __init__(self, bootstrap: str, sink: str, partitions: int) -> None:
        self.of: dict[str, list[int]] = {}
        self._partitions = partitions
        self._consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed"}
            | {"enable.auto.commit": False, "enable.partition.eof": True}
        )
        self._at = [confluent_kafka.TopicPartition(sink, partition, 0) for partition in range(partitions)]
        self._consumer.assign(self._at)

    @property
    def total(self) -> int:
        return sum(map(len, self.of.values()))

    def read(self, total: int) -> None:
        """Wait until there are so many counts."""
        while self.total < total:
            message = self._consumer.poll(_PATIENCE_S)
            assert message is not None, f"{self.total} counts, and no more within {_PATIENCE_S:.0f} s"
            self._add(message)

    def read_to_end(self) -> None:
        """Read what is there until all partitions have ended, once no transaction is open."""
        self._consumer.assign(self._at)
        self.of.clear()
        ended: set[int | None] = set()
        while len(ended) < self._partitions:
            message = self._consumer.poll(_PATIENCE_S)
            assert message is not None, "no end of the partitions"
            if not self._add(message):
                ended.add(message.partition())

    def close(self) -> None:
        self._consumer.close()

    def _add(self, message: confluent_kafka.Message) -> bool:
        """Add a count; False for anything else."""
        error = message.error()
        if error is None:
            self.of.setdefault((message.key() or b"").decode(), []).append(int(message.value() or b""))
            return True
        assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF or error.retriable(), error
        return False
