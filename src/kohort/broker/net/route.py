"""The route of one version of one request: how it is decoded, handled and answered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kohort.wire.codec import Buffer, Decoder

Served = Sequence[tuple[int, int, int]]
"""API key, lowest and highest version of each served API, as in the ApiVersions response."""

Handler = Callable[[Any, Any, Any], None]
"""Function that handles one request; it, or the component to which it passes the call, replies to the call."""


@dataclass(frozen=True, slots=True)
class Route:
    """The codec and handler of one version of one request."""

    api_key: int
    version: int
    decode: Decoder[Any]
    encode: Callable[[Any, list[Buffer]], None]
    handler: Handler
    flexible_request: bool
    flexible_answer: bool
    """Whether the answer's header has tagged fields; it never has for ApiVersions."""
    repeats: bool
    """Whether clients repeat the same request, which makes it worth remembering; see `RepeatedHeartbeat`."""
