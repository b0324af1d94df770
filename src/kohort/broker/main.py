"""A broker or a cluster as a process: signals, log lines on stderr, `ready HOST:PORT` on stdout."""

import asyncio
import errno
import gc
import logging
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from kohort import interruption
from kohort.broker.cluster import BrokerProcesses, ClusterOptions
from kohort.broker.config import WATCH_LISTENER
from kohort.broker.metrics import BrokerMetrics, ClusterMetrics, MetricsEndpoint, RequestTrace
from kohort.broker.server import Broker, BrokerOptions
from kohort.errors import KohortError
from kohort.freed_memory import keep_freed_memory

OwnMetrics = Callable[[bool], Awaitable[bytes]]
"""Returns the metrics of a broker as `Exposition.part` does, in OpenMetrics or not, in any thread."""

Beside = Callable[[str, str, OwnMetrics], AbstractAsyncContextManager[object]]
"""Returns what runs beside a broker or a cluster, from its address for clients, that of the listener of `--web`, and
the metrics of the broker or of all brokers."""


def run(options: BrokerOptions, beside: Beside | None = None) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code. Raise KohortError if the broker cannot start or go on.

    `beside` runs while the broker does.
    """
    log_to_stderr()
    keep_freed_memory()
    try:
        return uvloop.run(_serve(options, beside))
    except OSError as error:
        raise KohortError(_failure(options, error)) from error


async def _serve(options: BrokerOptions, beside: Beside | None) -> int:
    broker = Broker(options)
    measured = options.metrics is not None or options.metrics_socket is not None or beside is not None
    broker.metrics = metrics = BrokerMetrics() if measured else None
    broker.trace = None if options.trace is None else RequestTrace(options.trace)
    stop = asyncio.Event()
    # Until the broker answers requests, a kill breaks no promise, so a signal does not wait for a large log's recovery.
    for number in interruption.SIGNALS:
        signal.signal(number, lambda number, _: interruption.end_at_once(number))
    await broker.start()
    try:
        endpoints = [] if metrics is None else await _serve_metrics(metrics, options)
    except KohortError:
        await broker.stop()
        raise
    stop_on_signals(stop)
    # Objects made at start-up live as long as the process, so collections need not examine them again. Requests make no
    # cycles, but they make thousands of objects that live until the next sync; with the default thresholds the
    # collector would examine those over and over.
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 50)
    try:
        announce_ready(broker.address)
    except KohortError:
        for endpoint in endpoints:
            await endpoint.close()
        await broker.stop()
        raise
    page: AbstractAsyncContextManager[object] = nullcontext()
    if beside is not None and metrics is not None:
        page = beside(broker.address, str(broker.endpoints[WATCH_LISTENER]), metrics.part_for)
    async with page:
        ends = [asyncio.create_task(event.wait()) for event in (stop, broker.over)]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
    for endpoint in endpoints:
        await endpoint.close()
    await broker.stop()
    return 0 if stop.is_set() else 1


async def _serve_metrics(metrics: BrokerMetrics, options: BrokerOptions) -> list[MetricsEndpoint]:
    """Serve the broker's metrics where the options say. Raise KohortError if that is impossible."""
    endpoints: list[MetricsEndpoint] = []
    try:
        if options.metrics is not None:
            endpoints.append(MetricsEndpoint(metrics))
            await endpoints[-1].start(options.metrics.host, options.metrics.port)
        if options.metrics_socket is not None:
            endpoints.append(MetricsEndpoint(metrics))
            await endpoints[-1].start_at(options.metrics_socket)
    except KohortError:
        for endpoint in endpoints:
            await endpoint.close()
        raise
    return endpoints


def run_cluster(options: ClusterOptions, beside: Beside | None = None) -> int:
    """Run a cluster until SIGTERM or SIGINT; return the exit code. Raise KohortError if a broker cannot start.

    `beside` runs in this process while the cluster does.
    """
    log_to_stderr()
    if beside is None:
        return asyncio.run(_serve_cluster(options, None))
    # Only this user can open the directory, so nobody else can read the metrics at the sockets.
    with TemporaryDirectory(prefix="kohort-metrics-") as directory:
        return asyncio.run(_serve_cluster(replace(options, metrics_sockets=Path(directory)), beside))


async def _serve_cluster(options: ClusterOptions, beside: Beside | None) -> int:
    stop = asyncio.Event()
    stop_on_signals(stop)
    stopped = asyncio.create_task(stop.wait())
    cluster = BrokerProcesses(options)
    started = asyncio.create_task(cluster.start())
    try:
        await asyncio.wait((stopped, started), return_when=asyncio.FIRST_COMPLETED)
        if not started.done():
            return 0
        started.result()
        announce_ready(cluster.bootstrap)
        page: AbstractAsyncContextManager[object] = nullcontext()
        if beside is not None:
            own = ClusterMetrics(cluster.metrics_sockets).part_for
            page = beside(cluster.bootstrap, cluster.addresses_at(WATCH_LISTENER), own)
        async with page:
            over = asyncio.create_task(cluster.over.wait())
            await asyncio.wait((stopped, over), return_when=asyncio.FIRST_COMPLETED)
            over.cancel()
        return 0 if stop.is_set() else 1
    finally:
        for task in (stopped, started):
            task.cancel()
        await asyncio.gather(stopped, started, return_exceptions=True)
        await cluster.stop()


def log_to_stderr(level: int = logging.INFO) -> None:
    """Write the log of this process to stderr, from this level on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])


class OneLine(logging.Formatter):
    """Escapes control characters in messages: clients choose many of the names, and could forge lines with them.

    A traceback keeps its lines.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the record's line."""
        return _CONTROL.sub(lambda found: repr(found[0])[1:-1], super().formatMessage(record))


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set `stop` on the first SIGINT or SIGTERM; end the process at once on the second. Data on disk survives both."""

    def told(number: int) -> None:
        if stop.is_set():
            interruption.end_at_once(number)
        stop.set()

    for number in interruption.SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, told, number)


def announce_ready(addresses: str) -> None:
    """Write `ready HOST:PORT,...` to standard output. Raise KohortError if nothing can read it."""
    if sys.stdout is None:  # closed by the parent process, which does not need the line
        return
    try:
        sys.stdout.write(f"ready {addresses}\n")
        sys.stdout.flush()
    except OSError as error:
        # Otherwise Python flushes the buffer again at exit and reports the same error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise KohortError(
            f"'ready {addresses}' cannot be written to standard output: {error.strerror}. Keep its reader open, or send"
            " it to a file."
        ) from error


def _failure(options: BrokerOptions, error: OSError) -> str:
    if options.postgres is not None:
        return f"The database cannot be used: {error.strerror or error}."
    if options.data is None:
        return f"The broker cannot continue: {error}."
    advice = "make room" if error.errno == errno.ENOSPC else "check it, or choose another directory with --data"
    return f"The data directory {options.data} cannot be used: {error.strerror or error}; {advice}."
