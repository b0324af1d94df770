"""Server in a child process, with its output read, a line that shows that it is ready, and its end awaited."""

from __future__ import annotations

import collections
import os
import re
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from kohort.child_processes import starting_child
from kohort.errors import KohortError

_with_us: weakref.WeakSet[subprocess.Popen[str]] = weakref.WeakSet()


def ends_with_us(process: subprocess.Popen[str]) -> None:
    """Register a process, which leads a process group of its own, for `kill_all`."""
    _with_us.add(process)


def kill_all() -> None:
    """Send SIGKILL to the process groups of all registered processes that still run."""
    for process in list(_with_us):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


class NotReady(KohortError):
    """The process ended or timed out before it printed the expected line."""


class ServerProcess:
    """Child process that runs `command`.

    `wait_for` returns the first matching line of either stream. Threads read both streams, so that
    a server with much output never blocks on a full pipe.
    """

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self._changed = threading.Condition()
        self._stdout: collections.deque[str] = collections.deque(maxlen=1000)
        self._stderr: collections.deque[str] = collections.deque(maxlen=1000)
        self._open_streams = 2
        self.started_at = time.monotonic()
        self._started_with = (command, env, cwd)
        with starting_child(signal.SIGKILL) as prepare:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env={**os.environ, **(env or {})},
                cwd=cwd,
                # A group of its own keeps a Ctrl-C away from the server; `stop` ends it in order.
                start_new_session=True,
                preexec_fn=prepare,
            )
            ends_with_us(self._process)
        self._drains = [
            threading.Thread(target=self._drain, args=(self._process.stdout, self._stdout), daemon=True),
            threading.Thread(target=self._drain, args=(self._process.stderr, self._stderr), daemon=True),
        ]
        for drain in self._drains:
            drain.start()

    def again(self) -> ServerProcess:
        """Run the same command again, as a new process."""
        command, env, cwd = self._started_with
        return ServerProcess(command, env=env, cwd=cwd)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdout(self) -> tuple[str, ...]:
        """The last thousand lines so far."""
        with self._changed:
            return tuple(self._stdout)

    @property
    def stderr(self) -> tuple[str, ...]:
        """The last thousand lines so far."""
        with self._changed:
            return tuple(self._stderr)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_for(self, pattern: str, timeout: float) -> re.Match[str]:
        """Return the first match in any line so far or within `timeout` seconds.

        Raises NotReady, with the output, if there is none.
        """
        wanted = re.compile(pattern)

        def found() -> re.Match[str] | None:
            return next((m for line in (*self.stdout, *self.stderr) if (m := wanted.search(line))), None)

        with self._changed:
            self._changed.wait_for(lambda: found() or self._open_streams == 0, timeout)
            match = found()
        if match is None:
            raise NotReady(f"no line matched {pattern!r}\n{self.output()}")
        return match

    def output(self) -> str:
        return "\n".join((*self.stdout, *self.stderr))

    def wait(self, timeout: float) -> int:
        """Wait until the process ends and its output is read; return the exit code, negative for a signal."""
        code = self._process.wait(timeout)
        for drain in self._drains:
            drain.join(timeout)
        return code

    def stop(self, timeout: float = 20.0) -> int:
        """Send SIGTERM, and SIGKILL to the group after `timeout` seconds; return the exit code."""
        if self.alive:
            self._process.terminate()
        try:
            return self.wait(timeout)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """Send SIGKILL to the process and its children; return the exit code."""
        if self.alive:
            os.killpg(self._process.pid, signal.SIGKILL)
        return self.wait(10.0)

    def rss_bytes(self) -> int:
        """Return the resident memory of this process alone."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None, "the process has ended"
        return int(found[1]) * 1024

    def cpu_seconds(self) -> float:
        """Return the user and system time of this process with all its threads so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _drain(self, stream: IO[str] | None, into: collections.deque[str]) -> None:
        assert stream is not None
        with stream:
            for line in stream:
                with self._changed:
                    into.append(line.rstrip("\n"))
                    self._changed.notify_all()
        with self._changed:
            self._open_streams -= 1
            self._changed.notify_all()
