"""Subscriptions by regular expression.

The syntax is RE2's, because Kafka uses RE2/J, and an expression must match the whole topic name.
RE2 takes time linear in the length of the name and a bounded amount of memory for any expression,
so a member cannot block the coordinator with one. A single name can still take a millisecond;
`Resolution` lets the caller stop between names.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import re2

from kohort.errors import ErrorCode, KafkaError

MAX_EXPRESSION_BYTES = (1 << 15) - 1
"""Maximum length of an expression, in bytes. Kafka's strings are no longer, so no Kafka client is affected."""

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True
_OPTIONS.max_mem = 1 << 20
"""Maximum memory of one compiled expression with its match cache, in bytes. It suffices for the names of 900 topics."""

_KEPT = 256
"""Number of compiled expressions to cache. A broker's groups use the same few expressions repeatedly."""


def check(expression: str) -> None:
    """Raise KafkaError INVALID_REGULAR_EXPRESSION, with the reason, if `expression` is invalid."""
    _compiled(expression)


def resolve(expression: str, topic_names: Iterable[str]) -> frozenset[str]:
    """Return the topics whose whole name matches. `expression` must have passed `check`."""
    resolution = Resolution(expression, topic_names)
    while not resolution.proceed(1 << 62):
        pass
    return resolution.found


class Resolution:
    """An incremental `resolve`, for expressions that a client may have made deliberately slow."""

    def __init__(self, expression: str, topic_names: Iterable[str]) -> None:
        """Prepare the search. `expression` must have passed `check`."""
        self._expression = _compiled(expression)
        self._names = iter(topic_names)
        self.found: frozenset[str] = frozenset()
        """Names that matched so far."""

    def proceed(self, steps: int) -> bool:
        """Match names until `steps` could have been executed; return True when all names were tried.

        A step is one instruction of the compiled expression for one byte. It takes about 2 ns for
        the slowest expressions, and almost no time for others.
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
    # Compile bytes: for text, the binding converts between character and byte offsets at each
    # match.
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
    """Shorten a text for an error message.

    RE2's reasons are shortened, too: some of them end with the whole expression.
    """
    return text if len(text) <= 150 else f"{text[:150]}..."
