"""Ctrl-C and SIGTERM end every command within a second, a second Ctrl-C at once; nothing is left behind.

`COMMANDS` has a row for each command, also for one that is added later: a test fails where one is missing."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from kohort import TopicPartition, interruption
from kohort.blocking import Consumer
from kohort.cli.app import app
from tests.interop.broker import Broker
from tests.interop.kohort import kohort, kohort_to_kill

WITHIN_S = 1.0
LOADED_S = 2.0
"""What starting and ending Python may take besides on a machine whose cores are shared with other tests."""

UNTIDY = ("Traceback", "Exception ignored", "resource_tracker", "semaphore", "was destroyed", "never awaited")


@dataclass(frozen=True)
class Row:
    """How to have a command busy: its arguments, and what it writes when it is. Without `busy` it asks a broker that
    takes connections and never answers."""

    arguments: tuple[str, ...] = ()
    busy: str = ""
    code: int | None = None
    """The exit code; None for that of the signal."""
    environment: Mapping[str, str] = field(default_factory=dict)


MUTE, BROKER, HOME = "{mute}", "{broker}", "{home}"

COMMANDS: dict[str, Row] = {
    "broker": Row(("--listen", "127.0.0.1:0", "--memory"), "ready ", code=0),
    "broker ": Row(("--listen", "127.0.0.1:0", "--data", HOME), "ready ", code=0),
    "broker  ": Row(("--listen", "127.0.0.1:0", "--memory", "--web", "127.0.0.1:0"), "ready http", code=0),
    "cluster": Row(("--brokers", "2"), "ready ", code=0),
    "cluster ": Row(("--brokers", "2", "--data", HOME), "ready ", code=0),
    "cluster  ": Row(("--brokers", "2", "--web", "127.0.0.1:0"), "ready http", code=0),
    "gateway": Row(("--upstream", MUTE, "--listen", "127.0.0.1:0"), "ready ", code=0),
    "fake": Row(("--ports", "0,0", "--control=127.0.0.1:0"), "control ", code=0),
    "fake ": Row(("--ports", "0", "--data-dir", HOME), "127.0.0.1:", code=0),
    "produce": Row(("orders", "--bootstrap", MUTE)),
    "produce ": Row(("orders-{name}", "--bootstrap", BROKER), "reading"),
    "consume": Row(("orders", "--bootstrap", MUTE), code=0),
    "consume ": Row(("orders-{name}", "--bootstrap", BROKER, "--group", "g-{name}", "--from-beginning"), "hello", 0),
    "rebalances": Row(("--bootstrap", MUTE)),
    "watch": Row(("--once", "--bootstrap", MUTE)),
    "top": Row(("--bootstrap", MUTE)),
    "watch ": Row(("--bootstrap", MUTE, "--listen", "127.0.0.1:0"), "ready ", code=0),
    "watch  ": Row(("--bootstrap", BROKER, "--listen", "127.0.0.1:0"), "ready ", code=0),
    "sim": Row(("--minutes", "5", "--jobs", "2"), " worlds, "),
    "sim ": Row(("--model", "9"), "1 events deep"),
    "lab": Row(("bounce", "--broker", "kohort", "--members", "2", "--out", HOME), "repetition 1"),
    "analyse": Row(("--bootstrap", BROKER, "--out", HOME), "starting Spark"),
    "analyse ": Row(("--bootstrap", BROKER, "--out", HOME), " s  "),
    "demo": Row(("--out", HOME), "answers on"),
    "topic list": Row(("--bootstrap", MUTE)),
    "topic create": Row(("orders", "--bootstrap", MUTE)),
    "topic describe": Row(("orders", "--bootstrap", MUTE)),
    "topic partitions": Row(("orders", "--partitions", "3", "--bootstrap", MUTE)),
    "topic delete": Row(("orders", "--bootstrap", MUTE)),
    "topic config show": Row(("orders", "--bootstrap", MUTE)),
    "topic config set": Row(("orders", "retention.ms=1", "--bootstrap", MUTE)),
    "topic config unset": Row(("orders", "retention.ms", "--bootstrap", MUTE)),
    "group list": Row(("--bootstrap", MUTE)),
    "group describe": Row(("g", "--bootstrap", MUTE)),
    "group explain": Row(("g", "--bootstrap", MUTE)),
    "group reset-offsets": Row(("g", "--topic", "orders", "--to-earliest", "--bootstrap", MUTE)),
    "group delete-offsets": Row(("g", "--topic", "orders", "--bootstrap", MUTE)),
    "group remove-member": Row(("g", "--all", "--bootstrap", MUTE)),
    "group delete": Row(("g", "--bootstrap", MUTE)),
    "group config show": Row(("g", "--bootstrap", MUTE)),
    "group config set": Row(("g", "consumer.session.timeout.ms=50000", "--bootstrap", MUTE)),
    "group config unset": Row(("g", "consumer.session.timeout.ms", "--bootstrap", MUTE)),
    "user add": Row(("alice", "--bootstrap", MUTE), environment={"KOHORT_PASSWORD": "any"}),
    "user list": Row(("--bootstrap", MUTE)),
    "user delete": Row(("alice", "--bootstrap", MUTE)),
    "acl add": Row(("--allow-principal", "User:alice", "--topic", "orders", "--bootstrap", MUTE)),
    "acl list": Row(("--bootstrap", MUTE)),
    "transactions list": Row(("--bootstrap", MUTE)),
    "transactions describe": Row(("t", "--bootstrap", MUTE)),
    "transactions describe-producers": Row(("orders", "0", "--bootstrap", MUTE)),
    "transactions find-hanging": Row(("--bootstrap", MUTE)),
    "transactions abort": Row(("orders", "0", "--start-offset", "0", "--bootstrap", MUTE)),
    "transactions fence": Row(("t", "--bootstrap", MUTE)),
    "features describe": Row(("--bootstrap", MUTE)),
    "features upgrade": Row(("--feature", "transaction.version=2", "--bootstrap", MUTE)),
    "features downgrade": Row(("--feature", "transaction.version=1", "--bootstrap", MUTE)),
    "client-metrics list": Row(("--bootstrap", MUTE)),
    "client-metrics show": Row(("groups", "--bootstrap", MUTE)),
    "client-metrics set": Row(("groups", "--metrics", "*", "--bootstrap", MUTE)),
    "client-metrics delete": Row(("groups", "--bootstrap", MUTE)),
    "quota show": Row(("--bootstrap", MUTE)),
    "quota set": Row(("producer_byte_rate=1", "--user", "alice", "--bootstrap", MUTE)),
    "quota unset": Row(("producer_byte_rate", "--user", "alice", "--bootstrap", MUTE)),
    "acl remove": Row(("--topic", "orders", "--force", "--bootstrap", MUTE)),
}
"""By command; a space behind it tells another way of keeping it busy apart."""


def test_every_command_has_a_row() -> None:
    def leaves(command: Any, *path: str) -> set[str]:
        inner = getattr(command, "commands", None)
        if inner is None:
            return {" ".join(path)}
        return set[str]().union(*(leaves(subcommand, *path, name) for name, subcommand in inner.items()))

    assert leaves(get_command(app)) == {name.strip() for name in COMMANDS}


@dataclass
class Mute:
    """A listener that takes connections and never answers."""

    address: str
    asked: threading.Event


@pytest.fixture
def mute() -> Iterator[Mute]:
    server = socket.create_server(("127.0.0.1", 0))
    asked = threading.Event()
    held: list[socket.socket] = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                held.append(connection)
                threading.Thread(target=listen, args=(connection,), daemon=True).start()

    def listen(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if connection.recv(1):  # the first connection only tests whether the port is open
                asked.set()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield Mute(f"127.0.0.1:{server.getsockname()[1]}", asked)
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()
    for sock in held:
        sock.close()


class Command:
    """A command in a session of its own, as a shell starts it in a terminal."""

    def __init__(self, arguments: list[str], home: Path, **environment: str) -> None:
        self.mark = f"KOHORT_TEST={uuid.uuid4().hex}"
        self.output = home / "output"
        self.temporary = home / "tmp"
        self.temporary.mkdir()
        name, _, value = self.mark.partition("=")
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(
                kohort(*arguments), stdin=subprocess.PIPE, stdout=out, stderr=out, start_new_session=True,
                env={**os.environ, "TMPDIR": str(self.temporary), name: value, "COLUMNS": "120", **environment},
            )  # fmt: skip

    @property
    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def until(self, condition: Callable[[], bool], within: float = 60.0) -> None:
        deadline = time.monotonic() + within
        while not condition():
            assert self.process.poll() is None, f"ended with {self.process.returncode}\n{self.text}"
            assert time.monotonic() < deadline, self.text
            time.sleep(0.01)

    def interrupt(self, number: signal.Signals) -> float:
        """Ctrl-C reaches every process of the terminal, SIGTERM the one that is named. Returns when it was sent."""
        sent = time.monotonic()
        if number is signal.SIGINT:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)
        return sent

    def is_interruptible(self) -> bool:
        """Whether it has taken over SIGTERM, which Python leaves to the system."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
        return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)

    def left(self) -> list[str]:
        """The command lines of processes that it started and that are still there."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self.mark.encode() in (path / "environ").read_bytes():
                    found.append((path / "cmdline").read_text(errors="replace").replace("\0", " "))
        return found

    def end(self) -> None:
        """Whatever happened, nothing of it is left."""
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self.mark.encode() in (path / "environ").read_bytes():
                    os.kill(int(path.name), signal.SIGKILL)
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()


@contextlib.contextmanager
def busy(name: str, broker: Broker, mute: Mute, home: Path) -> Iterator[Command]:
    """The command, as soon as it is at work."""
    row = COMMANDS[name]
    unique = uuid.uuid4().hex[:8]
    words = {"mute": mute.address, "broker": broker.bootstrap, "home": str(home / "home"), "name": unique}
    if name in ("consume ", "produce "):
        done = subprocess.run(
            kohort("produce", f"orders-{unique}", "--bootstrap", broker.bootstrap), input=b"hello\n", check=True,
            capture_output=True, timeout=60,
        )  # fmt: skip
        assert b"wrote 1 record" in done.stderr
    arguments = [*name.split(), *(argument.format(**words) for argument in row.arguments)]
    command = Command(arguments, home, **row.environment)
    try:
        if not row.busy:
            command.until(mute.asked.is_set)
        elif name == "produce ":
            assert command.process.stdin is not None
            command.process.stdin.write(b"typed\n" * 3)
            command.process.stdin.flush()
            partition = TopicPartition(f"orders-{unique}", 0)
            with Consumer(bootstrap_servers=broker.bootstrap) as consumer:
                command.until(lambda: consumer.end_offsets([partition])[partition] == 4)
        else:
            command.until(lambda: row.busy in command.text)
        yield command
    finally:
        command.end()


def ended(command: Command, since: float, name: str, code: int, *, twice: bool = False) -> None:
    """It ends in time, with that code (or its own for an end as wanted), tidily, and nothing of it is left.

    A second signal that comes when the interpreter is about to end kills it: a shell reports the same code.
    """
    ended_with = command.process.wait(30.0)
    took = time.monotonic() - since
    own = COMMANDS[name].code
    assert ended_with in ({code, own, 128 - code} if twice else {code if own is None else own}), command.text
    assert took < WITHIN_S + LOADED_S, f"{took:.2f} s\n{command.text}"
    assert [word for word in UNTIDY if word in command.text] == [], command.text
    deadline = time.monotonic() + 10.0
    while command.left() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert command.left() == []
    if not twice:
        assert list(command.temporary.iterdir()) == []


QUICK = [name for name in COMMANDS if name.startswith(("topic", "group", "user"))]
"""Commands that are alike in this: all of them wait for one answer."""

SPARK = [name for name in COMMANDS if name.startswith("analyse")]
LONG = [name for name in COMMANDS if name not in {*QUICK, *SPARK}]
_OF_MANY = pytest.mark.long("the same with each other command")
FEW_OF_LONG = [pytest.param(name, marks=() if name in ("broker", "consume", "lab") else _OF_MANY) for name in LONG]


BELOW = {"sim", "produce "}
"""Ctrl-C ends these in tests below, too, which look at what they say in the end."""
DAILY = [*(name for name in LONG if name not in BELOW), QUICK[0]]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in DAILY else _OF_MANY) for name in [*LONG, *QUICK]]
)
def test_ctrl_c_ends_it(kohort_broker: Broker, mute: Mute, tmp_path: Path, name: str) -> None:
    with busy(name, kohort_broker, mute, tmp_path) as command:
        ended(command, command.interrupt(signal.SIGINT), name, 128 + signal.SIGINT)


@pytest.mark.parametrize("name", FEW_OF_LONG)
def test_sigterm_ends_it(kohort_broker: Broker, mute: Mute, tmp_path: Path, name: str) -> None:
    with busy(name, kohort_broker, mute, tmp_path) as command:
        ended(command, command.interrupt(signal.SIGTERM), name, 128 + signal.SIGTERM)


@pytest.mark.parametrize("name", FEW_OF_LONG)
def test_ctrl_c_twice_ends_it_without_a_word(kohort_broker: Broker, mute: Mute, tmp_path: Path, name: str) -> None:
    with busy(name, kohort_broker, mute, tmp_path) as command:
        since = command.interrupt(signal.SIGINT)
        command.interrupt(signal.SIGINT)
        ended(command, since, name, 128 + signal.SIGINT, twice=True)


@pytest.mark.spark
@pytest.mark.long("starts Spark for each command")
@pytest.mark.parametrize(("name", "number"), [(SPARK[0], signal.SIGINT), (SPARK[1], signal.SIGTERM)], ids=SPARK)
def test_a_signal_ends_what_spark_does(
    kohort_broker: Broker, mute: Mute, tmp_path: Path, name: str, number: signal.Signals
) -> None:
    with busy(name, kohort_broker, mute, tmp_path) as command:
        ended(command, command.interrupt(number), name, 128 + number)


IGNORED = """
import signal, time, weakref
from kohort import interruption

class Referred: pass

def gone(_):
    signal.raise_signal(signal.SIGINT)
    for _ in range(1_000): pass

interruption.install()
referred = Referred()
reference = weakref.ref(referred, gone)
try:
    del referred
    time.sleep(60)
except interruption.Interrupted as problem:
    print("interrupted", problem.exit_code)
"""


def test_a_signal_that_arrives_where_exceptions_are_ignored_is_not_lost() -> None:
    done = subprocess.run([sys.executable, "-c", IGNORED], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("interrupted 130\n", "", 0)


CHILDREN = ("lab", "demo", "analyse")
"""Commands that start processes from their beginning on."""

MOMENTS_S = (0.0, 0.05, 0.15, 0.4, 0.8, 1.5, 3.0)
"""After a command took the signals over; a random part of the next step is added."""


@pytest.mark.spark
@pytest.mark.long("starts each command six times")
@pytest.mark.parametrize("name", CHILDREN)
def test_ctrl_c_twice_at_any_early_moment_is_tidy(kohort_broker: Broker, mute: Mute, tmp_path: Path, name: str) -> None:
    dice = random.Random()
    for number, (moment, following) in enumerate(itertools.pairwise(MOMENTS_S)):
        at, gap = dice.uniform(moment, following), dice.choice((0.0, dice.uniform(0.0, 0.3)))
        home = tmp_path / str(number)
        home.mkdir()
        words = {"mute": mute.address, "broker": kohort_broker.bootstrap, "home": str(home / "home"), "name": "none"}
        command = Command([name, *(argument.format(**words) for argument in COMMANDS[name].arguments)], home)
        try:
            command.until(command.is_interruptible)
            time.sleep(at)  # the moment is what is tried
            since = command.interrupt(signal.SIGINT)
            time.sleep(gap)
            with contextlib.suppress(ProcessLookupError):
                command.interrupt(signal.SIGINT)
            ended(command, since, name, 128 + signal.SIGINT, twice=True)
        except AssertionError as problem:
            raise AssertionError(f"Ctrl-C after {at:.3f} s and {gap:.3f} s later") from problem
        finally:
            command.end()


def test_a_consumer_whose_broker_is_dead_ends_as_soon(mute: Mute, tmp_path: Path) -> None:
    with kohort_to_kill() as broker, busy("consume ", broker, mute, tmp_path) as command:
        broker.process.kill()
        ended(command, command.interrupt(signal.SIGINT), "consume ", 0)


def test_typed_lines_are_counted_when_ctrl_c_ends_it(kohort_broker: Broker, mute: Mute, tmp_path: Path) -> None:
    with busy("produce ", kohort_broker, mute, tmp_path) as command:
        ended(command, command.interrupt(signal.SIGINT), "produce ", 128 + signal.SIGINT)
        assert "wrote 3 records" in command.text


def test_an_interrupted_transaction_writes_no_line_and_says_so(kohort_broker: Broker, tmp_path: Path) -> None:
    at, topic = kohort_broker.bootstrap, f"orders-{uuid.uuid4().hex[:8]}"
    subprocess.run(kohort("topic", "create", topic, "--bootstrap", at), check=True, capture_output=True, timeout=60)
    command = Command(["produce", topic, "--transactional-id", topic, "--bootstrap", at], tmp_path)
    partition = TopicPartition(topic, 0)
    try:
        assert command.process.stdin is not None
        command.process.stdin.write(b"typed\n" * 3)
        command.process.stdin.flush()
        with Consumer(bootstrap_servers=at) as consumer:
            command.until(lambda: consumer.end_offsets([partition])[partition] == 3)
        ended(command, command.interrupt(signal.SIGINT), "produce ", 128 + signal.SIGINT)
        assert "the transaction is aborted, so no line is written" in command.text
        with Consumer(bootstrap_servers=at, isolation_level="read_committed") as consumer:
            consumer.assign([partition])
            consumer.seek_to_beginning()
            assert consumer.poll(timeout=1.0) == [] and consumer.end_offsets([partition]) == {partition: 4}
    finally:
        command.end()


def test_a_simulation_that_is_interrupted_reports_what_it_found(
    kohort_broker: Broker, mute: Mute, tmp_path: Path
) -> None:
    with busy("sim", kohort_broker, mute, tmp_path) as command:
        ended(command, command.interrupt(signal.SIGINT), "sim", 128 + signal.SIGINT)
        assert "simulated group-hours" in command.text


def test_a_simulation_reports_a_killed_worker_process(kohort_broker: Broker, mute: Mute, tmp_path: Path) -> None:
    with busy("sim", kohort_broker, mute, tmp_path) as command:
        children = Path(f"/proc/{command.process.pid}/task/{command.process.pid}/children").read_text().split()
        worker = next(child for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes())
        os.kill(int(worker), signal.SIGKILL)
        assert command.process.wait(30.0) == 2
        assert "ended with code -9" in command.text


STUBBORN = """
import asyncio, sys
from kohort import interruption
interruption.ORDERLY_S = float(sys.argv[1])
interruption.install()
async def work():
    try:
        print("busy", flush=True)
        await asyncio.sleep(60)
    finally:
        print("ending", flush=True)
        await asyncio.sleep(60)
interruption.run(work())
"""


@pytest.mark.parametrize(("limit", "signals"), [("0.2", 1), ("30", 2)], ids=["in time", "at the second signal"])
def test_a_process_that_does_not_end_is_killed(limit: str, signals: int) -> None:
    command = [sys.executable, "-c", STUBBORN, limit]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for word in ("busy", "ending")[:signals]:
            assert process.stdout.readline().strip() == word
            process.send_signal(signal.SIGTERM)
        assert process.wait(20.0) == 128 + signal.SIGTERM
        assert process.stderr.read() == ""


def test_work_that_a_signal_ends_before_it_begins_leaves_no_warning() -> None:
    async def work() -> None:
        raise AssertionError("it began")

    def interrupt() -> asyncio.AbstractEventLoop:
        raise interruption.Interrupted(signal.SIGINT)

    never = work()
    with pytest.raises(KeyboardInterrupt):
        interruption.run(never, interrupt)
    assert inspect.getcoroutinestate(never) == inspect.CORO_CLOSED


NEVER_TAKEN_APART = """
import asyncio, sys, time
import kohort.cli.app
from kohort import cli, interruption
class Module:
    def __del__(self, sleep=time.sleep):
        sleep(60)
kept = Module()
async def work():
    print("busy", flush=True)
    await asyncio.sleep(60)
kohort.cli.app.run = lambda arguments: interruption.run(work())
cli.main()
"""


def test_a_command_that_a_signal_ends_does_not_wait_for_python_to_take_its_modules_apart() -> None:
    command = [sys.executable, "-c", NEVER_TAKEN_APART]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().strip() == "busy"
        process.send_signal(signal.SIGINT)
        assert process.wait(20.0) == 128 + signal.SIGINT
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    "arguments", [("broker", "--listen", "127.0.0.1:0", "--memory"), ("cluster", "--brokers", "1")]
)
def test_a_broker_with_a_closed_standard_output_reports_it(arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        ran = subprocess.run(kohort(*arguments), stdout=closed, stderr=subprocess.PIPE, text=True, timeout=60)
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("kohort: ")]
    assert "cannot be written to standard output: Broken pipe" in line
    assert ran.returncode == 2
    assert "data directory" not in ran.stderr
    assert "Traceback" not in ran.stderr


LOST_CONNECTION = """
import logging, os, signal
from kohort import interruption

logging.basicConfig()
interruption.install()
logger = logging.getLogger("py4j.clientserver")
def lose(text):
    try:
        raise BrokenPipeError
    except OSError:
        logger.exception(text)
lose("before the signal")
try:
    os.kill(os.getpid(), signal.SIGTERM)
except KeyboardInterrupt:
    lose("after the signal")
"""


def test_a_connection_to_the_jvm_that_is_lost_by_the_signal_is_not_logged() -> None:
    done = subprocess.run([sys.executable, "-c", LOST_CONNECTION], capture_output=True, text=True, timeout=30)
    assert "before the signal" in done.stderr
    assert "after the signal" not in done.stderr
