"""Watch for events and send them, until cancelled."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from kohort.model import Millis
from kohort.watch.findings import LagTrails
from kohort.watch.live import Live
from kohort.watch.webhooks.alarms import MOST_ALARMS, Alarms
from kohort.watch.webhooks.delivery import Delivery
from kohort.watch.webhooks.events import of_group, of_watcher
from kohort.watch.webhooks.payload import document
from kohort.watch.webhooks.settings import WebhookSettings

_log = logging.getLogger("kohort.watch.webhook")

TICK_S = 5.0
_BUSY_SHARE = 20
"""A look at all groups takes at most a twentieth of the time between two."""
_AT_ONCE = 20
"""Number of groups that are looked at before other tasks of the loop have their turn."""
_TIMED = ("rebalance", "member-missing", "lag", "blind")
"""Events whose seconds are a limit, not a time for which they must hold."""


class Sender(Protocol):
    """Takes documents without blocking, as `Delivery` does."""

    def send(self, document: Mapping[str, Any], /) -> None: ...


def _now() -> Millis:
    return time.time_ns() // 1_000_000


@asynccontextmanager
async def sending(live: Live, settings: WebhookSettings, *, cluster: str, page: str = "") -> AsyncIterator[Delivery]:
    """Send events for the time of a block. Raises ConfigError if the certificates cannot be read.

    - `cluster`: Name of the cluster in the documents.
    - `page`: URL of the watcher's page; empty if it serves none.
    """
    with Delivery(settings) as delivery:
        task = asyncio.create_task(report_events(live, settings.events, delivery, cluster=cluster, page=page))
        task.add_done_callback(_log_failure)
        try:
            yield delivery
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _log_failure(task: asyncio.Task[None]) -> None:
    """Log an error of this program at once: nobody awaits the task before the watcher ends."""
    if not task.cancelled() and (problem := task.exception()) is not None:
        _log.error("No more events are sent to the webhook, because of an error of this program.", exc_info=problem)


async def report_events(
    live: Live,
    events: Mapping[str, int],
    sender: Sender,
    *,
    cluster: str,
    page: str = "",
    tick_s: float = TICK_S,
    clock: Callable[[], Millis] = _now,
) -> None:
    """Send each begin and each end of an event, until cancelled. `clock` is asked once for each look."""
    trails = LagTrails()
    leaving_out = False
    alarms = Alarms({name: seconds * 1000 for name, seconds in events.items() if name not in _TIMED})
    while True:
        began, now = time.monotonic(), clock()
        trails.take(live.groups.values(), live.ends, now)
        conditions = list(of_watcher(live, events, now))
        old = _is_old(live)
        if old:
            alarms.hold(now)
        for number, group in enumerate([] if old else list(live.groups.values())):
            conditions += of_group(live, group, trails, events, now)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        before = alarms.left_out
        for notice in alarms.step(conditions, now):
            sender.send(document(notice, cluster, page))
        if alarms.left_out > before and not leaving_out:
            what = "More than %d events hold at a time; further ones are not sent to the webhook until some end."
            _log.warning(what, MOST_ALARMS)
        leaving_out = alarms.left_out > before
        await asyncio.sleep(max(tick_s, _BUSY_SHARE * (time.monotonic() - began)))


def _is_old(live: Live) -> bool:
    """Return whether what is known of the groups is that of the past: the history is read, or no source follows."""
    states = [source.state for source in live.group_sources]
    return bool(states) and "following" not in states
