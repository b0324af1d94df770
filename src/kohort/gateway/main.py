"""A gateway as a process."""

import asyncio

import uvloop

from kohort.broker import announce_ready, log_to_stderr, stop_on_signals
from kohort.gateway.options import GatewayOptions
from kohort.gateway.server import Gateway


def run(options: GatewayOptions) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code. Raises KohortError if it cannot listen."""
    log_to_stderr()
    return uvloop.run(_serve(options))


async def _serve(options: GatewayOptions) -> int:
    stop = asyncio.Event()
    stop_on_signals(stop)
    async with Gateway(options) as gateway:
        announce_ready(",".join(map(str, gateway.bootstrap)))
        await stop.wait()
    return 0
