"""A suspended broker is ended, and no other process ever is."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.broker.cluster.directory import DirectoryCluster
from kohort.log.cluster import ClusterDirectory, Node
from kohort.log.cluster.processes import NotTheSameProcess, ProcessIdentity, kill_process, this_process

Change = Callable[[ProcessIdentity], ProcessIdentity]

ELSEWHERE: dict[str, Change] = {
    "another container": lambda process: replace(process, namespace="pid:[1]"),
    "another machine": lambda process: replace(process, boot_id="another"),
    "an earlier process with the same id": lambda process: replace(process, started_at=process.started_at - 1),
    "a machine that does not say which it is": lambda process: replace(process, boot_id="-"),
}


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any broker, and waits."""
    waiting = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield waiting
    waiting.kill()
    waiting.communicate()


def identity(process: subprocess.Popen[bytes]) -> ProcessIdentity:
    """As that process would give it itself."""
    started_at = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
    return replace(this_process(), process_id=process.pid, started_at=started_at)


def test_a_process_knows_itself_from_every_other(process: subprocess.Popen[bytes]) -> None:
    told = subprocess.run(
        [sys.executable, "-c", "from kohort.log.cluster.processes import this_process; print(this_process())"],
        capture_output=True,
        text=True,
        check=True,
    )
    here = this_process()
    assert here.process_id == os.getpid() and here.started_at > 0
    assert repr(here.boot_id) in told.stdout and repr(here.namespace) in told.stdout
    assert identity(process) != here and identity(process).is_reachable_from(here)


def test_the_process_that_is_meant_is_ended(process: subprocess.Popen[bytes]) -> None:
    meant = identity(process)
    kill_process(meant)
    assert process.wait(30) == -9
    with pytest.raises(ProcessLookupError):
        kill_process(meant)


@pytest.mark.parametrize("change", ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_no_other_process_is_ended(process: subprocess.Popen[bytes], change: Change) -> None:
    with pytest.raises(NotTheSameProcess):
        kill_process(change(identity(process)))
    assert process.poll() is None


@pytest.mark.parametrize("change", ELSEWHERE.values(), ids=ELSEWHERE.keys())
async def test_a_broker_does_not_end_unidentifiable_processes_and_logs_it_once(
    tmp_path: Path, process: subprocess.Popen[bytes], change: Change, caplog: pytest.LogCaptureFixture
) -> None:
    options = BrokerOptions(port=0, data=tmp_path, shared=True, settings={"broker.session.timeout.ms": "100"})
    # A suspended broker of another container: its lock is held, its heartbeat is old, and its process id is
    # that of an innocent process here.
    still = ClusterDirectory(tmp_path, 2, process=change(identity(process)))
    try:
        async with Broker(options), asyncio.timeout(30):
            still.change(lambda image: image.joined(Node(2, "127.0.0.1", 1, None)))
            while not complaints(caplog):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)  # five times the permitted suspension
            assert process.poll() is None
            (once,) = complaints(caplog)
            assert f"broker 2 (process {process.pid}) did not run for 100 ms and cannot be ended" in once
            # It is ended as soon as that is possible: the check continues.
            still.process = identity(process)
            still.heartbeat()
            assert await asyncio.to_thread(process.wait, 30) == -9
    finally:
        still.close()


class Watch:
    """Broker 1 that watches broker 2, by the test's own clock; no process is ended."""

    LEASE_S = 1.0

    def __init__(self, broker: Broker) -> None:
        assert isinstance(broker.leadership, DirectoryCluster)
        self.shared = broker.leadership
        self.now = 1_000.0
        self.ended: list[ProcessIdentity] = []
        self.reachable = True
        self.shared.clock = lambda: self.now
        self.shared.kill = self._end
        self.shared._directory.now_ms = lambda: int(self.now * 1000)

    def _end(self, process: ProcessIdentity) -> None:
        self.ended.append(process)
        if not self.reachable:
            raise NotTheSameProcess("it is elsewhere")

    def look_for(self, seconds: float) -> None:
        """Look every tenth of a second."""
        for _ in range(round(seconds * 10)):
            self.shared._check_others()
            self.now += 0.1


@asynccontextmanager
async def watched(path: Path, change: Change) -> AsyncIterator[tuple[Watch, ClusterDirectory]]:
    """Broker 1, which looks only when it is told to, and the hold of broker 2, which says nothing by itself."""
    settings = {"broker.session.timeout.ms": str(int(Watch.LEASE_S * 1000))}
    async with Broker(BrokerOptions(port=0, data=path, shared=True, settings=settings)) as broker:
        watch = Watch(broker)
        assert watch.shared._task is not None
        watch.shared._task.cancel()
        still = ClusterDirectory(path, 2, process=change(this_process()))
        still.now_ms = lambda: int(watch.now * 1000)
        try:
            still.change(lambda image: image.joined(Node(2, "127.0.0.1", 1, None)))
            watch.shared._store.follow(watch.shared._directory.read())
            still.heartbeat()
            yield watch, still
        finally:
            still.close()


@pytest.mark.parametrize(
    "change",
    [lambda process: replace(process, process_id=1), lambda process: replace(process, boot_id="another")],
    ids=["here", "far"],
)
async def test_a_broker_is_ended_when_its_lease_is_over_and_not_before(tmp_path: Path, change: Change) -> None:
    async with watched(tmp_path, change) as (watch, still):
        watch.look_for(0.9)
        assert watch.ended == []
        still.heartbeat()
        watch.look_for(0.9)
        assert watch.ended == []
        watch.look_for(0.4)
        assert watch.ended == [still.process]


async def test_a_clock_of_another_machine_is_not_compared_with_this_ones(tmp_path: Path) -> None:
    async with watched(tmp_path, lambda process: replace(process, boot_id="another")) as (watch, still):
        still.now_ms = lambda: 5  # it started a moment ago
        still.heartbeat()
        watch.look_for(0.9)
        assert watch.ended == []


async def test_a_broker_of_the_same_process_is_never_ended(tmp_path: Path) -> None:
    async with watched(tmp_path, lambda process: process) as (watch, _):
        watch.look_for(5.0)
        assert watch.ended == []


async def test_a_broker_suspended_again_is_named_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with watched(tmp_path, lambda process: replace(process, boot_id="another")) as (watch, still):
        watch.reachable = False
        for number in range(1, 3):
            watch.look_for(5.0)
            assert len(watch.ended) > number and len(complaints(caplog)) == number
            still.heartbeat()


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "cannot be ended" in record.getMessage()]
