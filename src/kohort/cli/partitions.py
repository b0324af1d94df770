"""Partitions on a command line: TOPIC for all of them, TOPIC:0,1 or TOPIC:0-3 for some."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.errors import ConfigError
from kohort.model import TopicPartition

if TYPE_CHECKING:
    from kohort.client import Admin

Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC[:0,1]", help="Topic, or some of its partitions; repeatable."),
]

_RUN = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")

Selection = Mapping[str, frozenset[int] | None]
"""Partition numbers by topic; None means all partitions."""


def read_selection(texts: Iterable[str]) -> Selection:
    """Parse and combine the options. Raises ConfigError."""
    selection: dict[str, frozenset[int] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic:
            raise ConfigError(f"--topic takes TOPIC or TOPIC:0,1, not {text!r}.")
        named = _numbers(text, numbers) if colon else None
        before = selection.get(topic, frozenset())
        selection[topic] = None if named is None or before is None else before | named
    return selection


async def existing(admin: "Admin", selection: Selection) -> list[TopicPartition]:
    """Return the selected partitions, sorted.

    Raises ConfigError for a missing partition, and KafkaError (UNKNOWN_TOPIC_OR_PARTITION) for a
    missing topic.
    """
    known = await admin.describe_topics(selection)
    partitions = []
    for topic, numbers in selection.items():
        there = known[topic].leaders
        if numbers is not None and (missing := sorted(numbers - set(there))):
            raise ConfigError(f"{topic} has no partition {missing[0]}: its partitions are 0 to {len(there) - 1}.")
        partitions += [TopicPartition(topic, number) for number in (there if numbers is None else numbers)]
    return sorted(partitions)


def _numbers(whole: str, text: str) -> frozenset[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        match = _RUN.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise ConfigError(f"--topic takes TOPIC or TOPIC:0,1, not {whole!r}.")
        numbers.update(range(first, last + 1))
    return frozenset(numbers)


def ranges(partitions: Collection[TopicPartition]) -> str:
    """Format partitions as `flights 0-3,7`: by topic, with ranges of numbers."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        by_topic.setdefault(topic, []).append(number)
    return "; ".join(f"{topic} {_runs(numbers)}" for topic, numbers in by_topic.items())


def _runs(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def listed(partitions: Collection[TopicPartition]) -> list[dict[str, object]]:
    """Return partitions as JSON objects."""
    return [{"topic": topic, "partition": number} for topic, number in sorted(partitions)]
