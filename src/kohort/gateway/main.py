"""A gateway as a process."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext

import uvloop

from kohort.broker import OwnMetrics, announce_ready, log_to_stderr, stop_on_signals
from kohort.freed_memory import keep_freed_memory
from kohort.gateway.figures import GatewayMetrics
from kohort.gateway.options import GatewayOptions
from kohort.gateway.server import Gateway

Beside = Callable[[OwnMetrics], AbstractAsyncContextManager[object]]
"""Returns what runs beside a gateway, from its metrics."""


def run(options: GatewayOptions, beside: Beside | None = None) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code. Raises KohortError if it cannot listen.

    `beside` runs while the gateway does.
    """
    log_to_stderr()
    keep_freed_memory()
    return uvloop.run(_serve(options, beside))


async def _serve(options: GatewayOptions, beside: Beside | None) -> int:
    stop = asyncio.Event()
    stop_on_signals(stop)
    async with Gateway(options) as gateway:
        announce_ready(",".join(map(str, gateway.bootstrap)))
        page: AbstractAsyncContextManager[object] = nullcontext()
        if beside is not None:
            page = beside(GatewayMetrics(gateway).part_for)
        async with page:
            await stop.wait()
    return 0
