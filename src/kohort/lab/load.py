"""The experiments' input, a process: one record for every partition at each tick, until SIGTERM.

python -m kohort.lab.load BOOTSTRAP TOPIC TICK_MS

A partition's gap in reading can be seen no finer than a tick. New partitions are written to as soon as they are known.
"""

from __future__ import annotations

import asyncio
import signal
import sys

from kohort import Producer

_KEYS = 100
_METADATA_MS = 200
"""So that partitions that are added are found at once."""


async def run(bootstrap: str, topic: str, tick_s: float) -> None:
    """Until SIGTERM; prints `writing` when the first tick is written."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    async with Producer(
        bootstrap_servers=bootstrap, acks="all", linger_ms=0, metadata_max_age_ms=_METADATA_MS
    ) as producer:
        await producer.ready(topic)
        begun, tick = loop.time(), 0
        while not stop.is_set():
            key = b"key-%02d" % (tick % _KEYS)
            for partition in range(await producer.partitions_for(topic)):
                await producer.send(topic, b"%d" % tick, key=key, partition=partition)
            if tick == 0:
                await producer.flush()
                sys.stdout.write("writing\n")
                sys.stdout.flush()
            tick += 1
            await _sleep(stop, begun + tick * tick_s - loop.time())


async def _sleep(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await stop.wait()
    except TimeoutError:
        pass


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3]) / 1000))
