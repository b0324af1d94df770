"""Validation of method arguments, with error messages in one sentence."""

from collections.abc import Iterable
from math import isnan
from operator import index

from kohort.errors import ConfigError
from kohort.model import TopicPartition

_LONGEST_S = 1e9
"""Longest wait in seconds, about thirty years. Clocks cannot represent longer ones, which mean forever anyway."""


def whole_number(name: str, value: object, least: int | None = 0) -> int:
    """Return a whole number of at least `least`. Raises ConfigError."""
    if isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}, but must be a whole number.")
    try:
        number = index(value)  # type: ignore[arg-type]  # accepts numpy integers, too
    except TypeError:
        raise ConfigError(f"{name} is {value!r}, but must be a whole number.") from None
    if least is not None and number < least:
        raise ConfigError(f"{name} is {number}, but must be at least {least}.")
    return number


def seconds(name: str, value: object) -> float:
    """Return a waiting time in seconds. Raises ConfigError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or isnan(value) or value < 0:
        raise ConfigError(f"{name} is {value!r}, but must be a number of seconds, 0 or more.")
    return min(float(value), _LONGEST_S)


def partition_of(given: object) -> TopicPartition:
    """Return a pair of topic name and number as a TopicPartition. Raises ConfigError."""
    if not isinstance(given, tuple | list) or len(given) != 2 or not isinstance(given[0], str):
        raise ConfigError(f"{given!r} is not a partition: pass TopicPartition(topic, number).")
    topic, number = given
    return TopicPartition(topic, whole_number(f"the partition of {topic}", number))


def names_of(topics: Iterable[str]) -> frozenset[str]:
    """Return topic names as a set; a string is a single name. Raises ConfigError."""
    names = [topics] if isinstance(topics, str) else list(topics)
    for name in names:
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{name!r} is not a topic: pass the topic's name.")
    return frozenset(names)
