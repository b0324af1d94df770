"""Faults that affect single messages: the next request of a kind is delayed, or its response is delayed or lost.

Faults at random times rarely coincide with an interesting message, because a process is idle most
of the time.
"""

from __future__ import annotations

from struct import Struct

from kohort.wire.api import APIS

_KEYS = {api.name: key for key, api in APIS.items()}
_KEY = Struct(">h")
_KEY_AT = 4
"""Position of the API key, after the size of the request."""


class MessageFaults:
    """Faults for the next requests of each kind."""

    def __init__(self) -> None:
        self._armed: dict[int, list[tuple[str, float]]] = {}
        self._answers: dict[int, float] = {}
        """Delay of the next response in seconds, by the broker's end of a connection; negative if it is lost."""
        self.is_idle = True

    def arm(self, how: str, request: str, seconds: float) -> None:
        """Add a fault (`late`, `answer-late` or `answer-lost`) for the next request of that name."""
        self._armed.setdefault(_KEYS[request], []).append((how, seconds))
        self.is_idle = False

    def clear(self) -> None:
        """Remove all faults."""
        self._armed.clear()
        self._answers.clear()
        self.is_idle = True

    def request(self, broker_end: int, data: bytes) -> float:
        """Return the delay of a request to that end, in seconds."""
        if len(data) < _KEY_AT + _KEY.size or broker_end in self._answers:
            return 0.0
        armed = self._armed.get(_KEY.unpack_from(data, _KEY_AT)[0])
        if not armed:
            return 0.0
        how, seconds = armed.pop(0)
        if how == "late":
            return seconds
        self._answers[broker_end] = seconds if how == "answer-late" else -1.0
        return 0.0

    def answer(self, broker_end: int) -> float:
        """Return the delay of a response from that end, in seconds; negative if the response is lost."""
        return self._answers.pop(broker_end, 0.0)
