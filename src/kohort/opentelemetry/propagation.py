"""Context in record headers, by the global propagator (by default W3C's traceparent, tracestate and baggage).

Headers that a propagator cannot read are ignored: anybody who writes to a topic chooses them.
"""

import logging
from collections.abc import Sequence

from kohort.opentelemetry.api import Context, Getter, Setter, SpanContext, propagate, trace

_log = logging.getLogger(__name__)

Header = tuple[str, bytes | None]

_MOST_BYTES = 8192
"""Size of a header above which it is ignored: W3C limits baggage to this, and the others to less."""
_failing: set[type[Exception]] = set()
"""Exceptions of propagators that were logged."""


class _Headers(Getter[Sequence[Header]], Setter[list[Header]]):
    """Access to headers for propagators. Of several headers of one name the last one counts, as in Java."""

    def get(self, carrier: Sequence[Header], key: str) -> list[str] | None:
        for name, value in reversed(carrier):
            if name == key and value is not None and len(value) <= _MOST_BYTES:
                try:
                    return [bytes(value).decode()]
                except UnicodeDecodeError:
                    return None
        return None

    def keys(self, carrier: Sequence[Header]) -> list[str]:
        return [name for name, _ in carrier]

    def set(self, carrier: list[Header], key: str, value: str) -> None:
        carrier[:] = [header for header in carrier if header[0] != key]
        carrier.append((key, value.encode("utf-8", "replace")))


_headers = _Headers()
_NOTHING = Context()


def extracted(headers: Sequence[Header]) -> Context:
    """Return the context in which the record was sent; an empty one if its headers have none."""
    if not headers:
        return _NOTHING
    try:
        return propagate.extract(headers, _NOTHING, _headers)
    except Exception as problem:  # noqa: BLE001  a stranger's headers must not end the application
        if type(problem) not in _failing:
            _failing.add(type(problem))
            _log.warning("context in headers cannot be read: %s: %s", type(problem).__name__, problem)
        return _NOTHING


def creation_of(sent_in: Context) -> SpanContext | None:
    """Return the span in which the record was sent, if the context has one."""
    found = trace.get_current_span(sent_in).get_span_context()
    return found if found.is_valid else None


def injected(headers: Sequence[Header], into: Context) -> list[Header]:
    """Return the headers with this context. It replaces the one that they have."""
    carrier = list(headers)
    propagate.inject(carrier, into, _headers)
    return carrier
