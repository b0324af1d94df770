"""Load generator of the experiments: a process that writes a record per partition and tick, until SIGTERM.

python -m kohort.lab.load BOOTSTRAP TOPIC TICK_MS

The tick limits the resolution of a partition's gap in reading. New partitions get their first
record as soon as the generator knows them: at once after SIGUSR1, else with the first tick after a
metadata update.
"""

from __future__ import annotations

import asyncio
import signal
import sys

from kohort import Producer

_KEYS = 100
_METADATA_MS = 1_000
_LOOK_S, _LOOKS = 0.02, 50
"""Interval and number of metadata requests; a broker may learn of new partitions after the request that made them."""


class Load:
    """Load on one topic."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._known = 0
        self._tick = 0

    async def write(self) -> None:
        """Write a record to each partition."""
        self._known = await self._producer.partitions_for(self._topic)
        await self._send(range(self._known))
        self._tick += 1

    async def write_new(self) -> None:
        """Find new partitions and write to them; a tick may have found them before."""
        before = self._known
        for _ in range(_LOOKS):
            await self._producer.cluster.refresh([self._topic])
            count = await self._producer.partitions_for(self._topic)
            if count > before:
                await self._send(range(before, count))
                return
            await asyncio.sleep(_LOOK_S)

    async def _send(self, partitions: range) -> None:
        key = b"key-%02d" % (self._tick % _KEYS)
        for partition in partitions:
            await self._producer.send(self._topic, b"%d" % self._tick, key=key, partition=partition)


async def run(bootstrap: str, topic: str, tick_s: float) -> None:
    """Write records until SIGTERM; print `writing` after the first tick is written."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    async with Producer(
        bootstrap_servers=bootstrap, acks="all", linger_ms=0, metadata_max_age_ms=_METADATA_MS
    ) as producer:
        await producer.ready(topic)
        load = Load(producer, topic)
        news: set[asyncio.Task[None]] = set()
        loop.add_signal_handler(signal.SIGUSR1, lambda: news.add(loop.create_task(load.write_new())))
        begun, ticks = loop.time(), 0
        await load.write()
        await producer.flush()
        sys.stdout.write("writing\n")
        sys.stdout.flush()
        while not stop.is_set():
            ticks += 1
            await _sleep(stop, begun + ticks * tick_s - loop.time())
            await load.write()
        for task in news:
            task.cancel()


async def _sleep(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await stop.wait()
    except TimeoutError:
        pass


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3]) / 1000))
