"""Subscriptions by regular expression: RE2's, as Kafka has RE2J, matched against whole topic names.

RE2 takes time linear in the name and memory within a bound whatever the expression, so a member cannot stop the
coordinator by one. One name can still take it a millisecond; `Resolution` lets the caller stop between names.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import re2

from kohort.errors import ErrorCode, KafkaError

MAX_EXPRESSION_BYTES = (1 << 15) - 1
"""Kafka's strings end there, so no member of Kafka's can ask for more."""

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True
_OPTIONS.max_mem = 1 << 20
"""Bytes for one compiled expression and what it remembers while it matches: room for the names of 900 topics."""

_KEPT = 256
"""Compiled expressions; a broker's groups use the same few again and again."""


def check(expression: str) -> None:
    """Raise KafkaError INVALID_REGULAR_EXPRESSION with the reason where `expression` is none."""
    _compiled(expression)


def resolve(expression: str, topic_names: Iterable[str]) -> frozenset[str]:
    """The topics whose whole name matches. `expression` passed `check`."""
    resolution = Resolution(expression, topic_names)
    while not resolution.go_on(1 << 62):
        pass
    return resolution.found


class Resolution:
    """`resolve` in slices, for an expression that a stranger chose to be slow."""

    def __init__(self, expression: str, topic_names: Iterable[str]) -> None:
        """`expression` passed `check`."""
        self._expression = _compiled(expression)
        self._names = iter(topic_names)
        self.found: frozenset[str] = frozenset()
        """What matched so far."""

    def go_on(self, steps: int) -> bool:
        """Look at names until that much work could have been done; True when all were looked at.

        A step is one instruction of the compiled expression for one byte: about 2 ns where the expression is at its
        worst, and next to nothing else.
        """
        match, size, found = self._expression.fullmatch, self._expression.programsize, []
        finished = True
        for name in self._names:
            encoded = name.encode()
            if match(encoded) is not None:
                found.append(name)
            steps -= size * len(encoded)
            if steps <= 0:
                finished = False
                break
        self.found |= frozenset(found)
        return finished


@lru_cache(_KEPT)
def _compiled(expression: str) -> Any:
    # Bytes, since for text the binding counts characters back and forth at each match.
    encoded = expression.encode("utf-8", "surrogateescape")
    if len(encoded) > MAX_EXPRESSION_BYTES:
        raise _invalid(expression, f"it is longer than {MAX_EXPRESSION_BYTES} bytes")
    try:
        return re2.compile(encoded, _OPTIONS)
    except re2.error as error:
        reason = error.args[0]
        raise _invalid(expression, reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason) from None


def _invalid(expression: str, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{_shortened(expression)}` is not a valid regular expression: {_shortened(reason)}.",
    )


def _shortened(text: str) -> str:
    """RE2's reasons, too, end with what they are about: all of it, for some."""
    return text if len(text) <= 150 else f"{text[:150]}..."
