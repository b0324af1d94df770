"""Source of exact causes and times: the journal of Kohort's brokers."""

from collections.abc import Mapping, Sequence
from typing import Any

from kohort.client import Admin, ConsumerRecord
from kohort.model import Millis
from kohort.recorder import JOURNAL_TOPIC, MalformedRecord, RebalanceRecord
from kohort.watch.live import Live, SourceKind
from kohort.watch.source.clients import clock
from kohort.watch.source.kohort_topic import KohortTopic

_PAUSE_S = 2.0
"""Interval at which records are reported for which the log has no rebalance."""
_MALFORMED = f"Some records of {JOURNAL_TOPIC} cannot be read and are ignored."


class JournalSource:
    """Reads the journal until it is cancelled, and tells `live`.

    Start it when the groups are known: records of unknown groups are left out.
    """

    def __init__(self, options: Mapping[str, Any], admin: Admin, live: Live) -> None:
        self._topic = KohortTopic(JOURNAL_TOPIC, SourceKind.JOURNAL, options, admin, live, self._take, pause_s=_PAUSE_S)
        self._live = live

    async def close(self) -> None:
        """End reading."""
        await self._topic.close()

    @property
    def is_caught_up(self) -> bool:
        """Whether the journal is read, or cannot be read at present."""
        return self._topic.is_caught_up

    async def caught_up(self) -> None:
        """Wait until the journal is read, or until that is impossible at present."""
        await self._topic.caught_up()

    async def run(self, since: Millis | None) -> None:
        """Read for ever. A record is written up to a minute after its rebalance, so none is missed by its time."""
        await self._topic.run(since)

    def _take(self, records: Sequence[ConsumerRecord]) -> None:
        read = []
        for record in records:
            try:
                read.append(RebalanceRecord.from_json(record.value or b""))
            except MalformedRecord:
                self._live.problem(_MALFORMED, clock())
        self._live.journalled(read, clock())
        self._live.expire_journal(clock())
