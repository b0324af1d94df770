"""A PostgreSQL server of a test's own that can be stopped, killed and started again."""

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
import pytest

from tests.examples.postgres import Unavailable, program
from tests.interop.process import until

__all__ = ["PostgresServer", "Unavailable", "postgres", "running_postgres"]


class PostgresServer:
    """Debian's programs, a temporary directory, a Unix socket; databases are made from one template."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._data = home / "data"
        # The server refuses to be run by root.
        self._user = pwd.getpwnam("nobody").pw_name if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        if self._user is not None:
            shutil.chown(home, self._user)
        command = [program("initdb"), "-D", str(self._data), "-U", "kohort", "-A", "trust", "--no-sync"]
        made = subprocess.run(command, capture_output=True, text=True, user=self._user, cwd=home)
        assert made.returncode == 0, made.stderr

    def dsn(self, database: str = "postgres") -> str:
        return f"host={self._home} user=kohort dbname={database}"

    def fresh_database(self) -> str:
        """The connection string of an empty one."""
        self._databases += 1
        name = f"d{self._databases}"
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.dsn(name)

    def start(self) -> None:
        """Answering when it returns."""
        # Without fsync (-F): tests kill processes, and the kernel keeps what they wrote.
        options = ["-k", str(self._home), "-h", "", "-F", "-c", "max_connections=60", "-c", "shared_buffers=32MB"]
        self._process = subprocess.Popen(
            [program("postgres"), "-D", str(self._data), *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=self._user,
            cwd=self._home,
        )
        until(60.0, "the server answers", self._answers)

    def stop(self) -> None:
        """It hangs up on everybody (a fast shutdown)."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """As if its host had lost power, but for what the kernel has."""
        self._end(signal.SIGQUIT)

    def cpu_seconds(self) -> float:
        """Of all its processes so far, ended ones included."""
        assert self._process is not None
        ticks: dict[int, int] = {}
        parents: dict[int, int] = {}
        for entry in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                number, fields = int(entry.parent.name), entry.read_text().rpartition(")")[2].split()
                parents[number] = int(fields[1])
                ticks[number] = sum(map(int, fields[11:15]))
        mine = {self._process.pid}
        while more := {number for number, parent in parents.items() if parent in mine} - mine:
            mine |= more
        return sum(ticks[number] for number in mine) / os.sysconf("SC_CLK_TCK")

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(60.0)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.dsn()).close()
        except psycopg.OperationalError:
            return False
        return True


@contextlib.contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Raises Unavailable."""
    with tempfile.TemporaryDirectory(prefix="kohort-pg-") as home:
        server = PostgresServer(Path(home))
        try:
            server.start()
            yield server
        finally:
            server.kill()  # an ordinary end writes all that is in memory


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One for all tests that leave it running; each takes a fresh database."""
    try:
        with running_postgres() as server:
            yield server
    except Unavailable as missing:
        pytest.skip(str(missing))
