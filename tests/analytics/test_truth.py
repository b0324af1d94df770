"""A made-up history whose truth is known: what the tables say of it is compared with what was done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from kohort.analytics.findings import gather
from kohort.analytics.job import Settings, analyse, from_segments
from kohort.analytics.report import page
from kohort.analytics.stores import ParquetStore
from tests.analytics.generate.history import Scale, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

WINDOW_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Analysed:
    """A history that was made, and what the job said of it."""

    made: Path
    out: Path
    html: str
    rate: list[tuple[int, float]]

    def truth(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        return _rows(self.made / "truth" / f"{name}.parquet", columns)

    def table(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        return _rows(self.out / name, columns)


def _rows(path: Path, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    table = pq.read_table(path, columns=list(columns))
    return sorted(zip(*(table[name].to_pylist() for name in columns), strict=True), key=repr)


@pytest.fixture(scope="module")
def analysed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analysed]:
    """Five groups, one of each habit, under all protocols; a third of all commits are one group's."""
    home = tmp_path_factory.mktemp("history")
    scale = Scale(commits=30_000, groups=6, days=2, window_ms=WINDOW_MS, shards=2, skew=0.3)
    write(home / "made", scale, lambda line: None)
    settings = Settings(window_ms=WINDOW_MS)
    history = from_segments(spark, str(home / "made"), settings)
    ends = str(home / "made" / "ends")
    analyse(history, ParquetStore(str(home / "out")), settings, ends=lambda: spark.read.parquet(ends))
    found = gather(spark, WINDOW_MS)
    yield Analysed(home / "made", home / "out", page(found), found.rate)


def test_every_commit_is_counted_once(analysed: Analysed) -> None:
    counted = Counter[str]()
    for group_id, commits in analysed.table("commit_rate", "group_id", "commits"):
        counted[group_id] += commits
    assert sorted(counted.items()) == analysed.truth("commits", "group_id", "commits")
    # Two days in 300 steps are shorter than a window, whose commits are not those of a step.
    assert sum(per_second for _, per_second in analysed.rate) * WINDOW_MS / 1000 == pytest.approx(counted.total())


def test_members_are_known_from_when_they_came_to_when_they_went(analysed: Analysed) -> None:
    columns = ("group_id", "member_id", "client_id", "joined_at", "left_at")
    assert analysed.table("memberships", *columns) == analysed.truth("memberships", *columns)


def test_every_move_is_found_with_the_commits_around_it(analysed: Analysed) -> None:
    columns = (
        *("group_id", "topic", "partition", "at", "from_member", "to_member"),
        *("last_commit_at", "first_commit_at"),
    )
    found = analysed.table("moves", *columns)
    assert len(found) > 300
    assert found == analysed.truth("moves", *columns)


def test_every_rebalance_has_its_cause(analysed: Analysed) -> None:
    columns = ("group_id", "at", "epoch", "cause")
    found = analysed.table("rebalances", *columns)
    assert found == analysed.truth("rebalances", *columns)
    assert {cause for *_, cause in found} >= {
        *("first member", "member joined", "member left or expired"),
        *("member came back under a new id", "cooperative follow-up"),
    }


def test_only_groups_that_thrash_are_reported(analysed: Analysed) -> None:
    bursts = Counter(group_id for (group_id,) in analysed.table("thrashing", "group_id"))
    for group_id, count in analysed.truth("thrashing", "group_id", "bursts"):
        assert bursts[group_id] == count
    assert all("thrashing" in group_id or "flapping" in group_id for group_id in bursts)


def test_only_members_that_flap_are_reported(analysed: Analysed) -> None:
    flapping = set(analysed.table("flapping", "group_id", "member_name"))
    assert flapping >= set(analysed.truth("flapping", "group_id", "client_id"))
    assert all("thrashing" in group_id or "flapping" in group_id for group_id, _ in flapping)


def test_lag_is_what_the_group_had_not_committed_at_each_edge(analysed: Analysed) -> None:
    ends = {row[:3]: row[3] for row in _rows(analysed.made / "ends", ("topic", "partition", "at", "end_offset"))}
    found = analysed.table("lag", "topic", "partition", "at", "committed", "lag", "lag_ms", "end_offset")
    assert found
    for topic, partition, at, committed, lag, lag_ms, end_offset in found:
        assert end_offset == ends[topic, partition, at]
        assert lag == max(0, end_offset - committed)
        assert (lag_ms > 0) == (lag > 0)


def test_a_group_that_falls_behind_is_behind_in_time_by_as_much(analysed: Analysed) -> None:
    # It loses a fifth of its time, so after two days it reads what is some ten hours old.
    ages = [(at, age) for group, at, age in analysed.table("lag", "group_id", "at", "lag_ms") if "behind" in group]
    last = max(at for at, _ in ages)
    oldest = [age for at, age in ages if at == last]
    assert oldest
    assert all(9 * 3_600_000 < age < 11 * 3_600_000 for age in oldest)


def test_sticky_protocols_make_no_needless_move(analysed: Analysed) -> None:
    moved = analysed.table("rebalances", "assignor", "group_type", "needless", "moved")
    sticky = [row for row in moved if row[0] == "cooperative-sticky" or row[1] == "consumer"]
    assert sum(row[3] for row in sticky) > 100
    assert sum(row[2] for row in sticky) == 0


def test_another_protocol_would_have_stopped_fewer_partitions(analysed: Analysed) -> None:
    rows = analysed.table("savings", "assignor", "stops", "cooperative_stops", "consumer_stops", "consumer_saves_ms")
    eager = [row for row in rows if row[0] == "range"]
    assert eager
    for _, stops, cooperative, consumer, saved in eager:
        assert 0 < cooperative < stops
        assert 0 < consumer < stops
        assert saved > 0


def test_dark_time_excludes_the_usual_commit_interval_and_counts_no_time_twice(
    analysed: Analysed,
) -> None:
    columns = ("group_id", "topic", "partition", "last_commit_at", "dark_ms", "excess_ms")
    known = [row for row in analysed.table("dark", *columns) if row[4] is not None]
    assert len(known) > 500
    assert all(0 <= excess <= dark for *_, dark, excess in known)
    counted = Counter(row[:4] for row in known if row[5])
    assert counted
    assert set(counted.values()) == {1}


def test_the_page_names_the_groups_that_hurt_and_holds_its_pictures(analysed: Analysed) -> None:
    thrashing = {group for (group,) in analysed.table("thrashing", "group_id")}
    assert all(group in analysed.html for group in thrashing)
    assert analysed.html.count("<svg") == 4
    assert "<img" not in analysed.html
    assert "src=" not in analysed.html
