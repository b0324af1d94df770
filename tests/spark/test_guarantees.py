"""Contents of a sink after a query died at any step of a micro-batch: real processes, killed with SIGKILL."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from tests.interop.kafka import free_ports
from tests.interop.kohort import kohort_to_kill
from tests.interop.process import until
from tests.spark.conftest import Topic, rows
from tests.spark.sinks import stores
from tests.spark.sinks.stores import Store, counted

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17, and there is no java on the PATH"),
]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


class Queries:
    """Programs with a query each, all into one store."""

    def __init__(self, topic: Topic, home: Path, **asked: str) -> None:
        self.topic = topic
        self.home = home
        self.group = f"guarantees-{uuid.uuid4().hex[:8]}"
        self._asked = asked

    @contextlib.contextmanager
    def started(self, step: str, name: str = "", **options: str) -> Iterator[subprocess.Popen[str]]:
        """The query called so, which dies at that step; its whole process group is gone at the end."""
        place = self.home / name
        place.mkdir(exist_ok=True)
        asked = {"bootstrap": self.topic.bootstrap, "topic": self.topic.name, "group": self.group, "home": str(place)}
        asked |= self._asked | {"step": step, "options": json.dumps(options)}
        command = [sys.executable, "-m", "tests.spark.dying_query", json.dumps(asked)]
        errors = (place / f"{step}.log").open("w")
        with (
            errors,
            subprocess.Popen(
                command, cwd=ROOT, stdout=errors, stderr=errors, text=True, start_new_session=True
            ) as process,
        ):
            try:
                yield process
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def run(self, step: str, **options: str) -> int:
        """From start to end; the exit code."""
        with self.started(step, **options) as process:
            return process.wait(240)

    def log(self, step: str, name: str = "") -> str:
        return (self.home / name / f"{step}.log").read_text()[-3000:]


def plain_files(home: Path) -> Store:
    def read() -> Counter[tuple[int, int]]:
        return counted(ds.dataset(home / "out", exclude_invalid_files=True).to_table())

    return Store(lambda: pytest.fail("a query writes these"), read, lambda *_: pytest.fail("there are no fences"))


STATIC = {"staticMembership": "true"}  # a member that returns need not wait for its own session to end


EVERY_STEP = ("planned", "reading", "copied", "written", "marked")


@pytest.mark.long("starts Spark for each step; tests/spark/sinks/test_sinks.py writes batches again without")
def test_a_driver_that_dies_is_exactly_once_in_postgresql(bootstrap: str, home: Path, dsn: str) -> None:
    topic = Topic(bootstrap, 3)
    topic.produce(rows(1_000, 3))
    table = f"t{uuid.uuid4().hex}"
    store = stores.postgres(dsn, table)
    queries = Queries(topic, home, sink="postgres", dsn=stores.in_schema(dsn, table), table=table)
    for step in EVERY_STEP:
        assert queries.run(step, **STATIC) == -signal.SIGKILL, queries.log(step)
        assert sum(store.read().values()) < 1_000
    assert queries.run("never", **STATIC) == 0, queries.log("never")
    assert store.read() == dict.fromkeys(topic.written, 1)
    assert topic.lag(queries.group) == 0


@pytest.mark.long("starts Spark four times per case")
@pytest.mark.parametrize("sink", ["files", "parquet"])
def test_a_driver_that_dies_at_every_step_loses_nothing(bootstrap: str, home: Path, sink: str) -> None:
    topic = Topic(bootstrap, 3)
    topic.produce(rows(1_000, 3))
    queries = Queries(topic, home, sink=sink)
    for step in ("planned", "written", "marked"):
        assert queries.run(step, **STATIC) == -signal.SIGKILL, queries.log(step)
    assert queries.run("never", **STATIC) == 0, queries.log("never")
    found = (plain_files(home) if sink == "files" else stores.parquet(home)).read()
    assert found.keys() == topic.written.keys()
    twice = [times for times in found.values() if times > 1]
    # Plain files got the batch that was written and not marked as done again, and nothing else.
    assert set(twice) <= {2}
    assert 0 < len(twice) <= 100 if sink == "files" else not twice


@pytest.mark.long("starts Spark, and loses a worker of it")
def test_a_python_worker_that_dies_is_replaced_and_its_rows_come_once(bootstrap: str, home: Path) -> None:
    topic = Topic(bootstrap, 3)
    topic.produce(rows(600, 3))
    queries = Queries(topic, home, sink="parquet")
    assert queries.run("worker") == 0, queries.log("worker")
    assert (home / "lost").exists()
    assert stores.parquet(home).read() == dict.fromkeys(topic.written, 1)


@pytest.mark.long("starts a cluster of Spark")
def test_an_executor_that_dies_is_replaced_and_its_rows_come_once(bootstrap: str, home: Path, spark_home: Path) -> None:
    # Two executors, each a JVM of its own, as on a cluster.
    topic = Topic(bootstrap, 3)
    topic.produce(rows(600, 3))
    queries = Queries(topic, home, sink="parquet", master="local-cluster[2,1,1024]")
    assert queries.run("executor") == 0, queries.log("executor")
    assert (home / "lost").exists()
    assert len(list((spark_home / "work").glob("app-*/*"))) > 2, "no executor was replaced"
    assert stores.parquet(home).read() == dict.fromkeys(topic.written, 1)


@pytest.mark.long("starts Spark; tests/spark/test_broker_dies.py kills brokers without")
def test_a_broker_that_dies_in_the_middle_of_a_batch_and_comes_back_costs_nothing(home: Path) -> None:
    (port,) = free_ports(1)
    options = ("--data", str(home / "data"), "--listen", f"127.0.0.1:{port}")
    settings = {"group_initial_rebalance_delay_ms": "0", "log_retention_ms": "-1"}
    with contextlib.ExitStack() as brokers:
        broker = brokers.enter_context(kohort_to_kill(*options, **settings))
        topic = Topic(broker.bootstrap, 3)
        topic.produce(rows(600, 3))
        queries = Queries(topic, home, sink="parquet")
        with queries.started("broker") as query:
            until(180, "a batch is planned", (home / "waiting").exists)
            broker.process.kill()
            (home / "killed").touch()
            brokers.enter_context(kohort_to_kill(*options, **settings))
            assert query.wait(240) == 0, queries.log("broker")
        assert stores.parquet(home).read() == dict.fromkeys(topic.written, 1)
        assert topic.lag(queries.group) == 0
