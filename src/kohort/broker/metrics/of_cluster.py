"""The metrics of several brokers in one exposition: each broker is asked at its socket, and its samples get its ID."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from kohort.exposition import OPENMETRICS, TEXT

log = logging.getLogger("kohort.cluster")

_WITHIN_S = 5.0
"""Time within which the brokers must answer. Prometheus waits for 10 s by default."""
_MOST_BYTES = 16 << 20
_LABEL = "node_id"


class ClusterMetrics:
    """Metrics of a cluster's brokers, which are other processes."""

    def __init__(self, sockets: Mapping[int, Path]) -> None:
        """Create it from the path of each broker's socket, by node ID."""
        self._sockets = sockets
        self._silent: set[int] = set()
        """Brokers that did not answer the last time."""

    async def part_for(self, openmetrics: bool) -> bytes:
        """Return the metrics of all brokers that answer, for `Exposition.body`. It may run in any event loop."""
        nodes = sorted(self._sockets)
        answers = await asyncio.gather(*(self._asked(node, openmetrics) for node in nodes))
        return together((node, text) for node, text in zip(nodes, answers, strict=True) if text is not None)

    async def _asked(self, node: int, openmetrics: bool) -> str | None:
        try:
            async with asyncio.timeout(_WITHIN_S):
                text = await _scraped(self._sockets[node], OPENMETRICS if openmetrics else TEXT)
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as problem:
            if node not in self._silent:
                self._silent.add(node)
                why = str(problem) or "it did not answer in time"
                log.warning("/metrics is without the metrics of broker %d until it answers: %s", node, why)
            return None
        if node in self._silent:
            self._silent.remove(node)
            log.info("/metrics has the metrics of broker %d again", node)
        return text


async def _scraped(socket: Path, accept: str) -> str:
    reader, writer = await asyncio.open_unix_connection(socket, limit=_MOST_BYTES)
    try:
        writer.write(f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n".encode())
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        if " 200 " not in head[0]:
            raise ValueError(f"it answered {head[0]!r}")
        sizes = [line.partition(":")[2] for line in head if line.lower().startswith("content-length:")]
        if not sizes or int(sizes[0]) > _MOST_BYTES:
            raise ValueError("its answer has no size, or is too large")
        return (await reader.readexactly(int(sizes[0]))).decode()
    finally:
        writer.transport.abort()


def together(texts: Iterable[tuple[int, str]]) -> bytes:
    """Return the expositions of several brokers as one: each family once, each sample with the ID of its broker."""
    heads: dict[str, str] = {}
    samples: dict[str, list[str]] = {}
    for node, text in texts:
        family = ""
        for line in text.splitlines(keepends=True):
            if line.startswith(("# HELP ", "# TYPE ")):
                family = line.split(" ", 3)[2]
                known = heads.setdefault(family, "")
                if line not in known:
                    heads[family] += line
            elif not line.startswith("#"):
                samples.setdefault(family, []).append(_of(node, line))
    return "".join(part for family, head in heads.items() for part in (head, *samples.get(family, ()))).encode()


def _of(node: int, line: str) -> str:
    """Add the ID of the broker to a sample that has none."""
    series, _, rest = line.partition(" ")
    name, brace, _ = series.partition("{")
    if not brace:
        return f'{name}{{{_LABEL}="{node}"}} {rest}'
    inner = line[len(name) + 1 :]
    return line if inner.startswith(f"{_LABEL}=") else f'{name}{{{_LABEL}="{node}",{inner}'
