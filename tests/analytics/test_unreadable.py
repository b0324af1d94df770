"""Records that cannot be decoded, from the archive to the page: they are left out, and the person is told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kohort.analytics.findings import gather
from kohort.analytics.job import Settings, analyse, from_raw
from kohort.analytics.places import RemotePlace, place
from kohort.analytics.report import left_out
from kohort.analytics.stores import ParquetStore
from kohort.wire.group_log.group_bytes import encode_key, encode_value
from kohort.wire.messages.group_records import GroupMetadataKey
from tests.analytics.test_decoding import AT, GENERATION, KEY, MINUTE, commit, raw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def test_the_report_says_what_the_figures_exclude(spark: SparkSession, tmp_path: Path) -> None:
    generation = (encode_key(GroupMetadataKey(group="delays")), encode_value(GENERATION))
    newer = (KEY, b"\0\x09" + commit(5)[2:])
    records = [generation, (KEY, commit(1)), newer, (KEY, commit(3, AT + 5 * MINUTE)), (KEY, b"cut")]
    rows = raw(records).to_pylist()
    schema = "key BINARY, value BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP"
    archive = spark.createDataFrame([tuple(row.values()) for row in rows], schema)
    journal = spark.createDataFrame([(b"{}",), (b"no JSON",)], "value BINARY")
    analyse(from_raw(archive.coalesce(1), Settings()), ParquetStore(str(tmp_path)), Settings(), journal=journal)
    found = gather(spark, MINUTE)
    assert (found.whole["commits"], found.whole["end_at"]) == (2, AT + 5 * MINUTE)
    assert left_out(found) == [
        "2 records of __consumer_offsets, damaged or of a newer version, could not be read, the first at offset 2 of"
        " partition 7. The figures do not include them.",
        "2 records of __kohort_rebalances, damaged or of a newer version, could not be read. The figures do not include"
        " them.",
    ]


def test_a_place_that_hadoop_knows_is_written_by_it(spark: SparkSession, tmp_path: Path) -> None:
    # Hadoop's file system for another scheme is reached in the same way; no other is here.
    out = RemotePlace(f"file://{tmp_path}/far")
    out.prepare(spark)
    assert out.directories(spark) == 0
    (tmp_path / "far" / "lag").mkdir()
    out.write(spark, "report.html", "höher".encode())
    out.write(spark, "report.html", "höchst".encode())
    assert (tmp_path / "far" / "report.html").read_text() == "höchst"
    assert out.directories(spark) == 1


def test_a_file_uri_is_a_directory(tmp_path: Path) -> None:
    assert str(place(f"file://{tmp_path}/a%20b")) == f"{tmp_path}/a b"
    assert (tmp_path / "a b").is_dir()
