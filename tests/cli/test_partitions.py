"""Partitions as options select them, and as lines show them."""

from __future__ import annotations

import pytest

from kohort import ConfigError, TopicPartition
from kohort.cli.partitions import ranges, read_selection


@pytest.mark.parametrize(
    ("texts", "selected"),
    [
        (["t"], {"t": None}),
        (["t:0", "u:5-7,2"], {"t": {0}, "u": {2, 5, 6, 7}}),
        (["t:0", "t:1-2"], {"t": {0, 1, 2}}),
        (["t:0", "t"], {"t": None}),
        (["t", "t:0"], {"t": None}),
    ],
)
def test_selections_of_a_topic_add_up(texts: list[str], selected: dict[str, set[int] | None]) -> None:
    assert read_selection(texts) == selected


@pytest.mark.parametrize("text", ["", ":0", "t:", "t:a", "t:3-1", "t:0,", "t:-1"])
def test_what_selects_nothing_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="--topic takes TOPIC or TOPIC:0,1, not "):
        read_selection([text])


def test_adjacent_partitions_are_a_range() -> None:
    partitions = [TopicPartition("u", 1), *(TopicPartition("t", number) for number in (7, 0, 2, 1, 5))]
    assert ranges(partitions) == "t 0-2,5,7; u 1"
    assert ranges([]) == ""
