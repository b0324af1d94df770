"""Apache Kafka itself, from Maven Central's jars: a broker to compare with, and what else the jars can run.

The jars are fetched once by `mvn` into a cache outside the tree (KOHORT_CACHE, else $XDG_CACHE_HOME/kohort).
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import socket
import subprocess
import tempfile
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kohort.errors import KohortError
from kohort.lab.process import ServerProcess

VERSION = "4.3.1"

# slf4j-simple is what the distribution's log4j setup would be: without a binding the broker starts mute.
_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kohort</groupId><artifactId>apache-kafka</artifactId><version>{VERSION}</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{VERSION}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""
_COPY_JARS = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"

_WARNINGS_ONLY = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
# Short-lived tools and brokers never repay the second compiler or a concurrent collector.
QUICK_START = (
    *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Xshare:auto", "-XX:-UsePerfData"),
    _WARNINGS_ONLY,
)
# As Kafka's own start script has it, for when its speed is the question.
PRODUCTION = ("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Xms1g", "-Xmx1g", _WARNINGS_ONLY)


class Unavailable(KohortError):
    """Apache Kafka cannot run here; the text says what is missing."""


def cache_directory() -> Path:
    """Where what is downloaded is kept between runs."""
    named = os.environ.get("KOHORT_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kohort"


@functools.cache
def jars() -> Path:
    """The directory of Kafka's jars, fetched on first use; `Unavailable` without Java, Maven or a network."""
    if shutil.which("java") is None:
        raise Unavailable("needs Java 17 (no java on the PATH)")
    directory = cache_directory() / f"apache-kafka-{VERSION}"
    if directory.is_dir():
        return directory
    mvn = shutil.which("mvn")
    if mvn is None:
        raise Unavailable(f"needs Maven to fetch Apache Kafka {VERSION} (no mvn on the PATH)")
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        # Workers of one run, or two checkouts, would fetch the same 54 MB at once.
        with (directory.parent / "apache-kafka.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not directory.is_dir():
                _fetch(mvn, directory)
    except OSError as error:
        raise Unavailable(f"cannot write the cache {directory.parent}: {error.strerror}") from error
    return directory


def _fetch(mvn: str, directory: Path) -> None:
    with tempfile.TemporaryDirectory(dir=directory.parent) as work:
        pom = Path(work, "pom.xml")
        pom.write_text(_POM)
        command = [
            mvn,
            "-B",
            "-q",
            "-f",
            str(pom),
            _COPY_JARS,
            "-DincludeScope=runtime",
            f"-DoutputDirectory={work}/jars",
        ]
        if not os.access(Path.home(), os.W_OK):
            command.append(f"-Dmaven.repo.local={directory.parent}/m2")
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"Maven did not fetch Apache Kafka {VERSION} within 300 s") from error
        if done.returncode != 0:
            reason = next(
                (line for line in done.stdout.splitlines() if "ERROR" in line), f"exit code {done.returncode}"
            )
            raise Unavailable(f"Maven could not fetch Apache Kafka {VERSION}: {reason[:300]}")
        # Renamed when complete: a directory that exists is whole.
        Path(work, "jars").rename(directory)


def java(main: str, *arguments: str, options: Sequence[str] = QUICK_START) -> list[str]:
    """The command line that runs one of the main classes in Kafka's jars."""
    return ["java", *options, "-cp", f"{jars()}/*", main, *arguments]


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody had a moment ago; taken together so that they differ."""
    with contextlib.ExitStack() as held:
        taken = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(s.getsockname()[1]) for s in taken]


class ApacheKafka:
    """A single KRaft node, broker and controller in one process."""

    def __init__(self, bootstrap: str, process: ServerProcess, log_dir: Path) -> None:
        self.bootstrap = bootstrap
        self.process = process
        self.log_dir = log_dir

    def start_again(self) -> None:
        """After its process was killed: on the same address, with what it had on disk."""
        self.process = self.process.again()
        self.process.wait_for("Kafka Server started", timeout=60.0)

    @property
    def pid(self) -> int:
        return self.process.pid


@contextlib.contextmanager
def running_kafka(config: Mapping[str, str] | None = None, jvm: Sequence[str] = QUICK_START) -> Iterator[ApacheKafka]:
    """Start Apache Kafka on a free port of 127.0.0.1 in a temporary directory; both are gone at the end."""
    with tempfile.TemporaryDirectory(prefix="apache-kafka-") as directory:
        port, controller_port = free_ports(2)
        with _node(Path(directory), _properties(Path(directory), port, controller_port, config or {}), jvm) as kafka:
            yield kafka


@contextlib.contextmanager
def running_kafka_pair(racks: tuple[str, str], config: Mapping[str, str]) -> Iterator[tuple[ApacheKafka, ApacheKafka]]:
    """Start a cluster of two brokers, each in its rack. The first is the controller, too, so the second may die."""
    with tempfile.TemporaryDirectory(prefix="apache-kafka-") as directory:
        port, controller_port, other_port = free_ports(3)
        home, other_home = Path(directory, "1"), Path(directory, "2")
        cluster_id = _new_cluster_id()
        settings = _properties(home, port, controller_port, {**config, "broker.rack": racks[0]})
        other = {
            **_properties(other_home, other_port, controller_port, {**config, "broker.rack": racks[1]}),
            "node.id": "2",
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://127.0.0.1:{other_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{other_port}",
        }
        with (
            _node(home, settings, QUICK_START, cluster_id) as first,
            _node(other_home, other, QUICK_START, cluster_id, "--no-initial-controllers") as second,
        ):
            yield first, second


@contextlib.contextmanager
def _node(
    home: Path,
    settings: Mapping[str, str],
    jvm: Sequence[str],
    cluster_id: str | None = None,
    role: str = "--standalone",
) -> Iterator[ApacheKafka]:
    home.mkdir(exist_ok=True)
    properties = home / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    _format(properties, cluster_id or _new_cluster_id(), role)
    process = ServerProcess(
        java(
            "kafka.Kafka",
            str(properties),
            options=(*jvm, "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info"),
        ),
        cwd=home,
    )
    try:
        process.wait_for("Kafka Server started", timeout=60.0)
        port = settings["listeners"].partition(",")[0].rpartition(":")[2]
        kafka = ApacheKafka(f"127.0.0.1:{port}", process, home / "data")
        try:
            yield kafka
        finally:
            process = kafka.process
    finally:
        # Nothing of it is kept, so nothing is lost by not waiting for a controlled shutdown.
        process.kill()


def _properties(home: Path, port: int, controller_port: int, config: Mapping[str, str]) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "log.dirs": str(home / "data"),
        # One node: every internal topic has one replica.
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # The first rebalance of an empty group waits 3 s by default; whoever starts many groups minds.
        "group.initial.rebalance.delay.ms": "0",
        # Records that say that they are old stay.
        "log.retention.ms": "-1",
        **config,
    }


def _new_cluster_id() -> str:
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _format(properties: Path, cluster_id: str, role: str) -> None:
    # An id that begins with a dash would be read as an option.
    command = java("kafka.tools.StorageTool", "format", role, f"--cluster-id={cluster_id}", "-c", str(properties))
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
