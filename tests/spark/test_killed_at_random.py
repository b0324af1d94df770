"""From topic to topic through a stateful query, in transactions, while everything is killed again and again."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.kafka import free_ports
from tests.interop.kohort import KohortBroker, kohort_to_kill
from tests.interop.process import until
from tests.spark.test_transactional_copies import EACH_ONCE, IDS, Copies

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(3_600),
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17, and there is no java on the PATH"),
]

KILLS = ("executor", "broker", "worker") * 2 + ("driver",)


def processes_below(ancestor: int) -> Iterator[tuple[int, int, str]]:
    """Yield process id, parent and command line of all descendants."""
    found: dict[int, tuple[int, str]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            found[int(place.name)] = parent, (place / "cmdline").read_text().replace("\0", " ")
    below = {ancestor}
    while more := {process for process, (parent, _) in found.items() if parent in below} - below:
        below |= more
    for process in below - {ancestor}:
        yield process, *found[process]


def victims(driver: int, kind: str) -> list[int]:
    """Executors, or Python workers that run tasks; not those of the driver itself."""
    everything = list(processes_below(driver))
    executors = [process for process, _, command in everything if "CoarseGrainedExecutorBackend" in command]
    if kind == "executor":
        return sorted(executors)
    daemons = {process for process, parent, command in everything if "pyspark" in command and parent in executors}
    return sorted(process for process, parent, _ in everything if parent in daemons)


class Storm:
    """A broker and the copying program, which are started again when they were killed."""

    def __init__(self, directory: Path, lives: contextlib.ExitStack) -> None:
        (port,) = free_ports(1)
        self._options = ("--data", str(directory / "data"), "--listen", f"127.0.0.1:{port}")
        self._lives = lives
        self._chance = random.Random(7)
        self.broker = self._start_broker()
        self.copies = Copies(self.broker.bootstrap, directory)
        self.killed: Counter[str] = Counter()
        self._program = self._start_program()

    def _start_broker(self) -> KohortBroker:
        return self._lives.enter_context(kohort_to_kill(*self._options, log_retention_ms="-1"))

    def _start_program(self) -> subprocess.Popen[str]:
        asked = {"master": "local-cluster[2,1,1024]", "per_batch": "100"}
        step = "never"
        return self._lives.enter_context(self.copies.started(step, **asked))

    def kill(self, kind: str) -> None:
        """Kill one, at some moment after another micro-batch; start again what nobody else does."""
        done = self._newest()
        until(600, f"a micro-batch after {done}", lambda: self._newest() > done or self.ended)
        time.sleep(self._chance.uniform(0.0, 2.0))
        if self.ended:
            return
        if kind == "broker":
            self.broker.process.kill()
            self.broker = self._start_broker()
        elif kind == "driver":
            os.killpg(self._program.pid, signal.SIGKILL)
            self._program.wait(20)
            self._program = self._start_program()
        else:
            until(300, f"there is a {kind}", lambda: victims(self._program.pid, kind) or self.ended)
            for process in victims(self._program.pid, kind)[:1]:
                os.kill(process, signal.SIGKILL)
        self.killed[kind] += 1
        print(f"killed a {kind} after micro-batch {self._newest()}", flush=True)

    def _newest(self) -> int:
        directory = self.copies.home / "checkpoint/commits"
        return max(self.copies.done(), default=-1) if directory.is_dir() else -1

    @property
    def ended(self) -> bool:
        return self._program.poll() is not None

    def end(self) -> int:
        return self._program.wait(600)


@pytest.mark.long("starts clusters of Spark, and kills them")
def test_each_record_is_copied_once_though_everything_is_killed_at_random(tmp_path: Path, spark_home: Path) -> None:
    with contextlib.ExitStack() as lives:
        storm = Storm(tmp_path, lives)
        order = list(KILLS)
        random.Random(7).shuffle(order)
        for kind in order:
            storm.kill(kind)
            if storm.ended:
                break
        assert storm.end() == 0, storm.copies.log("never")
        assert storm.killed.keys() == set(KILLS), storm.killed
        until(60, "all is visible", lambda: storm.copies.copied().total() >= IDS)
        assert storm.copies.copied() == EACH_ONCE
