"""Counts by key for whoever asks a member, over a connection of its own: JSON, a line for each question and answer.

    {"partition": 3, "key": "key-07"} -> {"count": 12, "stale": false}

What a member owns it answers as it is; what it has a copy of, marked stale; anything else with a count of null.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable

Answer = Callable[[int, bytes], tuple[int, bool] | None]
"""The count of a key, and whether that may be stale; None where nothing is known of the partition."""


async def serve(answer: Answer) -> asyncio.Server:
    """Answer on a free port of this machine."""

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
    """Where it listens."""
    return int(server.sockets[0].getsockname()[1])
