"""The demo's child processes: started here, ended here, by the handle that started them."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

from kohort.errors import KohortError

_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 20.0


@dataclass(slots=True)
class Child:
    """One child process. What it says on stderr goes to a file, the JSON lines of its stdout to `told`."""

    name: str
    process: asyncio.subprocess.Process
    log_path: Path
    told: list[Mapping[str, Any]] = field(default_factory=list)
    _news: asyncio.Queue[Mapping[str, Any] | None] = field(default_factory=asyncio.Queue)
    _log: IO[bytes] | None = None
    _reader: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, name: str, command: Sequence[str], directory: Path, **environment: str) -> Self:
        """`command` without the interpreter: it is run by this Python."""
        path = directory / f"{name}.log"
        log = path.open("ab")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env={**os.environ, **environment},
        )
        return cls(name, process, path, _log=log)

    async def first_line(self) -> str:
        """The first line of its stdout. Raises KohortError if there is none."""
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                line = (await self.process.stdout.readline()).decode().strip()
        except TimeoutError:
            line = ""
        if not line:
            raise KohortError(f"{self.name} did not start; its last words are in {self.log_path}:\n{self.last_words()}")
        return line

    def say(self, line: str) -> None:
        """A line to its stdin."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())

    def listen(self) -> None:
        """Collect the JSON lines of its stdout from now on."""
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            if line.startswith(b"{"):
                self.told.append(json.loads(line))
                self._news.put_nowait(self.told[-1])
        self._news.put_nowait(None)

    async def hear(self) -> Mapping[str, Any] | None:
        """The next JSON line of its stdout; None when it has ended."""
        return await self._news.get()

    async def finished(self) -> int:
        """Wait for its end; the exit code, negative for a signal."""
        code = await self.process.wait()
        if self._reader is not None:
            await self._reader
        if self._log is not None:
            self._log.close()
        return code

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end (or kill it) and wait; the exit code."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        try:
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                return await self.finished()
        except TimeoutError:
            self.process.kill()
            return await self.finished()

    def kill(self) -> None:
        """SIGKILL."""
        if self.process.returncode is None:
            self.process.kill()

    def last_words(self) -> str:
        """The end of its log."""
        return self.log_path.read_text(errors="replace")[-2_000:]


async def start_broker(data: Path, logs: Path, port: int = 0) -> tuple[Child, str]:
    """A broker with its log in `data`, and its address once it answers."""
    command = ["-m", "kohort", "broker", "--listen", f"127.0.0.1:{port}", "--data", str(data)]
    command += ["--set", "group.initial.rebalance.delay.ms=1000"]
    broker = await Child.start("broker", command, logs)
    word, _, address = (await broker.first_line()).partition(" ")
    assert word == "ready"
    broker.listen()
    return broker, address
