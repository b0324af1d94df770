"""Copies of segments that are not whole."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kohort.analytics import estimated_records, source
from kohort.analytics.source import read_segment
from kohort.errors import KohortError
from kohort.wire.batches import encode_pairs
from tests.analytics.test_decoding import AT

BATCH = [(b"k", b"v" * 100)] * 3


def segment(home: Path, first: int, content: bytes) -> Path:
    path = home / "__consumer_offsets-7" / f"{first:020}.log"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def records(path: Path) -> int:
    return sum(batch.num_rows for batch in read_segment(path))


def test_a_last_batch_that_was_being_written_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = bytes(encode_pairs(BATCH, AT))
    assert records(segment(tmp_path, 0, whole + whole[:50])) == 3
    assert "ends within a batch: its last 50 bytes are ignored" in caplog.text


def test_a_segment_that_is_half_a_copy_is_refused(tmp_path: Path) -> None:
    whole = bytes(encode_pairs(BATCH, AT))
    first = segment(tmp_path, 0, whole + whole[:50])
    last = segment(tmp_path, 6, whole)
    assert records(last) == 3
    with pytest.raises(KohortError, match=rf"ends within a batch, at byte {len(whole)} of .* the copy is not whole"):
        records(first)


def test_a_batch_may_be_larger_than_what_is_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_READ_AT_ONCE", 64)
    assert records(segment(tmp_path, 0, bytes(encode_pairs(BATCH, AT)) * 2)) == 6


def test_the_size_of_a_history_is_known_before_it_is_read(tmp_path: Path) -> None:
    whole = segment(tmp_path, 0, bytes(encode_pairs(BATCH, AT)) * 100)
    assert 300 <= (estimated_records(None, str(tmp_path), None) or 0) < 1000
    assert estimated_records(None, str(tmp_path), None, topic="__kohort_rebalances") == 0
    whole.unlink()
    assert estimated_records(None, str(tmp_path), None) == 0


def test_the_size_of_an_archive_is_the_number_of_its_rows(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    for name, rows in (("a.parquet", 3), ("day=1/b.parquet", 4)):
        pq.write_table(pa.table({"offset": range(rows)}), tmp_path / name)
    assert estimated_records(None, None, str(tmp_path)) == 7
    assert estimated_records(None, None, "s3a://bucket/archive") is None
