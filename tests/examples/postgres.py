"""A PostgreSQL server of its own for a test: Debian's programs, a temporary directory, a Unix socket."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg


class Unavailable(Exception):
    """The text says what is missing."""


def program(name: str) -> str:
    """From the PATH, or where Debian keeps it."""
    found = shutil.which(name) or next((str(path) for path in Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), None)
    if found is None:
        raise Unavailable(f"there is no {name} (Debian: postgresql)")
    return found


@contextlib.contextmanager
def running_postgres() -> Iterator[str]:
    """Start it; gives the connection string. It ends with the block."""
    initdb, server = program("initdb"), program("postgres")
    # The server refuses to be run by root.
    user = pwd.getpwnam("nobody").pw_name if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="kohort-pg-") as home:
        data = Path(home) / "data"
        if user is not None:
            shutil.chown(home, user)
        create = [initdb, "-D", str(data), "-U", "kohort", "-A", "trust", "--no-sync", "--no-instructions"]
        made = subprocess.run(create, capture_output=True, text=True, user=user, cwd=home)
        assert made.returncode == 0, made.stderr
        command = [server, "-D", str(data), "-k", home, "-h", "", "-F", "-c", "max_connections=10"]
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=user, cwd=home
        ) as process:
            try:
                dsn = f"host={home} user=kohort dbname=postgres"
                _wait(dsn, process)
                yield dsn
            finally:
                process.send_signal(signal.SIGQUIT)  # an ordinary end waits until everybody has hung up


def _wait(dsn: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        assert process.poll() is None, "the server ended"
        try:
            psycopg.connect(dsn).close()
        except psycopg.OperationalError:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        else:
            return
    raise AssertionError("the server does not answer")
