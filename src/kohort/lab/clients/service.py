"""Query service for the counts of a member, with one JSON line per query and answer.

    {"partition": 3, "key": "key-07"} -> {"count": 12, "stale": false}

Counts of owned partitions are current, counts of copied ones are marked stale, and counts
of other partitions are null.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable

Answer = Callable[[int, bytes], tuple[int, bool] | None]
"""Function that returns a key's count and whether it may be stale; None if the partition is unknown."""


async def serve(answer: Answer) -> asyncio.Server:
    """Serve queries on a free port of this machine."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError, KeyError):
            while line := await reader.readline():
                asked = json.loads(line)
                found = answer(int(asked["partition"]), str(asked["key"]).encode())
                count, stale = found or (None, True)
                writer.write(json.dumps({"count": count, "stale": stale}).encode() + b"\n")
                await writer.drain()
        writer.close()

    return await asyncio.start_server(converse, "127.0.0.1", 0)


def port_of(server: asyncio.Server) -> int:
    """Return the port on which the server listens."""
    return int(server.sockets[0].getsockname()[1])
