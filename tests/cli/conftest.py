"""The command as users run it, against a broker in another process."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import pytest

from kohort.cli import main

_PATIENCE = 0.75
"""What a command may take on a busy machine, of its test's timeout; a group whose last member was lost waits 45 s for
its session."""


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Run = Callable[..., Ran]


def succeeded(ran: Ran) -> Ran:
    """Run a step that others need: without its records, consumers would wait forever."""
    assert ran.code == 0, ran.err
    return ran


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Run:
    """`run("topic", "list", bootstrap=..., stdin=...)`; without a bootstrap nothing listens where it looks.

    It runs in this process, through the command's entry point: a process of its own takes half a second to start.
    """

    own = request.node.get_closest_marker("timeout")
    patience_s = _PATIENCE * float(request.config.getini("timeout") if own is None else own.args[0])

    def call(*arguments: str, bootstrap: str = "127.0.0.1:1", stdin: str = "") -> Ran:
        with tempfile.TemporaryFile("w+") as lines, monkeypatch.context() as patch:
            lines.write(stdin)
            lines.seek(0)
            patch.setattr("sys.stdin", lines)
            patch.setenv("KOHORT_BOOTSTRAP", bootstrap)
            patch.setenv("COLUMNS", "120")
            with pytest.raises(SystemExit) as ended, _interrupted_in_the_end(patience_s) as late:
                main(arguments)
        out, err = capfd.readouterr()
        assert not late.is_set(), f"kohort {' '.join(arguments)} had not ended after {patience_s} s\n{out}\n{err}"
        return Ran(int(ended.value.code or 0), out, err)

    return call


@contextlib.contextmanager
def _interrupted_in_the_end(patience_s: float) -> Iterator[threading.Event]:
    """Ctrl-C when a command takes too long: uvloop swallows what pytest-timeout's signal raises, and would wait on."""
    late = threading.Event()

    def interrupt() -> None:
        late.set()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    alarm = threading.Timer(patience_s, interrupt)
    alarm.start()
    try:
        yield late
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        alarm.cancel()
        alarm.join()


_names = count()


@pytest.fixture
def name() -> str:
    """Return a name for a topic or a group that is unique on this broker."""
    return f"cli-{os.getpid()}-{next(_names)}"
