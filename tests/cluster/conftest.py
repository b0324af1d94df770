"""A cluster of broker processes as users start it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from kohort.log.cluster import ClusterImage
from kohort.log.cluster.directory import read_image
from kohort.log.postgres.cluster_state import read_image as read_from_database
from tests.cli.conftest import run
from tests.cluster.postgres import PostgresServer, postgres
from tests.interop.kohort import kohort
from tests.interop.process import ServerProcess, until

__all__ = ["postgres", "run"]


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """A running `kohort cluster`."""

    bootstrap: str
    data: Path
    process: ServerProcess
    stopped: set[int] = field(default_factory=set)
    """Processes that stand still, or did."""

    @property
    def image(self) -> ClusterImage:
        return read_image(self.data)

    def process_id(self, node_id: int) -> int:
        return int((self.data / "brokers" / f"{node_id}.lock").read_text().split()[0])

    def address(self, node_id: int) -> str:
        node = self.image.nodes[node_id]
        return f"{node.host}:{node.port}"

    def signal(self, node_id: int, number: signal.Signals) -> None:
        process_id = self.process_id(node_id)
        if number is signal.SIGSTOP:
            self.stopped.add(process_id)
        os.kill(process_id, number)

    def wake(self) -> None:
        """Resume suspended processes, which would not receive the signal to end."""
        for process_id in self.stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGCONT)

    def without(self, node_id: int, timeout: float = 10.0) -> None:
        """Wait until the others lead what that broker led."""
        until(timeout, f"broker {node_id} is replaced", lambda: node_id not in self.image.nodes)

    def came_back(self, node_id: int, before: int) -> None:
        """Wait until another process is that broker and leads its share."""
        until(30.0, f"broker {node_id} comes back", lambda: self.process_id(node_id) != before)
        self.whole(3)

    def whole(self, brokers: int, timeout: float = 20.0) -> None:
        """Wait until that many brokers are alive and every partition has its permanent leader."""
        until(timeout, "the cluster settles", lambda: len(self.image.nodes) == brokers and self.image.settled)


class OverPostgres(RunningCluster):
    """A running `kohort cluster` over a database."""

    @property
    def image(self) -> ClusterImage:
        return read_from_database(str(self.data))

    def process_id(self, node_id: int) -> int:
        named = b"--node-id\0%d\0" % node_id
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                if int(parent) == self.process.pid and named in (entry / "cmdline").read_bytes():
                    return int(entry.name)
        return -1


StartCluster = Callable[..., AbstractContextManager[RunningCluster]]


@pytest.fixture
def start_cluster(tmp_path: Path) -> StartCluster:
    """Start brokers with options and settings (underscores for dots); SIGTERM must end all of them cleanly."""

    @contextlib.contextmanager
    def start(*options: str, brokers: int = 3, **settings: str) -> Iterator[RunningCluster]:
        named = _named(settings)
        data = tmp_path / "data"
        command = kohort("cluster", "--brokers", str(brokers), "--data", str(data), *named, *options)
        with _running(command, lambda bootstrap, process: RunningCluster(bootstrap, data, process)) as cluster:
            yield cluster

    return start


@pytest.fixture
def start_over_postgres(postgres: PostgresServer) -> StartCluster:
    """The same over a database, a fresh one unless it is given."""

    @contextlib.contextmanager
    def start(*options: str, dsn: str | None = None, **settings: str) -> Iterator[OverPostgres]:
        dsn = dsn or postgres.fresh_database()
        command = kohort("cluster", "--brokers", "3", "--postgres", dsn, *_named(settings), *options)
        with _running(command, lambda bootstrap, process: OverPostgres(bootstrap, Path(dsn), process)) as cluster:
            yield cluster

    return start


@pytest.fixture(params=["files", "postgres"])
def start_over_either(request: pytest.FixtureRequest) -> StartCluster:
    """For what must be the same over both stores."""
    fixture = "start_cluster" if request.param == "files" else "start_over_postgres"
    start: StartCluster = request.getfixturevalue(fixture)
    return start


Cluster = TypeVar("Cluster", bound=RunningCluster)


@contextlib.contextmanager
def _running(command: list[str], running: Callable[[str, ServerProcess], Cluster]) -> Iterator[Cluster]:
    process = ServerProcess(command)
    with contextlib.ExitStack() as stack:
        stack.callback(process.kill)
        ready = process.wait_for(r"^ready (\S+)$", timeout=60.0)
        cluster = running(ready[1], process)
        stack.callback(cluster.wake)
        yield cluster
        code = process.stop(60.0)
        assert code == 0, f"the cluster ended with {code} after SIGTERM\n{process.output()}"


def _named(settings: Mapping[str, str]) -> list[str]:
    usual = {"offsets_topic_num_partitions": "9", "group_initial_rebalance_delay_ms": "100"}
    return [
        part for name, value in {**usual, **settings}.items() for part in ("--set", f"{name.replace('_', '.')}={value}")
    ]
