"""`kohort fake`: a cluster for tests in any language, with an HTTP endpoint that controls it."""

import logging
import os
import re
import select
import signal
import stat
import sys
import threading
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from kohort import interruption
from kohort.cli.options import read_pairs
from kohort.cli.output import print_note
from kohort.cli.running import Refused
from kohort.errors import ConfigError, KohortError

if TYPE_CHECKING:
    from kohort.testing.fake import ControlServer, FakeCluster, FakeOptions, User

_CONTROL_HOST, _CONTROL_PORT = "127.0.0.1", 9099
_DEFAULT_PORTS = "9092,9093,9094"
_MOST_BROKERS = 32
_LOOK_EVERY_MS = 100

_EXAMPLES = (
    "Example: kohort fake --ports 0 --seed-topic orders:3 --control --ends-with-parent\n\n"
    "Example: kohort fake --as-version 3.9 --acls --sasl 'scram-sha-256:admin:$ADMIN_PASSWORD'"
)


class _Command(TyperCommand):
    """A command whose option `--control` may be given without an address."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = []
        for place, word in enumerate(args):
            following = args[place + 1] if place + 1 < len(args) else "-"
            is_bare = word == "--control" and following.startswith("-")
            given.append(f"--control={_CONTROL_HOST}:{_CONTROL_PORT}" if is_bare else word)
        return super().parse_args(ctx, given)


class LogLevel(StrEnum):
    """What the log on standard error has."""

    NONE = "none"
    ERROR = "error"
    WARN = "warn"
    INFO = "info"
    DEBUG = "debug"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fake", cls=_Command, epilog=_EXAMPLES)(fake)


def fake(
    ports: Annotated[
        str, typer.Option(metavar="PORT,...", help="Port of each broker on 127.0.0.1; 0 takes a free one.")
    ] = _DEFAULT_PORTS,
    seed_topic: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[:PARTITIONS],...", help="Topics that exist from the start; repeatable."),
    ] = None,
    broker_config: Annotated[
        list[str] | None,
        typer.Option("--broker-config", "-c", metavar="NAME=VALUE", help="Setting, by Kafka's name; repeatable."),
    ] = None,
    as_version: Annotated[
        str | None,
        typer.Option(metavar="X.Y", help="Release of Apache Kafka whose versions of requests the brokers serve."),
    ] = None,
    allow_auto_topic_creation: Annotated[
        bool, typer.Option("--allow-auto-topic-creation", help="Create topics when clients use them.")
    ] = False,
    sasl: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MECHANISM:USER:PASSWORD",
            help="User that may do everything; clients must authenticate. Repeatable. The mechanism is plain,"
            " scram-sha-256 or scram-sha-512. $NAME in user and password is the environment variable.",
        ),
    ] = None,
    acls: Annotated[bool, typer.Option("--acls", help="Let ACLs decide what other users may do.")] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", "-d", metavar="DIR", help="Directory that keeps the data. Default: temporary."),
    ] = None,
    memory: Annotated[
        bool,
        typer.Option("--memory", help="Keep the data of one broker in memory: faster, with snapshots, and no AddNode."),
    ] = False,
    sync: Annotated[
        bool,
        typer.Option("--sync", help="Sync the disk before each answer, as kohort broker does."),
    ] = False,
    control: Annotated[
        str | None,
        typer.Option(
            metavar="[=HOST:PORT]",
            help=f"Serve the control endpoint. Default address: {_CONTROL_HOST}:{_CONTROL_PORT}",
            show_default=False,
        ),
    ] = None,
    ends_with_parent: Annotated[
        bool,
        typer.Option(
            "--ends-with-parent", help="End when the parent process ends, or closes the pipe that is standard input."
        ),
    ] = False,
    log_level: Annotated[LogLevel, typer.Option("--log-level", "-l", help="Log on standard error.")] = LogLevel.NONE,
) -> int:
    """Run a cluster for tests until SIGTERM or Ctrl-C.

    Prints the address of each broker on a line of standard output when all of them answer, and then,
    with --control, a line such as 'control http://127.0.0.1:9099'. The brokers are one process. Their
    groups start without a delay, and their data is lost in the end unless --data-dir is given.
    """
    from kohort.broker import log_to_stderr

    options = _read_options(
        ports, seed_topic, broker_config, as_version, allow_auto_topic_creation, sasl, acls, data_dir, sync, memory
    )
    address = None if control is None else _read_address(control)
    log_to_stderr(_LEVELS[log_level])
    if acls and not options.users and "super.users" not in options.settings:
        print_note("kohort: with --acls and without --sasl, clients may do nothing: add -c super.users=User:ANONYMOUS.")
    return _serve(options, address, ends_with_parent)


def _serve(options: "FakeOptions", control: tuple[str, int] | None, ends_with_parent: bool) -> int:
    parent = os.getppid()
    from kohort.testing.fake import ControlServer, FakeCluster

    # Blocked in all threads: `_run` takes the first signal when there is something to end.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, interruption.SIGNALS)
    try:
        cluster = FakeCluster(options)
        server = None if control is None else ControlServer(cluster, *control)
        try:
            cluster.start()
            _run(cluster, server, parent if ends_with_parent else None)
        finally:
            if server is not None:
                server.stop()
            cluster.stop()
    except ConfigError:
        raise
    except (KohortError, OSError) as error:
        raise Refused(str(error)) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return 0


def _run(cluster: "FakeCluster", server: "ControlServer | None", parent: int | None) -> None:
    """Tell the addresses, and wait for a signal."""
    if server is not None:
        server.start()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), name="kohort-parent", daemon=True).start()
    _announce([*cluster.addresses, *([] if server is None else [f"control http://{server.address}"])])
    signal.sigwait(interruption.SIGNALS)
    # A second signal, and a second without an end, end the process at once.
    for number in interruption.SIGNALS:
        signal.signal(number, lambda number, _: interruption.end_at_once(number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, interruption.SIGNALS)
    limit = threading.Timer(interruption.ORDERLY_S, os._exit, (0,))
    limit.daemon = True
    limit.start()


def _announce(lines: Sequence[str]) -> None:
    """Write lines to standard output. Raise KohortError if nothing can read them."""
    if sys.stdout is None:  # closed by the parent process, which does not need the lines
        return
    try:
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
    except OSError as error:
        # Otherwise Python flushes the buffer again at exit and reports the same error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Refused(f"The addresses cannot be written to standard output: {error.strerror}.") from error


def _end_with(parent: int) -> None:
    """End this process when its parent ends, or when the pipe that is its standard input is closed.

    The kernel's signal for this (prctl) is no use here: it arrives when the thread that started this process ends, and
    runtimes such as Java's and Go's end threads at any time. The pipe also tells that a process above a launcher ended.
    """
    poll = select.poll()
    if _is_pipe(0):
        poll.register(0, select.POLLIN)
    while os.getppid() == parent:
        for _ in poll.poll(_LOOK_EVERY_MS):
            if not os.read(0, 65_536):
                os.kill(os.getpid(), signal.SIGTERM)
                return
    os.kill(os.getpid(), signal.SIGTERM)


def _is_pipe(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:  # closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


_LEVELS = {
    LogLevel.NONE: logging.CRITICAL + 1,
    LogLevel.ERROR: logging.ERROR,
    LogLevel.WARN: logging.WARNING,
    LogLevel.INFO: logging.INFO,
    LogLevel.DEBUG: logging.DEBUG,
}


# Options


def _read_options(
    ports: str,
    seed_topics: Sequence[str] | None,
    broker_config: Sequence[str] | None,
    as_version: str | None,
    creates_topics: bool,
    sasl: Sequence[str] | None,
    acls: bool,
    data_dir: Path | None,
    sync: bool,
    memory: bool,
) -> "FakeOptions":
    from kohort.testing.fake import FakeOptions, read_release

    numbers = _read_ports(ports)
    if memory and (data_dir is not None or len(numbers) > 1):
        raise ConfigError("--memory is for one broker without --data-dir: give --ports one port.")
    return FakeOptions(
        ports=numbers,
        memory=memory,
        data=data_dir,
        sync=sync,
        release=None if as_version is None else read_release(as_version),
        settings=read_pairs("--broker-config", broker_config or ()),
        topics=_read_topics(seed_topics or ()),
        creates_topics=creates_topics,
        users=[_read_user(text, place) for place, text in enumerate(sasl or (), 1)],
        acls=acls,
    )


def _read_ports(text: str) -> list[int]:
    ports = []
    for word in text.split(","):
        if not re.fullmatch(r"\d{1,5}", word.strip(), re.ASCII) or int(word) > 65_535:
            raise ConfigError(f"--ports takes numbers from 0 to 65535, such as 9092,9093 or 0, not {text!r}.")
        ports.append(int(word))
    named = [port for port in ports if port]
    if len(set(named)) < len(named):
        raise ConfigError(f"--ports names a port twice: {text}.")
    if len(ports) > _MOST_BROKERS:
        raise ConfigError(f"--ports names {len(ports)} brokers; the most is {_MOST_BROKERS}.")
    return ports


def _read_topics(texts: Sequence[str]) -> dict[str, int]:
    """Return the partitions of each topic; -1 for the default."""
    topics = {}
    for text in [part for given in texts for part in given.split(",")]:
        name, colon, count = text.strip().partition(":")
        if not name or (colon and not re.fullmatch(r"[1-9]\d{0,5}", count, re.ASCII)):
            raise ConfigError(f"--seed-topic takes NAME or NAME:PARTITIONS, such as orders:3, not {text!r}.")
        topics[name] = int(count) if colon else -1
    return topics


def _read_user(text: str, place: int) -> "User":
    """Parse a user. Messages do not show the text, which has a password."""
    from kohort.security import Secret
    from kohort.testing.fake import Mechanism, User

    which = f"--sasl number {place}"
    parts = text.split(":", 2)
    if len(parts) < 3:
        raise ConfigError(f"{which} must be MECHANISM:USER:PASSWORD.")
    known = {each.value.lower(): each for each in Mechanism}
    mechanism = known.get(parts[0].lower())
    if mechanism is None:
        raise ConfigError(f"{which} has the mechanism {parts[0]!r}: use {', '.join(known)}.")
    user, password = _expanded(parts[1]), _expanded(parts[2])
    if not user or not password:
        raise ConfigError(f"{which} has no user or no password after environment variables are replaced.")
    if not re.fullmatch(r"[^\s;=\"',:]+", user):
        raise ConfigError(f"{which} has the user {user!r}: use a name without spaces, quotes and the signs ; = , :")
    return User(mechanism, user, Secret(password))


def _expanded(text: str) -> str:
    """Replace $NAME and ${NAME} by environment variables; one that is not set is empty."""
    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", lambda found: os.environ.get(found[1] or found[2], ""), text)


def _read_address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT, HOST, :PORT or PORT; what is missing has its default."""
    wanted = text.strip()
    if wanted.isdigit():
        wanted = f":{wanted}"
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\[\]:]*))(?::(\d{0,5}))?", wanted, re.ASCII)
    if found is None or int(found[3] or 0) > 65_535:
        raise ConfigError(f"--control takes HOST:PORT, such as {_CONTROL_HOST}:{_CONTROL_PORT}, not {text!r}.")
    return found[1] or found[2] or _CONTROL_HOST, int(found[3]) if found[3] else _CONTROL_PORT
