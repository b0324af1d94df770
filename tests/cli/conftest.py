"""The command as users run it: in a process of its own, against a broker in another."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import pytest

from tests.interop.kohort import kohort


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
def run() -> Run:
    """`run("topic", "list", bootstrap=..., stdin=...)`; without a bootstrap nothing listens where it looks."""

    def call(*arguments: str, bootstrap: str = "127.0.0.1:1", stdin: str = "") -> Ran:
        environment = {**os.environ, "KOHORT_BOOTSTRAP": bootstrap, "COLUMNS": "120"}
        done = subprocess.run(
            kohort(*arguments), input=stdin, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    return call


_names = count()


@pytest.fixture
def name() -> str:
    """A topic or a group that nobody else uses on this broker."""
    return f"cli-{os.getpid()}-{next(_names)}"
