"""The examples do what they say, as users run them: programs of their own against a running broker."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
import pytest

from kohort import NewTopic, TopicPartition
from kohort.blocking import Admin, Consumer, Producer
from tests.examples.postgres import Unavailable, running_postgres
from tests.interop.broker import Broker

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
PARTITIONS = 3


def start(name: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))


def finished(process: subprocess.Popen[str]) -> str:
    """Return the output; fail if the example failed."""
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


@pytest.fixture
def topic(any_broker: Broker) -> str:
    name = f"example-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS), NewTopic(f"{name}-2", PARTITIONS)])
    return name


def fill(bootstrap: str, topic: str, count: int) -> Counter[bytes]:
    """Records of ten keys; how many of each there are."""
    written: Counter[bytes] = Counter()
    with Producer(bootstrap_servers=bootstrap) as producer:
        for n in range(count):
            key = b"account-%d" % (n * n % 10)
            written[key] += 1
            producer.send(topic, b"1", key=key)
        producer.flush()
    return written


def read(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(TopicPartition(topic, n) for n in range(PARTITIONS))
        ends = consumer.end_offsets(consumer.assignment)
        found: list[tuple[bytes | None, bytes | None]] = []
        while len(found) < sum(ends.values()):
            found += [(record.key, record.value) for record in consumer.poll()]
        return found


def committed(bootstrap: str, group: str) -> int:
    with Admin(bootstrap_servers=bootstrap) as admin:
        return sum(offset.offset for offset in admin.group_offsets(group).values() if offset)


def test_the_simple_loop_continues_at_its_offset(any_broker: Broker, topic: str) -> None:
    fill(any_broker.bootstrap, topic, 30)
    more = ("--bootstrap", any_broker.bootstrap, "--max", "15")
    lines = [line for _ in range(2) for line in finished(start("simple_loop", topic, topic, *more)).splitlines()]
    assert len(set(lines)) == len(lines) == 30
    assert committed(any_broker.bootstrap, topic) == 30


def test_async_iteration_writes_and_commits(any_broker: Broker, topic: str) -> None:
    fill(any_broker.bootstrap, topic, 50)
    more = ("--bootstrap", any_broker.bootstrap, "--max", "50")
    finished(start("async_iteration", topic, f"{topic}-2", topic, *more))
    keys = Counter(key for key, _ in read(any_broker.bootstrap, topic))
    assert Counter(key for key, _ in read(any_broker.bootstrap, f"{topic}-2")) == keys
    assert committed(any_broker.bootstrap, topic) == 50


def test_exactly_once_into_sqlite_though_a_member_is_killed(any_broker: Broker, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "balances.db"

    def balances() -> dict[str, int]:
        with sqlite3.connect(path) as database:
            return dict(database.execute("SELECT account, cents FROM balances"))

    written = fill(any_broker.bootstrap, topic, 500)
    first = start("exactly_once_sqlite", topic, str(path), "--bootstrap", any_broker.bootstrap, "--max", "500")
    finished(first)
    # A second one, killed while it waits for more, and a third that ends: nothing counts twice.
    second = start("exactly_once_sqlite", topic, str(path), "--bootstrap", any_broker.bootstrap)
    written += fill(any_broker.bootstrap, topic, 250)
    with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        while not admin.describe_groups([f"{topic}-balances"])[f"{topic}-balances"].members:
            assert second.poll() is None
        second.kill()
        second.communicate()
        admin.remove_all_members(f"{topic}-balances")
    left = 750 - sum(balances().values())
    if left:
        finished(
            start("exactly_once_sqlite", topic, str(path), "--bootstrap", any_broker.bootstrap, "--max", str(left))
        )
    assert balances() == {key.decode(): count for key, count in written.items()}


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    try:
        with running_postgres() as dsn:
            yield dsn
    except Unavailable as missing:
        pytest.skip(str(missing))


def test_exactly_once_into_postgresql(any_broker: Broker, topic: str, postgres: str) -> None:
    written = fill(any_broker.bootstrap, topic, 300)
    finished(start("exactly_once_postgres", topic, postgres, "--bootstrap", any_broker.bootstrap, "--max", "300"))
    written += fill(any_broker.bootstrap, topic, 200)
    finished(start("exactly_once_postgres", topic, postgres, "--bootstrap", any_broker.bootstrap, "--max", "200"))
    with psycopg.connect(postgres) as database:
        found: dict[str, int] = dict(database.execute("SELECT account, cents FROM balances").fetchall())
        assert found == {key.decode(): count for key, count in written.items()}
        database.execute("DROP TABLE balances, positions")
    # The database has the positions; the group has none.
    assert committed(any_broker.bootstrap, f"{topic}-balances") == 0


def test_batches_become_parquet_files(any_broker: Broker, topic: str, tmp_path: Path) -> None:
    written = fill(any_broker.bootstrap, topic, 1_000)
    more = ("--bootstrap", any_broker.bootstrap, "--rows", "100", "--max", "1000")
    finished(start("batch_to_parquet", topic, str(tmp_path), *more))
    table = pq.read_table(tmp_path)
    assert Counter(table["key"].to_pylist()) == written
    rows = list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
    assert len(set(rows)) == len(rows) == 1_000
    assert committed(any_broker.bootstrap, f"{topic}-lake") == 1_000
    assert not list(tmp_path.glob(".*"))


def test_counters_restore_what_they_win(any_broker: Broker, topic: str) -> None:
    written = fill(any_broker.bootstrap, topic, 400)
    more = ("--bootstrap", any_broker.bootstrap, "--max")
    finished(start("stateful_counter", topic, f"{topic}-2", *more, "400"))
    assert {key: int(value or b"0") for key, value in read(any_broker.bootstrap, f"{topic}-2")} == written
    written += fill(any_broker.bootstrap, topic, 200)
    finished(start("stateful_counter", topic, f"{topic}-2", *more, "200"))
    assert {key: int(value or b"0") for key, value in read(any_broker.bootstrap, f"{topic}-2")} == written
    assert committed(any_broker.bootstrap, f"{topic}-counter") == 600


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_commits_and_leaves_on_a_signal(any_broker: Broker, topic: str, number: int) -> None:
    fill(any_broker.bootstrap, topic, 30)
    worker = start("worker", topic, topic, "--bootstrap", any_broker.bootstrap)
    assert worker.stdout is not None
    assert [worker.stdout.readline() for _ in range(30)] == ["1\n"] * 30
    worker.send_signal(number)
    assert finished(worker) == ""
    assert committed(any_broker.bootstrap, topic) == 30
    with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        assert not admin.describe_groups([topic])[topic].members


def test_a_worker_ends_at_a_record_that_it_cannot_process(any_broker: Broker, topic: str) -> None:
    with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        for value in (b"1", b"2", b"oops", b"4"):
            producer.send(topic, value, partition=0)
        producer.flush()
    for printed in ("1\n2\n", ""):  # the second worker begins with the record
        worker = start("worker", topic, topic, "--bootstrap", any_broker.bootstrap)
        out, err = worker.communicate(timeout=60)
        assert (worker.returncode, out) == (1, printed)
        assert f"ERROR:worker:{topic}-0@2: Expecting value" in err
        assert committed(any_broker.bootstrap, topic) == 2
