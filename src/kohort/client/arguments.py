"""Validation of method arguments, with error messages in one sentence."""

from collections.abc import Iterable
from math import isnan
from operator import index
from typing import TypeVar

from kohort.errors import ConfigError
from kohort.model import TopicPartition

_T = TypeVar("_T")

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


def whole_numbers(name: str, given: object) -> list[int]:
    """Return a collection of whole numbers of at least 0 as a list. `name` is that of one. Raises ConfigError."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ConfigError(f"{given!r} is not a list of whole numbers.")
    return [whole_number(name, value) for value in given]


def record_count(value: object) -> int:
    """Return the largest number of records that a poll returns. Raises ConfigError."""
    if isinstance(value, float):  # the first argument of confluent-kafka's poll is the time
        raise ConfigError(f"max_records is {value!r}, but must be a whole number: the time is timeout={value!r}.")
    return whole_number("max_records", value, 1)


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


def partitions_of(given: object) -> list[TopicPartition]:
    """Return a collection of partitions as a list. Raises ConfigError."""
    if isinstance(given, TopicPartition | str) or not isinstance(given, Iterable):
        raise ConfigError(f"{given!r} is not a list of partitions: pass [TopicPartition(topic, number)].")
    return [partition_of(partition) for partition in given]


def names_of(topics: Iterable[str]) -> frozenset[str]:
    """Return topic names as a set; a string is a single name. Raises ConfigError."""
    return frozenset(listed_names("topic", topics))


def listed_names(what: str, given: Iterable[str]) -> list[str]:
    """Return names of `what`, such as "topic", as a list; a string is a single name. Raises ConfigError."""
    if not isinstance(given, Iterable):
        raise ConfigError(f"{given!r} is not a list of {what} names.")
    return [name_of(what, name) for name in ([given] if isinstance(given, str) else given)]


def name_of(what: str, given: object) -> str:
    """Return the name of a `what`, such as "topic". Raises ConfigError."""
    if not isinstance(given, str) or not given:
        raise ConfigError(f"{given!r} is not a {what}: pass the {what}'s name.")
    return given


def objects_of(kind: type[_T], given: object, example: str) -> list[_T]:
    """Return a collection of objects as a list. `example` makes one of them. Raises ConfigError."""
    if isinstance(given, str | kind) or not isinstance(given, Iterable):
        raise ConfigError(f"{given!r} is not a list of {kind.__name__}: pass [{example}].")
    listed = list(given)
    for item in listed:
        if not isinstance(item, kind):
            raise ConfigError(f"{item!r} is not a {kind.__name__}: pass {example}.")
    return listed
