"""Statistics in the form of librdkafka: a JSON document at regular intervals, for `on_statistics`."""

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Callable, Collection
from itertools import count
from math import ceil, sqrt
from typing import Any
from weakref import WeakMethod

from kohort.client.metrics.network import NetworkMetrics

_log = logging.getLogger("kohort.client")

_numbers = count(1)

Document = dict[str, Any]
"""A part of the document, with librdkafka's names."""

_PERCENTILES = {"p50": 50.0, "p75": 75.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p99_99": 99.99}


NO_OFFSET = -1001
"""librdkafka's number for an offset that is not known."""

PARTITION: Document = {
    "broker": -1,
    "leader": -1,
    "desired": False,
    "unknown": False,
    **dict.fromkeys(("msgq_cnt", "msgq_bytes", "xmit_msgq_cnt", "xmit_msgq_bytes", "fetchq_size"), 0),
    "fetch_state": "none",
    "query_offset": NO_OFFSET,
    "next_offset": 0,
    "app_offset": NO_OFFSET,
    "stored_offset": NO_OFFSET,
    "stored_leader_epoch": -1,
    "commited_offset": NO_OFFSET,  # the old spelling, which librdkafka keeps
    "committed_offset": NO_OFFSET,
    "committed_leader_epoch": -1,
    **dict.fromkeys(("eof_offset", "lo_offset", "hi_offset", "ls_offset"), NO_OFFSET),
    "consumer_lag": -1,
    "consumer_lag_stored": -1,
    "leader_epoch": -1,
    **dict.fromkeys(("txmsgs", "txbytes", "rxmsgs", "rxbytes", "msgs", "msgs_inflight"), 0),
}
"""A partition of which nothing is known, as librdkafka tells of it: producers and consumers have the same names."""


def window(samples: "deque[float] | None" = None) -> Document:
    """Return minimum, maximum, average and percentiles of values, and remove them. All are 0 if there are none."""
    samples = deque() if samples is None else samples
    values = sorted(samples)
    samples.clear()
    number = len(values)
    if not number:
        return dict.fromkeys(("min", "max", "avg", "sum", "stddev", *_PERCENTILES, "outofrange", "cnt"), 0)
    average = sum(values) / number
    return {
        "min": int(values[0]),
        "max": int(values[-1]),
        "avg": int(average),
        "sum": int(sum(values)),
        "stddev": int(sqrt(sum((value - average) ** 2 for value in values) / number)),
        **{name: int(values[ceil(part / 100 * number) - 1]) for name, part in _PERCENTILES.items()},
        "outofrange": 0,
        "cnt": number,
    }


def totals(network: NetworkMetrics) -> Document:
    """Return what a client sent and received."""
    return {
        "tx": network.sent.count,
        "tx_bytes": int(network.sent.total),
        "rx": network.received.count,
        "rx_bytes": int(network.received.total),
    }


class StatisticsTimer:
    """Timer that calls the application with a client's document every interval, until it is closed.

    `collect` returns the document at the given loop time. It is a method of an object that the
    timer does not keep alive.
    """

    def __init__(
        self,
        kind: str,
        client_id: str,
        every_s: float,
        callback: Callable[[str], object],
        collect: Callable[[float], Document],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._every_s = every_s
        self._callback = callback
        self._collect = WeakMethod(collect)
        self._head = {"name": f"{client_id}#{kind}-{next(_numbers)}", "client_id": client_id, "type": kind}
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(every_s, self._emit)

    def close(self) -> None:
        """Stop."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _emit(self) -> None:
        collect = self._collect()
        if collect is None:  # the client was dropped
            return
        now = self._loop.time()
        self._timer = self._loop.call_at(now + self._every_s, self._emit)
        document = {
            **self._head,
            "ts": int(now * 1e6),
            "time": int(time.time()),
            "age": int((now - self._began) * 1e6),
            "replyq": 0,
            "simple_cnt": 0,
            **collect(now),
        }
        try:
            self._callback(json.dumps(document))
        except Exception:  # noqa: BLE001  the application's exception
            _log.exception("on_statistics raised an exception")


def since_ms(at: float | None, now: float) -> int:
    """Return the time since then in milliseconds; 0 if there is none."""
    return 0 if at is None else int((now - at) * 1000)


def since_us(at: float | None, now: float) -> int:
    """Return the time since then in microseconds; -1 if there is none."""
    return -1 if at is None else int((now - at) * 1e6)


def message_totals(sent: tuple[int, int] = (0, 0), received: tuple[int, int] = (0, 0)) -> Document:
    """Return numbers and bytes of messages sent and received."""
    return {"txmsgs": sent[0], "txmsg_bytes": sent[1], "rxmsgs": received[0], "rxmsg_bytes": received[1]}


def named(partitions: Collection[tuple[str, int]]) -> dict[str, Document]:
    """Return partitions as librdkafka lists those of a broker."""
    return {f"{topic}-{number}": {"topic": topic, "partition": number} for topic, number in sorted(partitions)}
