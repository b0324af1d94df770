"""Stream of a topic that only Kohort's brokers and gateways have."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kohort.client import Admin, ConsumerRecord, KafkaError
from kohort.model import Millis
from kohort.watch.live import Live, SourceKind
from kohort.watch.source.clients import clock, sentence
from kohort.watch.source.log_stream import LogStream

_LOOK_S = 10.0
"""Interval between questions for a topic that does not exist, and between checks for new partitions."""
_MOST_RECORDS = 1_000
_MOST_PAUSE_S = 60.0


class KohortTopic:
    """Reads a topic until it is cancelled.

    `live` hears of this source once the topic has been read: Apache Kafka has no such topic, and
    says of a topic that may not be described that it may exist.
    """

    def __init__(
        self,
        topic: str,
        kind: SourceKind,
        options: Mapping[str, Any],
        admin: Admin,
        live: Live,
        take: Callable[[Sequence[ConsumerRecord]], None],
        *,
        pause_s: float = _LOOK_S,
    ) -> None:
        """Create the stream.

        - `take`: Function that gets the records, and no records after each pause.
        - `pause_s`: Longest time for which it waits for records.
        """
        self._stream = LogStream(topic, options, admin)
        self._kind = kind
        self._live = live
        self._take = take
        self._pause_s = pause_s
        self._open = False
        self._failed = False
        self._looked_at = 0.0
        self._caught_up = asyncio.Event()

    async def close(self) -> None:
        """End reading."""
        await self._stream.close()

    @property
    def is_caught_up(self) -> bool:
        """Whether everything is read that existed at the start, or that was impossible."""
        return self._caught_up.is_set()

    async def caught_up(self) -> None:
        """Wait until everything is read that existed at the start, or until that is impossible at present."""
        await self._caught_up.wait()

    async def run(self, since: Millis | None) -> None:
        """Read for ever, from a time on; with None, from the end."""
        failures = 0
        while True:
            try:
                await self._step(since)
                failures = 0
            except KafkaError as problem:
                failures += 1
                self._failed = True
                if self._open:
                    self._live.source(self._kind, "failed", clock(), sentence(problem))
                self._caught_up.set()
                await asyncio.sleep(min(_MOST_PAUSE_S, 2.0**failures))

    async def _step(self, since: Millis | None) -> None:
        loop = asyncio.get_running_loop()
        if not self._open:
            self._open = await self._stream.open(since)
            self._looked_at = loop.time()
            if not self._open:
                self._caught_up.set()
                await asyncio.sleep(_LOOK_S)
                return
            await self._read_to(await self._stream.ends())
        if not self._failed:  # else what failed may fail again
            self._live.source(self._kind, "following", clock())
        if loop.time() - self._looked_at > _LOOK_S:
            self._looked_at = loop.time()
            await self._stream.add_partitions()
        self._take(await self._stream.read(_MOST_RECORDS, self._pause_s))
        self._failed = False

    async def _read_to(self, ends: Mapping[Any, int]) -> None:
        while self._stream.behind(ends):
            self._take(await self._stream.read(_MOST_RECORDS, self._pause_s))
        self._caught_up.set()
