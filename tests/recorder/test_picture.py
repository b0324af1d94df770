from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kohort.errors import KohortError
from kohort.group_events import Cause, MemberFacts
from kohort.model import TopicPartition
from kohort.recorder import PartitionChange, RebalanceRecord
from kohort.recorder.views.marks import MOST_NUMBERED
from kohort.recorder.views.periods import Empty, Gap, Span, empties, gaps, spans
from kohort.recorder.views.picture import draw, picture
from tests.charts.texts import misplaced, strings
from tests.recorder.stories import HOST, Story, a_day

if TYPE_CHECKING:
    from matplotlib.text import Text

ONE = TopicPartition("orders", 0)


def record(generation: int, at: int, change: PartitionChange) -> RebalanceRecord:
    return RebalanceRecord("g", generation, at, at, partitions=(change,))


def test_a_bar_lasts_from_the_first_read_until_the_owner_stops() -> None:
    records = [
        record(1, 10, PartitionChange(*ONE, None, "a", None, 10, 20)),
        record(2, 60, PartitionChange(*ONE, "a", "b", 50, 60, 70)),
    ]
    assert spans(records, 0, 100) == [Span(ONE, "a", 20, 50), Span(ONE, "b", 70, 100)]
    assert gaps(spans(records, 0, 100), 100) == [Gap(ONE, 50, 70)]


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
    assert gaps(spans(records, 0, 100), 100) == [Gap(ONE, 50, 100)]


def test_a_group_without_members_is_empty_and_not_dark() -> None:
    member = MemberFacts("a", "a", HOST)
    records = [
        replace(record(1, 10, PartitionChange(*ONE, None, "a", None, 10, 20)), after=(member,)),
        record(2, 60, PartitionChange(*ONE, "a", None, 50)),
        replace(record(3, 90, PartitionChange(*ONE, "a", "a", 50, 92, 95)), after=(member,)),
        record(4, 110, PartitionChange(*ONE, "a", None, 105)),
    ]
    assert empties(records, 200) == [Empty(60, 90), Empty(110, 200)]
    # It stopped at 50, and the rebalance began at 60.
    assert gaps(spans(records, 0, 200), 200, empties(records, 200)) == [Gap(ONE, 50, 60), Gap(ONE, 105, 110)]


def test_a_partition_that_was_free_has_no_owner_in_between() -> None:
    records = [
        record(1, 10, PartitionChange(*ONE, None, "a", None, 10, 20)),
        record(2, 30, PartitionChange(*ONE, "a", "b", 25, 30, 35)),
        record(3, 60, PartitionChange(*ONE, "b", None, 50)),
        # The last owner before the group was empty is the previous one.
        record(4, 90, PartitionChange(*ONE, "b", "c", 50, 92, 95)),
    ]
    assert spans(records, 0, 100) == [Span(ONE, "a", 20, 25), Span(ONE, "b", 35, 50), Span(ONE, "c", 95, 100)]


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


def test_every_label_of_ten_members_with_long_names_is_whole_and_apart() -> None:
    pytest.importorskip("matplotlib")
    story = Story(partitions=20)
    for number in range(10):
        story.joins(f"flight-delays-of-the-last-quarter-{number}")
    reason = "the consumer has unsubscribed from all topics and is being closed, because its host is replaced " * 2
    story.leaves("flight-delays-of-the-last-quarter-3", Cause.MEMBER_LEFT, reason.strip())
    drawn = picture(story.records)
    assert not misplaced(drawn)
    assert {f"flight-delays-of-the-last-quarter-{number}" for number in range(10)} <= set(strings(drawn))
    assert {f"flights-{number}" for number in range(20)} <= set(strings(drawn))
    assert "dark: no member processes the partition" in strings(drawn)
    assert all(word in " ".join(strings(drawn)) for word in reason.split())


@pytest.mark.parametrize("topic", ["t", "a.topic.with.a.long.name." * 8])
def test_labels_of_partitions_are_whole(topic: str) -> None:
    pytest.importorskip("matplotlib")
    change = PartitionChange(topic, 0, None, "a", None, 10, 20)
    drawn = picture([record(1, 10, change), record(2, 9_000, replace(change, revoked_at=8_000, owner="b"))])
    assert not misplaced(drawn)
    assert f"{topic}-0" in strings(drawn)


def test_every_mark_has_a_number_and_an_explanation() -> None:
    pytest.importorskip("matplotlib")
    story = Story()
    story.joins("a")
    for _ in range(6):  # in bursts, so that marks are close
        story.now += 60_000
        story.joins("b")
        story.leaves("b")
    drawn = picture(story.records)
    assert not misplaced(drawn)
    upper, lower = drawn.axes
    assert len(upper.lines) == len(lower.lines) == 13
    assert _numbers(drawn.axes[0].texts) == list(range(1, 14))
    told = [text.get_text() for text in drawn.texts]
    assert [number for number in told if number.isdigit()] == [str(number) for number in range(1, 14)]
    # A cooperative rebalance and its follow-up are one mark.
    assert any("member joined: b" in line and "(generations 2 to 3)" in line for line in told)


def test_no_mark_has_a_number_if_there_are_too_many() -> None:
    pytest.importorskip("matplotlib")
    story = Story("range")
    story.joins("a")
    for _ in range(MOST_NUMBERED // 2):
        story.joins("b")
        story.leaves("b")
    drawn = picture(story.records)
    assert not misplaced(drawn)
    assert len(drawn.axes[0].lines) == MOST_NUMBERED + 1
    assert not drawn.axes[0].texts
    assert f"Of {MOST_NUMBERED + 1} rebalances, these 12 have the longest dark time:" in strings(drawn)


def test_the_axis_has_the_time_of_day() -> None:
    pytest.importorskip("matplotlib")
    records = a_day()
    lower = picture(records).axes[1]
    begin = datetime.fromtimestamp((records[0].started_at or 0) / 1000, UTC).astimezone()
    assert lower.get_xlabel() == f"time ({begin:%Y-%m-%d}, {begin.tzname()})"
    shown = [label.get_text() for label in lower.get_xticklabels()]
    assert shown[0] == f"{begin:%H:%M:%S}" and len(shown) > 4


def test_time_without_members_is_explained_and_not_dark() -> None:
    pytest.importorskip("matplotlib")
    story = Story()
    story.joins("a")
    story.now += 1_000
    story.leaves("a")
    story.now += 20_000
    story.joins("a")
    drawn = picture(story.records)
    assert "the group has no members" in strings(drawn)
    assert "dark: no member processes the partition" not in strings(drawn)
    assert any("6 assigned after 20.02 s without members" in text for text in strings(drawn))
    assert not any("dark for" in text for text in strings(drawn))


def test_a_large_group_fits_into_a_picture_too(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    story = Story(partitions=60)
    for number in range(15):
        story.joins(f"member-{number}")
    draw(story.records, tmp_path / "group.svg", title="many")
    drawn = (tmp_path / "group.svg").read_text()
    assert drawn.startswith("<?xml")


def _numbers(labels: Iterable[Text]) -> list[int]:
    """The numbers of labels such as 3 and 4–6."""
    ranges = [label.get_text().split("–") for label in labels]
    return [number for ends in ranges for number in range(int(ends[0]), int(ends[-1]) + 1)]


def test_an_empty_journal_is_reported() -> None:
    with pytest.raises(KohortError, match="nothing to draw"):
        draw([], Path("never.png"))
