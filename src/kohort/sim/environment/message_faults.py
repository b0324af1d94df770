"""Faults that affect single messages: the next request of a kind is delayed, or its response is delayed or lost.

A request can also outlive its connection: the client loses the connection and repeats the request on another
one, and the first copy arrives later.

Faults at random times rarely coincide with an interesting message, because a process is idle most
of the time.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple, assert_never

from kohort.sim.steps import Effect
from kohort.wire.api import APIS

_KEYS = {api.name: key for key, api in APIS.items()}
_KEY = Struct(">h")
_KEY_AT = 4
"""Position of the API key, after the size of the request."""


def api_key(data: bytes) -> int:
    """Return the API key of a request from its first bytes, with its size; -1 if they are too few."""
    return -1 if len(data) < _KEY_AT + _KEY.size else int(_KEY.unpack_from(data, _KEY_AT)[0])


class RequestFate(NamedTuple):
    """What happens to a request."""

    late: float = 0.0
    """Its delay in seconds."""
    is_outdated: bool = False
    """Whether the client loses the connection now, before the request arrives."""


UNHARMED = RequestFate()


class MessageFaults:
    """Faults for the next requests of each kind."""

    def __init__(self) -> None:
        self._faults: dict[int, list[tuple[Effect, float]]] = {}
        self._responses: dict[int, float] = {}
        """Delay of the next response in seconds, by the broker's end of a connection; negative if it is lost."""
        self.is_idle = True

    def add(self, effect: Effect, request: str, seconds: float) -> None:
        """Add a fault for the next request of that name."""
        self._faults.setdefault(_KEYS[request], []).append((effect, seconds))
        self.is_idle = False

    def clear(self) -> None:
        """Remove all faults."""
        self._faults.clear()
        self._responses.clear()
        self.is_idle = True

    def request(self, broker_end: int, data: bytes) -> RequestFate:
        """Return what happens to a request to that end."""
        if broker_end in self._responses:
            return UNHARMED
        faults = self._faults.get(api_key(data))
        if not faults:
            return UNHARMED
        effect, seconds = faults.pop(0)
        match effect:
            case Effect.REQUEST_LATE:
                return RequestFate(seconds)
            case Effect.REQUEST_AFTER_CLOSE:
                return RequestFate(seconds, is_outdated=True)
            case Effect.RESPONSE_LATE:
                self._responses[broker_end] = seconds
            case Effect.RESPONSE_LOST:
                self._responses[broker_end] = -1.0
            case _:
                assert_never(effect)
        return UNHARMED

    def response(self, broker_end: int) -> float:
        """Return the delay of a response from that end, in seconds; negative if the response is lost."""
        return self._responses.pop(broker_end, 0.0)
