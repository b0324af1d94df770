"""Cleanup that completes even if the caller is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def run_to_end(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` to its end even if the caller is cancelled, then raise the cancellation.

    `work` must end soon.
    """
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
