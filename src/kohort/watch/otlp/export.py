"""Sink that exports rebalances as traces. The event loop only queues records; a thread sends them."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from kohort.model import Millis
from kohort.recorder import RebalanceRecord
from kohort.watch.live import Live, LiveEvent, Rebalanced
from kohort.watch.otlp.sender import Sender
from kohort.watch.traces import FinalRecords, earlier_ones

_log = logging.getLogger(__name__)

_TICK_S = 1.0


class TraceExport:
    """Exports the rebalances that a `Live` reports. Use it as an async context manager.

    A rebalance is exported once its record is final: each new owner has read its partitions, or a
    minute has passed. Rebalances that ended before the export began are left out.
    """

    def __init__(
        self,
        live: Live,
        cluster_id: str,
        endpoint: str,
        *,
        since: Millis | None = None,
        report: Callable[[str], None] = _log.warning,
    ) -> None:
        """Create the sink.

        - `cluster_id`: ID of the cluster, from which the IDs of the traces follow.
        - `endpoint`: What `traces_endpoint` returned.
        - `since`: Time from which rebalances are exported (default: now).
        - `report`: Function that gets a sentence when the export begins to fail, and when it works
          again. It runs in the thread of the export.
        """
        self._live = live
        self._records = FinalRecords(_now() if since is None else since)
        self._sender = Sender(cluster_id, endpoint, report)
        self._stop: Callable[[], None] | None = None
        self._ticks: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._stop = self._live.subscribe(self._take)
        for group in self._live.groups.values():  # those that were found since the time from which it exports
            for record in group.rebalances:
                self._records.add(record, _now())
        self._ticks = asyncio.create_task(self._tick(), name="kohort-trace-export")
        self._sender.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._stop is not None and self._ticks is not None
        self._stop()
        self._ticks.cancel()
        self._queue(self._records.rest())
        await asyncio.to_thread(self._sender.close)

    def _take(self, event: LiveEvent, now: Millis) -> None:
        if isinstance(event, Rebalanced):
            self._records.add(event.record, _now())

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self._queue(self._records.due(_now()))

    def _queue(self, records: Sequence[RebalanceRecord]) -> None:
        for record in records:
            group = self._live.groups.get(record.group_id)
            self._sender.put((record, earlier_ones(record, () if group is None else group.rebalances)))


def _now() -> Millis:
    return time.time_ns() // 1_000_000
