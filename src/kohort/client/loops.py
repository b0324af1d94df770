"""Checks that a client is used in its event loop, and warnings for clients that were not closed."""

import asyncio
import warnings

from kohort.client.failures import ConcurrentUseError


def check_loop(loop: asyncio.AbstractEventLoop, what: str) -> None:
    """Raise ConcurrentUseError unless `loop` is running here. In another loop its futures would never resolve."""
    try:
        running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is not loop:
        raise ConcurrentUseError(
            f"the {what} can only be used in the event loop that created it, not in another loop, in another thread,"
            " or after a fork: create one there, or use kohort.blocking."
        )


def warn_unclosed(client: object) -> None:
    """Emit a ResourceWarning for an unclosed client, as asyncio does for its transports."""
    warnings.warn(
        f"unclosed {client!r}: use it as a context manager, or close it", ResourceWarning, stacklevel=2, source=client
    )
