"""Where the journal of a gateway is written: a file, and a topic of the cluster. What cannot be written waits."""

import asyncio
import errno
import logging
import os
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kohort.client import Admin, NewTopic, Producer
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.recorder import JOURNAL_TOPIC, RebalanceRecord

log = logging.getLogger("kohort.gateway")

_MOST_WAITING_BYTES = 16 << 20
"""Bytes that wait for the file. Newer records are left out beyond it."""
_MOST_WAITING = 1_000
"""Records that wait for the topic. The oldest ones are left out beyond it."""
_AGAIN_S = 10.0
"""Time between two attempts to write the topic."""
_CLOSING_S = 0.5
"""Time that records have when the gateway stops. Ctrl-C must not wait for a cluster that does not answer."""


class JournalFile:
    """Appends records to a file, one in each line."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises OSError."""
        self._path = path
        self._file = path.open("ab", buffering=0)
        # A gateway that was killed may have written a part of its last line.
        self._waiting = bytearray(b"\n" if _ends_within_a_line(path) else b"")
        self._fails = False
        self._left_out = 0

    def add(self, records: Sequence[RebalanceRecord]) -> None:
        """Write records, after those that wait."""
        for record in records:
            line = record.to_json() + b"\n"
            if len(self._waiting) + len(line) > _MOST_WAITING_BYTES:
                self._left_out += 1
            else:
                self._waiting += line
        self.write()

    def write(self) -> None:
        """Write what waits."""
        try:
            while self._waiting:
                written = self._file.write(self._waiting)
                if not written:
                    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
                del self._waiting[:written]
        except OSError as problem:
            if not self._fails:
                log.error("--journal %s cannot be written, so its rebalances wait: %s", self._path, problem.strerror)
            self._fails = True
            return
        if self._fails:
            log.warning(
                "--journal %s can be written again; rebalances left out meanwhile: %d", self._path, self._left_out
            )
            self._fails, self._left_out = False, 0

    def close(self) -> None:
        """Try once more to write what waits."""
        self.write()
        missing = len([line for line in self._waiting.split(b"\n") if line]) + self._left_out
        if missing:
            log.warning("rebalances that are not in --journal %s: %d", self._path, missing)
        self._file.close()


def _ends_within_a_line(path: Path) -> bool:
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


class JournalTopic:
    """Writes records to the topic of the journal."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Take the options of the client."""
        self._options = options
        self._waiting: deque[RebalanceRecord] = deque()
        self._arrived = asyncio.Event()
        self._all_written = asyncio.Event()
        self._all_written.set()
        self._failure = ""
        """Why the topic could not be written the last time."""
        self._left_out = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to write."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def add(self, records: Sequence[RebalanceRecord]) -> None:
        """Write records, after those that wait."""
        self._waiting += records
        while len(self._waiting) > _MOST_WAITING:
            if not self._left_out:
                log.warning("the journal's topic cannot be written fast enough: the oldest rebalances are left out")
            self._waiting.popleft()
            self._left_out += 1
        self._all_written.clear()
        self._arrived.set()

    async def close(self) -> None:
        """Wait shortly for records on their way, unless the topic cannot be written."""
        if self._task is None:
            return
        if not self._failure:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_written.wait(), _CLOSING_S)
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        if missing := len(self._waiting) + self._left_out:
            log.warning("rebalances that are not in the journal's topic: %d", missing)

    async def _run(self) -> None:
        while True:
            try:
                await self._write_all()
            except KohortError as problem:
                if str(problem) != self._failure:
                    log.error("the journal's topic cannot be written, so its rebalances wait: %s", problem)
                self._failure = str(problem)
                await asyncio.sleep(_AGAIN_S)

    async def _write_all(self) -> None:
        async with Admin(**self._options) as admin:
            if JOURNAL_TOPIC not in await admin.list_topics(internal=True):
                try:
                    await admin.create_topics([NewTopic(JOURNAL_TOPIC, 1)])
                except KafkaError as problem:
                    if problem.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                        raise
        async with Producer(**self._options) as producer:
            while True:
                while self._waiting:
                    await self._write_first(producer)
                self._all_written.set()
                self._arrived.clear()
                await self._arrived.wait()

    async def _write_first(self, producer: Producer) -> None:
        record = self._waiting[0]
        key = record.group_id.encode("utf-8", "surrogateescape")
        try:
            await (await producer.send(JOURNAL_TOPIC, record.to_json(), key=key))
        except KafkaError as problem:
            if problem.code != ErrorCode.MESSAGE_TOO_LARGE:
                raise
            log.error("group=%s a rebalance is not in the journal's topic: %s", record.group_id, problem)
        else:
            if self._failure:
                log.warning("the journal's topic can be written again")
                self._failure = ""
        if self._waiting and self._waiting[0] is record:  # it may have been left out meanwhile
            self._waiting.popleft()
