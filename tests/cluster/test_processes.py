"""A broker that stands still is ended, and no other process ever is."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.log.cluster import ClusterDirectory, Node
from kohort.log.cluster.processes import NotTheSameProcess, ProcessIdentity, end, this_process

Change = Callable[[ProcessIdentity], ProcessIdentity]

ELSEWHERE: dict[str, Change] = {
    "another container": lambda one: replace(one, namespace="pid:[1]"),
    "another machine": lambda one: replace(one, boot_id="another"),
    "an earlier process with the same id": lambda one: replace(one, started_at=one.started_at - 1),
    "a machine that does not say which it is": lambda one: replace(one, boot_id="-"),
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
    end(meant)
    assert process.wait(30) == -9
    with pytest.raises(ProcessLookupError):
        end(meant)


@pytest.mark.parametrize("change", ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_no_other_process_is_ended(process: subprocess.Popen[bytes], change: Change) -> None:
    with pytest.raises(NotTheSameProcess):
        end(change(identity(process)))
    assert process.poll() is None


@pytest.mark.parametrize("change", ELSEWHERE.values(), ids=ELSEWHERE.keys())
async def test_a_broker_leaves_alone_what_it_cannot_tell_from_others_and_says_so_once(
    tmp_path: Path, process: subprocess.Popen[bytes], change: Change, caplog: pytest.LogCaptureFixture
) -> None:
    options = BrokerOptions(port=0, data=tmp_path, shared=True, settings={"broker.session.timeout.ms": "100"})
    # A broker of another container that stands still: its lock is held, its beat grows old, and its process id is
    # that of an innocent process here.
    still = ClusterDirectory(tmp_path, 2, process=change(identity(process)))
    try:
        async with Broker(options), asyncio.timeout(30):
            still.change(lambda image: image.joined(Node(2, "127.0.0.1", 1, None)))
            while not complaints(caplog):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)  # five times as long as a broker may stand still
            assert process.poll() is None
            (once,) = complaints(caplog)
            assert f"broker 2 (process {process.pid}) stood still for 100 ms and cannot be ended" in once
            # That it can be ended ends it: the look goes on.
            still.process = identity(process)
            still.beat()
            assert await asyncio.to_thread(process.wait, 30) == -9
    finally:
        still.close()


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "cannot be ended" in record.getMessage()]
