"""Connections that are in their TLS handshake or not authenticated yet: their number and their time are bounded."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

_UNDISTURBED_S = 2.0
"""Time in which a connection does not have to make room for another one of its host."""


@dataclass(frozen=True, slots=True)
class _Newcomer:
    host: str
    since: float
    drop: Callable[[str], None]


class Newcomers:
    """The connections of one broker, the oldest first, each with a key that tells them apart."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._waiting: dict[object, _Newcomer] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: object, host: str, drop: Callable[[str], None]) -> None:
        """Add a connection of the host. `drop` closes it at once, and logs the reason."""
        self._waiting[key] = _Newcomer(host, self._time(), drop)

    def remove(self, key: object) -> None:
        """Remove a connection that is authenticated or closed; nothing happens if it was removed before."""
        self._waiting.pop(key, None)

    def make_room(self, host: str, most: int) -> bool:
        """Return whether the host may have another connection, which another one may have to make room for.

        No host can keep others out: the host with the most connections loses its oldest one to a host with fewer. Among
        hosts with equally many, the oldest connection is dropped once it has had time to authenticate; until then,
        connections that are further on are not dropped for others that may not get further either.
        """
        if len(self._waiting) < most:
            return True
        counts = Counter(waiting.host for waiting in self._waiting.values())
        crowded, number = counts.most_common(1)[0]
        fair = number <= counts[host] + 1
        key, oldest = next((key, waiting) for key, waiting in self._waiting.items() if fair or waiting.host == crowded)
        if fair and self._time() - oldest.since < _UNDISTURBED_S:
            return False
        self._drop(key, "it makes room for another one: there are max.connections.unauthenticated connections")
        return True

    def expire(self, after_s: float) -> None:
        """Drop the connections that are older."""
        now = self._time()
        for key in [key for key, waiting in self._waiting.items() if now - waiting.since >= after_s]:
            self._drop(key, "the client did not authenticate within authentication.timeout.ms")

    def _drop(self, key: object, reason: str) -> None:
        self._waiting.pop(key).drop(reason)
