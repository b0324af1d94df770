"""The page beside a program that must not wait for it, such as a broker: in a thread with its own event loop."""

import asyncio
import logging
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import uvloop

from kohort.errors import KohortError
from kohort.watch.web.serve import ServingOptions, serve_until, serving

log = logging.getLogger("kohort.watch")

_SWITCH_S = 0.0005
"""Longest time for which this thread runs while the program's thread waits."""
_STOP_WITHIN_S = 0.8


@asynccontextmanager
async def page_thread(options: ServingOptions, announce: Callable[[str], None]) -> AsyncIterator[None]:
    """Serve the page in a thread for the time of the block. `announce` is called there with its address.

    If the page fails, the log says why, and the program goes on.
    """
    thread = _PageThread(options, announce)
    switching = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    thread.start()
    try:
        yield
    finally:
        thread.stop()
        await asyncio.to_thread(thread.join, _STOP_WITHIN_S)
        sys.setswitchinterval(switching)


class _PageThread(threading.Thread):
    def __init__(self, options: ServingOptions, announce: Callable[[str], None]) -> None:
        super().__init__(name="kohort-watch", daemon=True)
        self._options = options
        self._announce = announce
        self._loop = uvloop.new_event_loop()
        self._ending = asyncio.Event()

    def stop(self) -> None:
        """Ask the thread to end."""
        with suppress(RuntimeError):  # if it has ended
            self._loop.call_soon_threadsafe(self._ending.set)

    def run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except KohortError as problem:
            log.error("The page is not served: %s", problem)
        except Exception:
            log.exception("The page failed, and is no longer served.")

    async def _serve(self) -> None:
        async with serving(self._options) as server:
            self._announce(server.url)
            await serve_until(self._ending, server)
