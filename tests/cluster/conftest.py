"""A cluster of broker processes as users start it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kohort.log.cluster import ClusterImage
from kohort.log.cluster.directory import read_image
from tests.cluster.postgres import postgres
from tests.interop.kohort import kohort
from tests.interop.process import ServerProcess, until

__all__ = ["postgres"]


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
        """Let go on who still stands still: it would not hear that it is to end."""
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
        """Wait until so many brokers are there and every partition has the leader that keeps it."""
        until(timeout, "the cluster settles", lambda: len(self.image.nodes) == brokers and self.image.settled)


StartCluster = Callable[..., AbstractContextManager[RunningCluster]]


@pytest.fixture
def start_cluster(tmp_path: Path) -> StartCluster:
    """Start brokers with options and settings (underscores for dots); SIGTERM must end all of them cleanly."""

    @contextlib.contextmanager
    def start(*options: str, brokers: int = 3, **settings: str) -> Iterator[RunningCluster]:
        settings = {"offsets_topic_num_partitions": "9", "group_initial_rebalance_delay_ms": "100", **settings}
        named = [part for name, value in settings.items() for part in ("--set", f"{name.replace('_', '.')}={value}")]
        data = tmp_path / "data"
        command = kohort("cluster", "--brokers", str(brokers), "--data", str(data), *named, *options)
        process = ServerProcess(command)
        with contextlib.ExitStack() as stack:
            stack.callback(process.kill)
            ready = process.wait_for(r"^ready (\S+)$", timeout=60.0)
            cluster = RunningCluster(ready[1], data, process)
            stack.callback(cluster.wake)
            yield cluster
            code = process.stop(30.0)
            assert code == 0, f"the cluster ended with {code} after SIGTERM\n{process.output()}"

    return start
