"""Child processes of the demo, which the handle that starts them also ends."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

from kohort.child_processes import starting_child
from kohort.errors import KohortError
from kohort.properties import parse_properties

_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 20.0


@dataclass(slots=True)
class Child:
    """Child process, with its stderr in a log file and the JSON lines of its stdout in `reports`."""

    name: str
    process: asyncio.subprocess.Process
    log_path: Path
    reports: list[Mapping[str, Any]] = field(default_factory=list)
    _unread: asyncio.Queue[Mapping[str, Any] | None] = field(default_factory=asyncio.Queue)
    _log: IO[bytes] | None = None
    _reader: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, name: str, command: Sequence[str], directory: Path, **environment: str) -> Self:
        """Start `command`, which lacks the interpreter, with this Python."""
        path = directory / f"{name}.log"
        log = path.open("ab")
        # A process group of its own keeps a Ctrl-C away from the child; the demo ends its children.
        with starting_child(signal.SIGKILL) as prepare:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**os.environ, **environment},
                start_new_session=True,
                preexec_fn=prepare,
            )
        return cls(name, process, path, _log=log)

    async def first_line(self) -> str:
        """Return the first line of its stdout. Raises KohortError if there is none."""
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                line = (await self.process.stdout.readline()).decode().strip()
        except TimeoutError:
            line = ""
        if not line:
            raise KohortError(f"{self.name} did not start; its last output is in {self.log_path}:\n{self.log_end()}")
        return line

    def send_line(self, line: str) -> None:
        """Write a line to its stdin."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())

    def start_reading(self) -> None:
        """Start to collect the JSON lines of its stdout."""
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            if line.startswith(b"{"):
                self.reports.append(json.loads(line))
                self._unread.put_nowait(self.reports[-1])
        self._unread.put_nowait(None)

    async def next_report(self) -> Mapping[str, Any] | None:
        """Return the next JSON line of its stdout; None after its end."""
        return await self._unread.get()

    async def finished(self) -> int:
        """Wait for its end; return the exit code, negative for a signal."""
        code = await self.process.wait()
        if self._reader is not None:
            await self._reader
        if self._log is not None:
            self._log.close()
        return code

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal and wait; kill the process if it does not end in time. Returns the exit code."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        try:
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                return await self.finished()
        except TimeoutError:
            self.kill()
            return await self.finished()

    def kill(self) -> None:
        """Send SIGKILL to the process and its children."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.killpg(self.process.pid, signal.SIGKILL)

    def log_end(self) -> str:
        """Return the end of its log."""
        return self.log_path.read_text(errors="replace")[-2_000:]


def read_client_options(file: Path | None) -> dict[str, Any]:
    """Return the options of a client in a file; none without a file."""
    return {} if file is None else dict(parse_properties(file.read_text(encoding="utf-8")))


async def start_broker(
    data: Path, logs: Path, port: int = 0, *, protocol: str = "", arguments: Sequence[str] = ()
) -> tuple[Child, str]:
    """Start a broker with its log in `data`; return it and its address when it answers.

    `protocol` stands before the address on which it listens, such as SASL_SSL://.
    """
    command = ["-m", "kohort", "broker", "--listen", f"{protocol}127.0.0.1:{port}", "--data", str(data)]
    command += ["--set", "group.initial.rebalance.delay.ms=1000", *arguments]
    broker = await Child.start("broker", command, logs)
    try:
        word, _, address = (await broker.first_line()).partition(" ")
    except BaseException:
        broker.kill()
        await broker.finished()
        raise
    assert word == "ready"
    broker.start_reading()
    return broker, address
