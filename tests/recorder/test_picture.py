from __future__ import annotations

from pathlib import Path

import pytest

from kohort.errors import KohortError
from kohort.model import TopicPartition
from kohort.recorder import PartitionChange, RebalanceRecord
from kohort.recorder.views.picture import Span, draw, gaps, spans
from tests.recorder.stories import Story, a_day

ONE = TopicPartition("orders", 0)


def record(generation: int, at: int, change: PartitionChange) -> RebalanceRecord:
    return RebalanceRecord("g", generation, at, at, partitions=(change,))


def test_a_bar_lasts_from_the_first_read_until_the_owner_stops() -> None:
    records = [
        record(1, 10, PartitionChange(*ONE, None, "a", None, 10, 20)),
        record(2, 60, PartitionChange(*ONE, "a", "b", 50, 60, 70)),
    ]
    assert spans(records, 0, 100) == [Span(ONE, "a", 20, 50), Span(ONE, "b", 70, 100)]
    assert gaps(spans(records, 0, 100), 100) == [(50, 70)]


def test_a_partition_that_is_to_be_revoked_is_still_processed() -> None:
    records = [
        record(1, 10, PartitionChange(*ONE, None, "a", None, 10, 20)),
        record(2, 30, PartitionChange(*ONE, "a", None)),
        record(3, 60, PartitionChange(*ONE, "a", "b", 50, 60, 70)),
    ]
    assert spans(records, 0, 100)[0] == Span(ONE, "a", 20, 50)


def test_a_partition_without_a_new_owner_stays_dark_to_the_end() -> None:
    records = [
        record(1, 10, PartitionChange(*ONE, None, "a", None, 10, 20)),
        record(2, 60, PartitionChange(*ONE, "a", None, 50)),
    ]
    assert gaps(spans(records, 0, 100), 100) == [(50, 100)]


def test_owners_from_before_the_journal_are_drawn_from_its_beginning() -> None:
    records = [record(8, 60, PartitionChange(*ONE, "a", "b", 50, 60, 70))]
    assert spans(records, 0, 100) == [Span(ONE, "a", 0, 50), Span(ONE, "b", 70, 100)]


def test_only_the_time_asked_for_is_drawn() -> None:
    records = [
        record(1, 10, PartitionChange(*ONE, None, "a", None, 10, 20)),
        record(2, 60, PartitionChange(*ONE, "a", "b", 50, 60, 70)),
    ]
    assert spans(records, 30, 65) == [Span(ONE, "a", 30, 50)]


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_picture_is_written(assignor: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw(a_day(assignor), tmp_path / "group.png")
    assert (tmp_path / "group.png").read_bytes().startswith(b"\x89PNG")


def test_a_large_group_fits_into_a_picture_too(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    story = Story(partitions=60)
    for number in range(15):
        story.joins(f"member-{number}")
    draw(story.records, tmp_path / "group.svg", title="many")
    drawn = (tmp_path / "group.svg").read_text()
    assert drawn.startswith("<?xml")


def test_an_empty_journal_is_reported() -> None:
    with pytest.raises(KohortError, match="nothing to draw"):
        draw([], Path("never.png"))
