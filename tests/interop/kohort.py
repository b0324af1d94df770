"""Our broker as users start it: the command, in a process of its own."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tests.interop.process import ServerProcess


@dataclass(frozen=True, slots=True)
class KohortBroker:
    """A running `kohort broker`."""

    bootstrap: str
    process: ServerProcess

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.bootstrap.rpartition(":")
        return host, int(port)


def kohort(*arguments: str) -> list[str]:
    """The command line of our own command, from the environment that runs the tests."""
    return [str(Path(sys.executable).with_name("kohort")), *arguments]


@contextlib.contextmanager
def started(command: Sequence[str]) -> Iterator[KohortBroker]:
    """Start a broker by a command that prints `ready` and its address; end it by SIGKILL."""
    process = ServerProcess(command)
    try:
        ready = process.wait_for(r"^ready (\S+:\d+)$", timeout=20.0)
        yield KohortBroker(ready[1], process)
    finally:
        process.kill()


@contextlib.contextmanager
def running_kohort(
    *options: str, listen: str = "127.0.0.1:0", program: Sequence[str] = (), **settings: str
) -> Iterator[KohortBroker]:
    """Start `kohort broker` on a free port, in memory unless the options name a store; end it by SIGTERM.

    `settings` are Kafka's names with underscores for dots. `program` is how to run `kohort`, if it is not that of this
    environment. A broker that does not end cleanly fails the test.
    """
    with kohort_to_kill(*options, listen=listen, program=program, **settings) as broker:
        yield broker
        code = broker.process.stop()
        assert code == 0, f"the broker ended with {code} after SIGTERM\n{broker.process.output()}"


def kohort_to_kill(
    *options: str, listen: str = "127.0.0.1:0", program: Sequence[str] = (), **settings: str
) -> AbstractContextManager[KohortBroker]:
    """As `running_kohort`, but it ends by SIGKILL."""
    store = [] if {"--data", "--postgres"} & set(options) else ["--memory"]
    named = [part for name, value in settings.items() for part in ("--set", f"{name.replace('_', '.')}={value}")]
    where = [] if "--listen" in options else ["--listen", listen]
    return started([*(program or kohort()), "broker", *where, *store, *named, *options])
