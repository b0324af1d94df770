"""Disk errors that fail requests: each is logged once, because a client whose request failed retries at once."""

import logging
from collections.abc import Callable

from kohort.log import CorruptBatch
from kohort.model import Millis

log = logging.getLogger("kohort.broker")

_AGAIN_MS = 600_000
_MOST = 1_000
"""Number of errors that are remembered; the oldest beyond it is forgotten and would be logged again."""


class DiskErrors:
    """The disk errors of one broker."""

    def __init__(self, now: Callable[[], Millis]) -> None:
        self._now = now
        self._logged: dict[tuple[str, str], Millis] = {}
        """When each error was last logged."""

    def note(self, what: str, error: OSError) -> None:
        """Log that the disk made a request fail; `what` is the failed action, such as "read t-0"."""
        key, now = (what, str(error)), self._now()
        last = self._logged.pop(key, None)
        if last is None or now - last >= _AGAIN_MS:
            last = now
            if isinstance(error, CorruptBatch):
                log.error("cannot %s: %s; clients get CORRUPT_MESSAGE until they seek behind it", what, error.strerror)
            else:
                log.error("cannot %s: %s; clients get KAFKA_STORAGE_ERROR", what, error)
        if len(self._logged) >= _MOST:
            del self._logged[next(iter(self._logged))]
        self._logged[key] = last
