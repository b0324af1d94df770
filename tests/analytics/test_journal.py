"""The tables from the journal alone: what a recorder wrote, and nothing that only commits tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from kohort.analytics.findings import COUNTED_WITH_JOURNAL, gather
from kohort.analytics.job import Settings, analyse_journal, journal_of_segments
from kohort.analytics.report import headline, page
from kohort.analytics.stores import ParquetStore
from kohort.group_events import MemberFacts
from kohort.recorder import JOURNAL_TOPIC, PartitionChange, RebalanceRecord, Trigger
from kohort.recorder.views import summary
from kohort.wire.batches import encode_pairs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

AT = 1_767_225_600_000
MINUTE = 60_000
STEADY = MemberFacts("steady-1", "steady", "/10.0.0.1")


def _life(number: int) -> MemberFacts:
    """A member that returns under a new id each time."""
    return MemberFacts(f"nervous-{number}", "nervous", "/10.0.0.2")


def _records() -> list[RebalanceRecord]:
    """A member joins and leaves four times; each time half of the partitions move to it and back."""
    made = []
    for n in range(8):
        at, comes, nervous = AT + n * 2 * MINUTE, n % 2 == 0, _life(n // 2)
        before, after = ((STEADY,), (STEADY, nervous)) if comes else ((STEADY, nervous), (STEADY,))
        source, target = (STEADY, nervous) if comes else (nervous, STEADY)
        change = PartitionChange("flights", 1, source.member_id, target.member_id, at, at + 40, at + 100)
        cause = Trigger("member joined", nervous.member_id) if comes else Trigger("session expired", nervous.member_id)
        made.append(
            RebalanceRecord(
                *("delays", 2 + n, at, at + 50),
                triggers=(cause,),
                protocol="range",
                before=before,
                after=after,
                partitions=(change,),
            )
        )
    return made


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("journal")
    shard = home / "data" / f"{JOURNAL_TOPIC}-0"
    shard.mkdir(parents=True)
    pairs = [(record.group_id.encode(), record.to_json()) for record in _records()]
    (shard / f"{0:020d}.log").write_bytes(encode_pairs([*pairs, (b"delays", b"no record of a journal")], AT))
    journal = journal_of_segments(spark, str(home / "data"))
    analyse_journal(journal, ParquetStore(str(home / "out")), Settings())
    found = gather(spark, MINUTE)
    assert headline(found) == "Rebalances of delays kept its partitions waiting for 800 partition-milliseconds"
    assert "session expired" in page(found)
    assert "1 record of __kohort_rebalances, damaged or of a newer version, could not be read." in page(found)
    return home / "out"


def test_a_group_that_began_again_counts_as_in_the_journal(spark: SparkSession, tmp_path: Path) -> None:
    # It was deleted, so that generations exist twice.
    records = [*_records(), *(replace(record, ended_at=record.ended_at + 60 * MINUTE) for record in _records())]
    shard = tmp_path / "data" / f"{JOURNAL_TOPIC}-0"
    shard.mkdir(parents=True)
    pairs = [(record.group_id.encode(), record.to_json()) for record in records]
    (shard / f"{0:020d}.log").write_bytes(encode_pairs(pairs, AT))
    analyse_journal(journal_of_segments(spark, str(tmp_path / "data")), ParquetStore(str(tmp_path / "out")), Settings())
    (group,) = gather(spark, MINUTE).groups
    assert summary(records).startswith("16 rebalances, 16 partitions moved; partitions were dark for 1.60 s in all")
    assert (group["rebalances"], group["moved"], group["excess_ms"]) == (16, 16, 1_600)


def test_rebalances_before_the_journal_are_those_of_the_log(spark: SparkSession) -> None:
    log: list[tuple[Any, ...]] = [
        *(("old", AT, 1, "member joined"), ("old", AT + 60_000, 2, "member joined")),  # both have the second one
        *(("consumer", AT + 1, 1, "member joined"), ("consumer", AT + 20, 1, "member joined")),  # one rebalance
        *(("unrecorded", AT, 3, "first member"), ("unrecorded", AT + 1, 0, "group deleted")),
    ]
    journal: list[tuple[Any, ...]] = [
        ("old", AT + 60_010, AT + 60_020, 2),
        ("consumer", AT, AT + 30, 2),
        ("compacted", AT, AT + 10, 5),
    ]
    views: dict[str, tuple[list[tuple[Any, ...]], str]] = {
        "rebalances": (log, "group_id STRING, at BIGINT, moved BIGINT, cause STRING"),
        "journal": (journal, "group_id STRING, started_at BIGINT, ended_at BIGINT, moved INT"),
    }
    for name, (found, ddl) in views.items():
        spark.createDataFrame(found, ddl).createOrReplaceTempView(name)
    counted = [(row["group_id"], row["moved"]) for row in spark.sql(COUNTED_WITH_JOURNAL).collect()]
    for name in views:
        spark.catalog.dropTempView(name)
    assert sorted(counted) == [("compacted", 5), ("consumer", 2), ("old", 1), ("old", 2), ("unrecorded", 3)]


def _rows(table: Path) -> list[dict[str, Any]]:
    return pq.read_table(table).to_pylist()


def test_each_rebalance_has_the_cause_and_the_dark_time_that_the_recorder_saw(tables: Path) -> None:
    found = sorted(_rows(tables / "rebalances"), key=lambda row: row["at"])
    assert [row["cause"] for row in found] == ["member joined", "session expired"] * 4
    assert {(row["moved"], row["stopped"], row["excess_ms"], row["missing"]) for row in found} == {(1, 1, 100, 0)}
    assert sorted(row["dark_ms"] for row in _rows(tables / "moves")) == [100] * 8


def test_members_live_from_their_first_record_to_the_one_that_lacks_them(tables: Path) -> None:
    found = {row["member_id"]: (row["joined_at"], row["left_at"]) for row in _rows(tables / "memberships")}
    assert found.pop("steady-1") == (AT + 50, None)
    lives = {f"nervous-{n}": (AT + 4 * n * MINUTE + 50, AT + (4 * n + 2) * MINUTE + 50) for n in range(4)}
    assert found == lives


def test_a_member_that_joins_and_leaves_repeatedly_flaps_and_its_group_thrashes(tables: Path) -> None:
    (flapping,) = _rows(tables / "flapping")
    assert (flapping["member_name"], flapping["returns"], flapping["mean_away_ms"]) == ("nervous", 3, 2 * MINUTE)
    (thrashing,) = _rows(tables / "thrashing")
    assert (thrashing["group_id"], thrashing["rebalances"]) == ("delays", 8)
