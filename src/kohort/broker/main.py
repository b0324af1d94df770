"""A broker as a process: signals, log lines on stderr, `ready HOST:PORT` on stdout."""

import asyncio
import errno
import gc
import logging
import signal
import sys

import uvloop

from kohort.broker.server import Broker, BrokerOptions
from kohort.errors import KohortError


def run(options: BrokerOptions) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. Raises KohortError where it cannot start or go on."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        return uvloop.run(_serve(options))
    except OSError as error:
        raise KohortError(_disk_failure(options, error)) from error


async def _serve(options: BrokerOptions) -> int:
    broker = Broker(options)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await broker.start()
    # What start-up made lives as long as the process: collections need not look at it again. Requests make no cycles,
    # but thousands of objects that live until the next sync, at which the default thresholds look over and over.
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 50)
    sys.stdout.write(f"ready {broker.address}\n")
    sys.stdout.flush()
    ends = [asyncio.create_task(event.wait()) for event in (stop, broker.over)]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for end in ends:
        end.cancel()
    await broker.stop()
    return 0 if stop.is_set() else 1


def _disk_failure(options: BrokerOptions, error: OSError) -> str:
    if options.postgres is not None:
        return f"The database cannot be used: {error.strerror or error}."
    advice = "make room" if error.errno == errno.ENOSPC else "check it, or choose another directory with --data"
    return f"The data directory {options.data} cannot be used: {error.strerror or error}; {advice}."
