"""Apache Kafka from Maven Central's jars: a broker to compare with, and its other main classes.

`mvn` fetches the jars once, into a cache outside the source tree (KOHORT_CACHE, else
$XDG_CACHE_HOME/kohort).
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

# slf4j-simple replaces the distribution's log4j setup: without a binding the broker logs nothing.
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
# The second compiler and a concurrent collector do not pay off for short-lived tools and brokers.
QUICK_START = (
    *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Xshare:auto", "-XX:-UsePerfData"),
    _WARNINGS_ONLY,
)
# The options of Kafka's own start script, for measurements of its speed.
PRODUCTION = ("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Xms1g", "-Xmx1g", _WARNINGS_ONLY)


class Unavailable(KohortError):
    """Apache Kafka cannot run here; the message names what is missing."""


def cache_directory() -> Path:
    """Return the directory that keeps downloads between runs."""
    named = os.environ.get("KOHORT_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kohort"


@functools.cache
def jars() -> Path:
    """Return the directory of Kafka's jars, which are fetched on first use.

    Raises Unavailable without Java, Maven or a network.
    """
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
        # Without the lock, parallel test workers or two checkouts would fetch the same 54 MB at once.
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
        # The rename makes the directory appear only when it is complete.
        Path(work, "jars").rename(directory)


def java(main: str, *arguments: str, options: Sequence[str] = QUICK_START, classes: Path | None = None) -> list[str]:
    """Return the command line that runs a main class from Kafka's jars, and from a directory of more classes."""
    path = f"{jars()}/*" if classes is None else f"{jars()}/*{os.pathsep}{classes}"
    return ["java", *options, "-cp", path, main, *arguments]


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 that were free a moment ago; they are reserved together so that they differ."""
    with contextlib.ExitStack() as held:
        taken = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(s.getsockname()[1]) for s in taken]


class ApacheKafka:
    """KRaft node, usually broker and controller in one process."""

    def __init__(self, bootstrap: str, process: ServerProcess, log_dir: Path) -> None:
        self.bootstrap = bootstrap
        self.process = process
        self.log_dir = log_dir

    def start_again(self) -> None:
        """Start the node again after a kill, on the same address and with its data on disk."""
        self.process = self.process.again()
        self.process.wait_for("Kafka Server started", timeout=60.0)

    @property
    def pid(self) -> int:
        return self.process.pid


@contextlib.contextmanager
def running_kafka(
    config: Mapping[str, str] | None = None, jvm: Sequence[str] = QUICK_START, plugins: Path | None = None
) -> Iterator[ApacheKafka]:
    """Run Apache Kafka on a free port of 127.0.0.1 in a temporary directory; remove both at the end.

    `plugins` is a directory of compiled classes that the configuration names.
    """
    with tempfile.TemporaryDirectory(prefix="apache-kafka-") as directory:
        port, controller_port = free_ports(2)
        settings = _properties(Path(directory), port, controller_port, config or {})
        with _node(Path(directory), settings, jvm, plugins=plugins) as kafka:
            yield kafka


@contextlib.contextmanager
def running_kafka_pair(racks: tuple[str, str], config: Mapping[str, str]) -> Iterator[tuple[ApacheKafka, ApacheKafka]]:
    """Run a cluster of two brokers, each in its rack.

    The first is also the controller, so the second may be killed.
    """
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
    plugins: Path | None = None,
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
            classes=plugins,
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
        # Its data is deleted anyway, so a controlled shutdown is not awaited.
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
        # With one node, every internal topic has one replica.
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # By default the first rebalance of an empty group waits 3 s, which slows down tests with many groups.
        "group.initial.rebalance.delay.ms": "0",
        # Records with old timestamps are kept.
        "log.retention.ms": "-1",
        **config,
    }


def _new_cluster_id() -> str:
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _format(properties: Path, cluster_id: str, role: str) -> None:
    # With `=`, an ID that begins with a dash is not taken for an option.
    command = java("kafka.tools.StorageTool", "format", role, f"--cluster-id={cluster_id}", "-c", str(properties))
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
