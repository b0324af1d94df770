"""Cleaning up though the caller is cancelled meanwhile."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def undisturbed(work: Coroutine[Any, Any, None]) -> None:
    """Run it to its end, which must be near; a cancellation that comes meanwhile goes on from there."""
    task = asyncio.get_running_loop().create_task(work, name="kohort-closing")
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled
