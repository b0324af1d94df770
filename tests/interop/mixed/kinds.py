"""The kinds of members: how to start one, and what a machine lacks that cannot.

kafkajs and the franz-go program are fetched and built once, in the cache that also holds Apache Kafka's jars.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.interop.kafka import QUICK_START, Unavailable, cache_directory, jars, java
from tests.interop.mixed.login import Login

_CLIENTS = Path(__file__).with_name("clients")
_JAVA_ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


@dataclass(frozen=True, slots=True)
class Choices:
    """Special behaviour of a member."""

    instance: str = ""
    """A static member's id; empty for a dynamic one."""
    pattern: bool = False
    """The topic is a regular expression."""
    reset: str = "earliest"
    """Or latest, none, by_duration:PT1H (KIP-1106)."""
    metadata_ms: int = 300_000
    """How old what it knows of topics may become."""
    pause_ms: int = 0
    """It pauses partition 0 as soon as it has it, for so long."""
    note: str = ""
    """The metadata of its commits."""
    protocol: str = "classic"
    """Or `consumer` (KIP-848): then the strategy is an assignor of the coordinator's, who resolves patterns, too."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a member is to join, and as whom: `name` is its client id."""

    bootstrap: str
    group: str
    topic: str
    strategy: str
    name: str
    session_ms: int
    choices: Choices = Choices()
    login: Login | None = None
    """None for a broker without security."""

    def arguments(self) -> list[str]:
        choices, login = json.dumps(asdict(self.choices)), json.dumps(self.login and asdict(self.login))
        return [self.bootstrap, self.group, self.topic, self.strategy, self.name, str(self.session_ms), choices, login]


COOPERATIVE_KINDS = ("librdkafka", "kafka-python", "kohort", "java", "franz-go")
"""The libraries that rebalance cooperatively (KIP-429)."""

CONSUMER_KINDS = ("librdkafka", "kohort", "java", "franz-go")
"""The libraries that speak the consumer protocol."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A client library."""

    name: str
    command: Callable[[Place, Path], Sequence[str]]
    """May write files into the directory."""
    need: Callable[[], object]
    """Raises Unavailable; fetches and builds what is missing."""


def _java(place: Place, directory: Path) -> Sequence[str]:
    """VerifiableConsumer; our own program where it has no option for what is chosen."""
    chosen = place.choices
    # It commits once: a cooperative member has to do so again after a rebalance.
    beyond = chosen.protocol == "consumer" or place.strategy.endswith("cooperative-sticky")
    config, security = directory / f"{place.name}.properties", place.login.java() if place.login else {}
    if chosen.pattern or chosen.pause_ms or chosen.note or beyond or chosen.reset not in ("earliest", "latest"):
        _write(config, security)
        program = str(_CLIENTS / "java" / "Member.java")
        return java(program, *place.arguments(), str(config), options=(*QUICK_START, "-Xmx128m"))
    settings = {
        "client.id": place.name,
        "heartbeat.interval.ms": 400,
        "metadata.max.age.ms": place.choices.metadata_ms,
        # VerifiableConsumer polls without a pause: a fetch that waits for more keeps it as calm as the others.
        "fetch.min.bytes": 1000,
        "fetch.max.wait.ms": 200,
        **security,
    }
    _write(config, settings)
    static = ["--group-instance-id", place.choices.instance] if place.choices.instance else []
    return java(
        "org.apache.kafka.tools.VerifiableConsumer",
        *("--bootstrap-server", place.bootstrap, "--group-id", place.group, "--topic", place.topic, "--verbose"),
        *("--assignment-strategy", _JAVA_ASSIGNORS[place.strategy], "--session-timeout", str(place.session_ms)),
        *("--command-config", str(config), "--reset-policy", place.choices.reset, *static),
        options=(*QUICK_START, "-Xmx128m"),
    )


def _write(config: Path, settings: Mapping[str, object]) -> None:
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))


def _python(client: str) -> Callable[[Place, Path], Sequence[str]]:
    module = "tests.interop.mixed.clients.python_member"
    return lambda place, _: [sys.executable, "-m", module, client, *place.arguments()]


def _kafkajs(place: Place, directory: Path) -> Sequence[str]:
    return ["node", str(kafkajs() / "member.js"), *place.arguments()]


def _franz_go(place: Place, directory: Path) -> Sequence[str]:
    return [str(franz_go() / "member"), *place.arguments()]


def kafkajs() -> Path:
    """Where the program lies beside what npm installed for it."""
    return _built("kafkajs", ("npm", "node"), _NPM_INSTALL)


def franz_go() -> Path:
    """Where the built program lies."""
    return _built("franz_go", ("go",), _GO_BUILD)


_NPM_INSTALL = ("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--fetch-retries=1")
_GO_BUILD = ("go", "build", "-trimpath", "-buildvcs=false", "-o", "member", ".")


def _built(client: str, programs: tuple[str, ...], build: tuple[str, ...]) -> Path:
    found = _build(client, programs, build)
    if isinstance(found, Unavailable):
        raise found
    return found


@functools.cache  # a failure too: a machine without a network is asked once
def _build(client: str, programs: tuple[str, ...], build: tuple[str, ...]) -> Path | Unavailable:
    try:
        for program in programs:
            if shutil.which(program) is None:
                raise Unavailable(f"needs {program} (not on the PATH)")
        return _once(client, build)
    except Unavailable as missing:
        return missing
    except OSError as error:
        return Unavailable(f"cannot write the cache {cache_directory()}: {error.strerror}")


def _once(client: str, build: Sequence[str]) -> Path:
    """Build what the client's directory says in a copy of it in the cache, once for each content of it."""
    sources = sorted(path for path in (_CLIENTS / client).iterdir() if path.is_file())
    content = hashlib.sha256(b"\0".join(path.name.encode() + path.read_bytes() for path in sources)).hexdigest()
    cache = cache_directory()
    done = cache / f"mixed-{client}-{content[:12]}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"mixed-{client}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.is_dir():
            work = done.with_suffix(".new")
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            for path in sources:
                shutil.copy(path, work)
            _run(build, work)
            # Renamed when complete: a directory that exists is whole.
            work.rename(done)
    return done


def _run(command: Sequence[str], work: Path) -> None:
    # The version that go.mod names is the oldest that will do; another is not fetched.
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    try:
        done = subprocess.run(
            command, cwd=work, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{command[0]} did not end within 300 s") from error
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(command[:2])} failed: {(done.stderr or done.stdout).strip()[-300:]}")


def _nothing() -> None:
    """The test environment has it."""


KINDS = (
    Kind("librdkafka", _python("librdkafka"), _nothing),
    Kind("kafka-python", _python("kafka-python"), _nothing),
    Kind("aiokafka", _python("aiokafka"), _nothing),
    Kind("kohort", _python("kohort"), _nothing),
    Kind("java", _java, jars),
    Kind("kafkajs", _kafkajs, kafkajs),
    Kind("franz-go", _franz_go, franz_go),
)
