"""Common parts of all suites: cases, results, the directory of sources, and the table of results."""

from __future__ import annotations

import contextlib
import enum
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.interop.broker import Broker
from tests.interop.kafka import cache_directory, running_kafka
from tests.interop.kohort import kohort, running_kohort
from tests.interop.process import ServerProcess

ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""Settings of a broker with an authorizer: its clients are anonymous, and what has no ACL is open to them."""


class Unavailable(Exception):
    """A suite cannot run here; the text says what is missing."""


class Verdict(enum.Enum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    TIMED_OUT = "timed out"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one test ended; `detail` is the suite's own sentence when it did not pass."""

    name: str
    about: str
    verdict: Verdict
    seconds: float
    detail: str = ""


def cached(name: str) -> Path:
    """A directory of ours in the cache, made when it is missing."""
    directory = cache_directory() / "interop-long" / name
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@contextlib.contextmanager
def made_once(directory: Path) -> Iterator[Path | None]:
    """Give an empty directory to fill, which becomes `directory` at the end; None when another run made it before."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if directory.is_dir():
            yield None
            return
        with tempfile.TemporaryDirectory(dir=directory.parent) as work:
            filled = Path(work, "filled")
            filled.mkdir()
            yield filled
            # Renamed when complete: a directory that exists is whole.
            filled.rename(directory)


def unpack(archive: Path, into: Path) -> None:
    """Unpack a source archive without its outermost directory."""
    with tempfile.TemporaryDirectory(dir=into.parent) as work:
        shutil.unpack_archive(archive, work)
        (outermost,) = Path(work).iterdir()
        shutil.copytree(outermost, into, dirs_exist_ok=True, symlinks=True)


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"needs {name} (not on the PATH)")
    return found


def build_step(command: Sequence[str], *, cwd: Path, log: Path, timeout: float) -> None:
    """Run one step of a build with its output in `log`; `Unavailable` when it fails."""
    with log.open("a") as output:
        try:
            done = subprocess.run(
                command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, timeout=timeout
            )
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"{command[0]} did not end within {timeout:.0f} s; see {log}") from error
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(command)} ended with {done.returncode}; see {log}")


def run_limited(command: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path, timeout: float) -> int | None:
    """Run a test program with its output in `log`; its exit code, None when the time was over and it was ended."""
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def fresh_broker(kind: str, node_id: int, settings: Mapping[str, str]) -> Iterator[Broker]:
    """A fresh broker: Kohort, or Apache Kafka with the same settings."""
    if kind == "kafka":
        with running_kafka({"node.id": str(node_id), **settings}) as kafka:
            yield kafka
    else:
        ours = {name.replace(".", "_"): value for name, value in settings.items()}
        with running_kohort("--node-id", str(node_id), **ours) as kohort:
            yield kohort


@dataclass(frozen=True, slots=True)
class FreshCluster:
    """Three brokers of ours, known by their addresses."""

    bootstrap: str


@contextlib.contextmanager
def fresh_cluster(settings: Mapping[str, str]) -> Iterator[FreshCluster]:
    """Three brokers of ours over an empty directory, each in its own rack."""
    named = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    process = ServerProcess(kohort("cluster", "--brokers", "3", "--racks", "RACK1,RACK2,RACK3", *named))
    try:
        yield FreshCluster(process.wait_for(r"^ready (\S+)$", timeout=60.0)[1])
        code = process.stop(60.0)
        assert code == 0, f"the cluster ended with {code} after SIGTERM\n{process.output()}"
    finally:
        process.kill()


def markdown(outcomes: Iterable[Outcome], reasons: Mapping[str, str]) -> str:
    """The table as docs/interop.md holds it: with our reason where there is one, else with the suite's own words."""
    lines = ["| test | about | result | why |", "| --- | --- | --- | --- |"]
    for outcome in outcomes:
        why = "" if outcome.verdict is Verdict.PASSED else reasons.get(outcome.name) or outcome.detail
        lines.append(f"| {outcome.name} | {outcome.about} | {outcome.verdict.value} | {why.replace('|', '/')} |")
    return "\n".join(lines)
