"""Source of what clients report about themselves: the telemetry topic of Kohort's brokers."""

from collections.abc import Mapping, Sequence
from typing import Any

from kohort.client import Admin, ConsumerRecord
from kohort.model import Millis
from kohort.telemetry import TELEMETRY_TOPIC, ClientTelemetry, MalformedTelemetry
from kohort.watch.live import Live, SourceKind
from kohort.watch.source.clients import clock
from kohort.watch.source.kohort_topic import KohortTopic

_HISTORY_MS: Millis = 600_000
"""Age of the pushes that are read first: two intervals of a client that pushes every five minutes."""


class TelemetrySource:
    """Reads the topic until it is cancelled, and tells `live`."""

    def __init__(self, options: Mapping[str, Any], admin: Admin, live: Live) -> None:
        self._topic = KohortTopic(TELEMETRY_TOPIC, SourceKind.TELEMETRY, options, admin, live, self._take)
        self._live = live

    async def close(self) -> None:
        """End reading."""
        await self._topic.close()

    async def run(self) -> None:
        """Read for ever."""
        await self._topic.run(clock() - _HISTORY_MS)

    def _take(self, records: Sequence[ConsumerRecord]) -> None:
        for record in records:
            try:
                telemetry = ClientTelemetry.from_json(record.value or b"")
            except MalformedTelemetry as problem:
                self._live.problem(str(problem), clock())
            else:
                self._live.client_reported(telemetry, clock())
        self._live.expire_reports(clock())
