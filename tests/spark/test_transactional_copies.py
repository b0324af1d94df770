"""From topic to topic through a stateful query, in transactions: each record once, whatever is killed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.kafka import free_ports
from tests.interop.kohort import kohort_to_kill
from tests.interop.process import until
from tests.spark.conftest import Topic
from tests.spark.query import COMMITTED, read_once

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17, and there is no java on the PATH"),
]

ROOT = Path(__file__).parents[2]
IDS = 900


class Copies:
    """Programs that copy one topic, each at most once at a time, and all with one checkpoint."""

    def __init__(self, bootstrap: str, home: Path) -> None:
        self.home = home
        self.source, self.target = Topic(bootstrap, 3), Topic(bootstrap, 2)
        # A value comes again in a later micro-batch: only a query that keeps its state leaves it out. Every micro-batch
        # has new ones, too.
        values = [b"value %d" % number for n in range(IDS) for number in (n, n - 300) if number >= 0]
        self.source.produce([(n % 3, value, value) for n, value in enumerate(values)])

    @contextlib.contextmanager
    def started(self, step: str, **asked: str) -> Iterator[subprocess.Popen[str]]:
        """The program that dies at that step; its whole process group is gone at the end."""
        asked |= {"bootstrap": self.source.bootstrap, "topic": self.source.name, "target": self.target.name}
        asked |= {"home": str(self.home), "step": step}
        command = [sys.executable, "-m", "tests.spark.dying_copy", json.dumps(asked)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        with (
            (self.home / f"{step}.log").open("w") as log,
            subprocess.Popen(
                command, cwd=ROOT, stdout=log, stderr=log, text=True, start_new_session=True, env=environment
            ) as process,
        ):
            try:
                yield process
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def run(self, step: str, **asked: str) -> int:
        """From start to end; the exit code."""
        with self.started(step, **asked) as process:
            return process.wait(240)

    def log(self, step: str) -> str:
        return (self.home / f"{step}.log").read_text()[-3000:]

    def done(self) -> list[int]:
        """Micro-batches that Spark has as done."""
        return [int(file.name) for file in (self.home / "checkpoint/commits").iterdir() if file.name.isdigit()]

    def copied(self) -> Counter[bytes]:
        """How often readers of committed records find each value."""
        return Counter(value for _, _, value in read_once(self.target, **COMMITTED))


EACH_ONCE = Counter({b"value %d" % n: 1 for n in range(IDS)})


@pytest.mark.long("starts Spark for each step; tests/spark/sink/test_transactional.py takes the steps without")
def test_a_driver_that_dies_at_every_step_copies_each_record_once(bootstrap: str, tmp_path: Path) -> None:
    copies = Copies(bootstrap, tmp_path)
    for batch, step in enumerate(("reading", "decided", "ended", "committed"), 1):
        assert copies.run(step, batch=str(batch)) == -signal.SIGKILL, copies.log(step)
        assert max(copies.done()) == batch - 1, step
    assert copies.run("never") == 0, copies.log("never")
    until(20, "all is visible", lambda: copies.copied().total() >= IDS)
    assert copies.copied() == EACH_ONCE


@pytest.mark.long("starts Spark, and loses a worker of it")
def test_a_python_worker_that_dies_is_replaced_and_each_record_is_copied_once(bootstrap: str, tmp_path: Path) -> None:
    copies = Copies(bootstrap, tmp_path)
    assert copies.run("worker") == 0, copies.log("worker")
    assert (tmp_path / "lost").exists()
    until(20, "all is visible", lambda: copies.copied().total() >= IDS)
    assert copies.copied() == EACH_ONCE


@pytest.mark.long("starts a cluster of Spark")
def test_an_executor_that_dies_is_replaced_and_each_record_is_copied_once(
    bootstrap: str, tmp_path: Path, spark_home: Path
) -> None:
    copies = Copies(bootstrap, tmp_path)
    assert copies.run("executor", master="local-cluster[2,1,1024]") == 0, copies.log("executor")
    assert (tmp_path / "lost").exists()
    assert len(list((spark_home / "work").glob("app-*/*"))) > 2, "no executor was replaced"
    until(20, "all is visible", lambda: copies.copied().total() >= IDS)
    assert copies.copied() == EACH_ONCE


@pytest.mark.long("starts Spark, and kills the broker when the tasks of a micro-batch are done")
def test_a_broker_that_dies_before_the_commit_has_the_transactions_when_it_is_back(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    options = ("--data", str(tmp_path / "data"), "--listen", f"127.0.0.1:{port}")
    with contextlib.ExitStack() as brokers:
        broker = brokers.enter_context(kohort_to_kill(*options, log_retention_ms="-1"))
        copies = Copies(broker.bootstrap, tmp_path)
        with copies.started("broker") as query:
            until(180, "the tasks are done", (tmp_path / "waiting").exists)
            broker.process.kill()
            (tmp_path / "killed").touch()
            brokers.enter_context(kohort_to_kill(*options, log_retention_ms="-1"))
            assert query.wait(240) == 0, copies.log("broker")
        until(20, "all is visible", lambda: copies.copied().total() >= IDS)
        assert copies.copied() == EACH_ONCE
