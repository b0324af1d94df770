"""Source of what clients report about themselves: the telemetry topic of Kohort's brokers."""

import asyncio
from collections.abc import Mapping
from typing import Any

from kohort.client import Admin, KafkaError
from kohort.model import Millis
from kohort.telemetry import TELEMETRY_TOPIC, ClientTelemetry, MalformedTelemetry
from kohort.watch.live import Live, SourceKind
from kohort.watch.source.clients import clock, sentence
from kohort.watch.source.log_stream import LogStream

_HISTORY_MS: Millis = 600_000
"""Age of the pushes that are read first: two intervals of a client that pushes every five minutes."""
_LOOK_S = 10.0
"""Interval between questions for a topic that does not exist, and between checks for new partitions."""
_MOST_RECORDS = 1_000
_MOST_PAUSE_S = 60.0


class TelemetrySource:
    """Reads the topic until it is cancelled.

    `live` hears of this source once the topic has been read: Apache Kafka has no such topic, and
    says of a topic that may not be described that it may exist.
    """

    def __init__(self, options: Mapping[str, Any], admin: Admin, live: Live) -> None:
        self._stream = LogStream(TELEMETRY_TOPIC, options, admin)
        self._live = live
        self._open = False
        self._looked_at = 0.0

    async def close(self) -> None:
        """End reading."""
        await self._stream.close()

    async def run(self) -> None:
        """Read for ever."""
        failures = 0
        while True:
            try:
                await self._step()
                failures = 0
            except KafkaError as problem:
                failures += 1
                if self._open:
                    self._live.source(SourceKind.TELEMETRY, "failed", clock(), sentence(problem))
                await asyncio.sleep(min(_MOST_PAUSE_S, 2.0**failures))

    async def _step(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._open:
            self._open = await self._stream.open(clock() - _HISTORY_MS)
            self._looked_at = loop.time()
            if not self._open:
                await asyncio.sleep(_LOOK_S)
                return
        self._live.source(SourceKind.TELEMETRY, "following", clock())
        if loop.time() - self._looked_at > _LOOK_S:
            self._looked_at = loop.time()
            await self._stream.add_partitions()
            self._live.expire_reports(clock())
        for record in await self._stream.read(_MOST_RECORDS, _LOOK_S):
            try:
                telemetry = ClientTelemetry.from_json(record.value or b"")
            except MalformedTelemetry as problem:
                self._live.problem(str(problem), clock())
            else:
                self._live.client_reported(telemetry, clock())
