"""The command as users run it, against a broker in another process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import pytest

from kohort.cli import main


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


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run("topic", "list", bootstrap=..., stdin=...)`; without a bootstrap nothing listens where it looks.

    It runs in this process, through the command's entry point: a process of its own takes half a second to start.
    """

    def call(*arguments: str, bootstrap: str = "127.0.0.1:1", stdin: str = "") -> Ran:
        with tempfile.TemporaryFile("w+") as lines, monkeypatch.context() as patch:
            lines.write(stdin)
            lines.seek(0)
            patch.setattr("sys.stdin", lines)
            patch.setenv("KOHORT_BOOTSTRAP", bootstrap)
            patch.setenv("COLUMNS", "120")
            with pytest.raises(SystemExit) as ended:
                main(arguments)
        out, err = capfd.readouterr()
        return Ran(int(ended.value.code or 0), out, err)

    return call


_names = count()


@pytest.fixture
def name() -> str:
    """A topic or a group that nobody else uses on this broker."""
    return f"cli-{os.getpid()}-{next(_names)}"
