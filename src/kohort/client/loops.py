"""The event loop that a client belongs to, and how a client that nobody closed is reported."""

import asyncio
import warnings

from kohort.client.failures import ConcurrentUseError


def check_loop(loop: asyncio.AbstractEventLoop, what: str) -> None:
    """Raise ConcurrentUseError unless that loop runs here: in another one its futures would never wake anybody."""
    try:
        running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is not loop:
        raise ConcurrentUseError(
            f"the {what} belongs to the event loop in which it was made, and is used outside of it (in another"
            " thread, in another loop, or after a fork): make one there, or take kohort.blocking."
        )


def warn_unclosed(client: object) -> None:
    """As asyncio's transports do when they are garbage."""
    warnings.warn(
        f"unclosed {client!r}: use it as a context manager, or close it", ResourceWarning, stacklevel=2, source=client
    )
