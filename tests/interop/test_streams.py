"""Kafka Streams with `exactly_once_v2`: each record is counted once, whatever is killed."""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kohort import TopicPartition
from tests.interop.broker import Broker
from tests.interop.kafka import free_ports, jars
from tests.interop.kohort import kohort
from tests.interop.process import ServerProcess
from tests.interop.settled import settled
from tests.interop.streams import Application, Counts, streams_jar
from tests.interop_long.suite import Unavailable

pytestmark = [
    pytest.mark.interop,
    pytest.mark.java,
    pytest.mark.timeout(400),
    pytest.mark.long("JVMs start and restore their stores, a minute each"),
]

WORDS = ["fox", "dog", "cat", "owl", "elk", "bee", "ant"]
PARTITIONS = 3
BOUNCES = 8
_TRANSACTION_S = 0.2
"""Kafka Streams commits 100 ms after the first record, so a kill within this time often meets an open transaction."""


@pytest.fixture(scope="module")
def application(
    request: pytest.FixtureRequest, kafka_tools: None, tmp_path_factory: pytest.TempPathFactory
) -> Application:
    try:
        path = f"{jars()}/*:{streams_jar()}/*"
    except Unavailable as missing:
        (pytest.skip if request.config.getoption("--broker") == "kohort" else pytest.fail)(str(missing))
    classes = tmp_path_factory.mktemp("streams")
    source = Path(__file__).with_name("Streams.java")
    subprocess.run(["javac", "-nowarn", "-cp", path, "-d", str(classes), str(source)], check=True, timeout=60)
    return Application(classes, tmp_path_factory.mktemp("state"))


class Words:
    """Writes words to the source, and knows how many of each."""

    def __init__(self, bootstrap: str, source: str, chance: random.Random) -> None:
        self.written = dict.fromkeys(WORDS, 0)
        self._producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._source, self._chance = source, chance

    @property
    def total(self) -> int:
        return sum(self.written.values())

    def write(self, count: int) -> None:
        for _ in range(count):
            word = self._chance.choice(WORDS)
            self._producer.produce(self._source, word.encode(), partition=self._chance.randrange(PARTITIONS))
            self.written[word] += 1
        assert self._producer.flush(60.0) == 0


@contextmanager
def counting(bootstrap: str, name: str) -> Iterator[tuple[str, str, Words, Counts]]:
    """Create both topics. At the end, each word must have been counted up from one, without a gap or a repetition."""
    source, sink = f"{name}-words", f"{name}-counts"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in (source, sink)]).values():
        created.result(60.0)
    words, counts = Words(bootstrap, source, random.Random(name)), Counts(bootstrap, sink, PARTITIONS)
    yield source, sink, words, counts
    asyncio.run(settled(bootstrap, *(TopicPartition(sink, number) for number in range(PARTITIONS))))
    counts.read_to_end()
    counts.close()
    assert counts.of == {word: list(range(1, count + 1)) for word, count in words.written.items()}


def test_every_record_is_counted_once_while_instances_are_bounced(
    any_broker: Broker, application: Application, fresh: str
) -> None:
    chance = random.Random(fresh)
    with (
        counting(any_broker.bootstrap, fresh) as (source, sink, words, counts),
        application.running(2, any_broker.bootstrap, source, sink) as instances,
    ):
        for bounce in range(BOUNCES):
            if bounce % 2:  # every other time the bounced one is still restoring its store, or in a rebalance
                counts.read(words.total)
            words.write(200)
            time.sleep(chance.uniform(0.0, _TRANSACTION_S))
            at = chance.randrange(2)
            if bounce % 3 == 2:
                instances[at].wait_for("^state ", 60.0)  # an earlier SIGTERM finds a JVM that does not handle it yet
                assert instances[at].stop() in (0, 143)
            else:
                instances[at].kill()
            instances[at] = instances[at].again()
        counts.read(words.total)


def test_every_record_is_counted_once_while_the_broker_is_killed(
    application: Application, fresh: str, tmp_path: Path
) -> None:
    chance, bootstrap = random.Random(fresh), f"127.0.0.1:{free_ports(1)[0]}"
    settings = ["--set", "group.initial.rebalance.delay.ms=0", "--set", "transaction.state.log.segment.bytes=20000"]
    broker = ServerProcess(kohort("broker", "--listen", bootstrap, "--data", str(tmp_path / "data"), *settings))
    try:
        broker.wait_for(r"^ready ", timeout=30.0)
        with (
            counting(bootstrap, fresh) as (source, sink, words, counts),
            application.running(2, bootstrap, source, sink),
        ):
            for _ in range(BOUNCES):
                counts.read(words.total)
                words.write(200)
                time.sleep(chance.uniform(0.0, _TRANSACTION_S))
                broker.kill()
                broker = broker.again()
                broker.wait_for(r"^ready ", timeout=30.0)
            counts.read(words.total)
    finally:
        broker.kill()
