"""What the disk does to requests, for the log: once per trouble, since a client that is refused tries again at once."""

import logging
from collections.abc import Callable

from kohort.log import CorruptBatch
from kohort.model import Millis

log = logging.getLogger("kohort.broker")

_AGAIN_MS = 600_000
_MOST = 1_000
"""Troubles that are remembered; beyond, the oldest is forgotten and would be logged again."""


class DiskTroubles:
    """Of one broker."""

    def __init__(self, now: Callable[[], Millis]) -> None:
        self._now = now
        self._logged: dict[tuple[str, str], Millis] = {}
        """When each was logged last."""

    def note(self, what: str, error: OSError) -> None:
        """A request failed by the disk; `what` could not be done, such as "read t-0"."""
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
