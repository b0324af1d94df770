"""Batches of other writers become the rows that went in, whatever they are and however they are cut."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.columns.decoder import Decoder, index_batches
from kohort.wire.batches import BatchError, Codec, Record, encode_batch, stamp
from tests.columns.records import SCHEMA, TP, Row, decoded, kafka_python_batch, record, records

SECOND = 1_000_000


@given(records, st.sampled_from([Codec.NONE, Codec.GZIP]), st.integers(0, 2**40), st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_records_written_by_kafka_python_are_decoded(rows: list[Row], codec: Codec, base: int, page: int) -> None:
    table = decoded(kafka_python_batch(rows, codec, base), max_rows=page)
    found = table.to_pydict()
    assert found["key"] == [key for _, key, _, _ in rows]
    assert found["value"] == [value for _, _, value, _ in rows]
    assert found["offset"] == list(range(base, base + len(rows)))
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [time * 1000 for time, _, _, _ in rows]
    assert set(found["topic"]) == {"flights"}
    assert set(found["partition"]) == {3}
    assert set(found["timestampType"]) == {0}
    # spark-sql-kafka gives null where a record has no headers.
    wanted = [[{"key": key, "value": value} for key, value in headers] or None for _, _, _, headers in rows]
    assert found["headers"] == wanted


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_unpacked(codec: Codec) -> None:
    batch = encode_batch([record(offset, b"x" * offset) for offset in range(5, 300)], codec)
    assert decoded(batch)["value"].to_pylist() == [b"x" * offset for offset in range(5, 300)]


def test_a_range_is_cut_out_of_its_batches() -> None:
    buffer = b"".join(encode_batch([record(10 * n + i) for i in range(10)]) for n in range(5))
    assert decoded(buffer, first=7, until=33)["offset"].to_pylist() == list(range(7, 33))


def test_gaps_of_compaction_stay_gaps() -> None:
    buffer = bytes(encode_batch([record(offset) for offset in (3, 7, 8, 20)]))
    assert decoded(buffer, first=4, until=20)["offset"].to_pylist() == [7, 8]


def test_a_batch_that_the_fetch_cut_off_waits_for_the_next_fetch() -> None:
    whole, cut = bytes(encode_batch([record(0)])), bytes(encode_batch([record(1)]))
    for size in range(len(cut)):
        assert decoded(whole + cut[:size])["offset"].to_pylist() == [0]


def test_a_record_larger_than_a_page_gets_through() -> None:
    values = [b"small", b"x" * (5 << 20), b"small again"]
    table = decoded(bytes(encode_batch([record(n, value) for n, value in enumerate(values)])))
    assert table["value"].to_pylist() == values


def test_pages_are_cut_by_bytes_too() -> None:
    values = [bytes([n]) * 300_000 for n in range(40)]
    buffer = bytes(encode_batch([Record(n, 0, value, value) for n, value in enumerate(values)]))
    table = decoded(buffer)
    assert table["key"].to_pylist() == table["value"].to_pylist() == values
    assert table["key"].num_chunks > 5


def test_a_narrower_schema_gives_only_its_columns() -> None:
    for names in (["value"], ["offset", "partition"], ["headers", "key"], []):
        schema = pa.schema([SCHEMA.field(name) for name in names])
        table = decoded(bytes(encode_batch([record(0), record(1, key=None)])), schema)
        assert table.schema == schema
        if names:
            assert table.num_rows == 2


def test_log_append_time_is_the_batchs() -> None:
    batch = encode_batch([record(0), record(1)])
    stamp(batch, 1_800_000_000_000)
    found = decoded(batch)
    assert found["timestamp"].cast(pa.int64()).to_pylist() == [1_800_000_000_000_000] * 2
    assert found["timestampType"].to_pylist() == [1, 1]


def test_transaction_markers_are_not_records() -> None:
    marker = encode_batch([record(1)], producer_id=7, producer_epoch=0, transactional=True, control=True)
    log = bytes(encode_batch([record(0)]) + marker + encode_batch([record(2)]))
    assert decoded(log)["offset"].to_pylist() == [0, 2]


def data(offset: int, producer: int, *, transactional: bool = True) -> bytearray:
    return encode_batch([record(offset)], producer_id=producer, producer_epoch=0, transactional=transactional)


def marker(offset: int, producer: int) -> bytearray:
    return encode_batch([record(offset)], producer_id=producer, producer_epoch=0, transactional=True, control=True)


def test_aborted_records_are_left_out_when_reading_committed() -> None:
    log = bytes(data(0, 7) + data(1, 8) + marker(2, 7) + data(3, 7) + marker(4, 8) + marker(5, 7))
    assert decoded(log)["offset"].to_pylist() == [0, 1, 3]
    # Producer 7's first transaction was aborted at 2; its second, from 3 on, was committed.
    assert decoded(log, aborted=[(7, 0)])["offset"].to_pylist() == [1, 3]
    assert decoded(log, aborted=[(7, 0), (7, 3)])["offset"].to_pylist() == [1]


def test_a_marker_ends_only_the_transaction_of_its_producer() -> None:
    log = bytes(data(0, 7) + data(1, 8) + marker(2, 7) + data(3, 8) + marker(4, 8) + data(5, 8) + marker(6, 8))
    assert decoded(log, aborted=[(7, 0), (8, 1)])["offset"].to_pylist() == [5]


def test_only_transactional_records_are_left_out() -> None:
    # As in Java's consumer. A broker may have such a log, as not every one refuses these records.
    log = bytes(data(0, 7) + data(1, 7, transactional=False) + marker(2, 7))
    assert decoded(log, aborted=[(7, 0)])["offset"].to_pylist() == [1]


def test_any_flipped_byte_is_found_and_named() -> None:
    batch = bytes(encode_batch([record(offset, bytes(range(40))) for offset in range(100, 110)]))
    for at in range(21, len(batch)):
        flipped = batch[:at] + bytes([batch[at] ^ 0x10]) + batch[at + 1 :]
        with pytest.raises(BatchError, match=r"flights-3"):
            decoded(flipped)


def test_no_bytes_crash_the_decoder() -> None:
    # The checksum is made right again, so the kernels see what only a malicious producer writes.
    dice = random.Random(7)
    batch = bytes(encode_batch([Record(n, 0, b"key", b"value" * n, [("h", b"x")]) for n in range(20)]))
    refused = 0
    for _ in range(2000):
        damaged = bytearray(batch)
        for _ in range(dice.randint(1, 4)):
            damaged[dice.randrange(57, len(damaged))] = dice.randrange(256)
        damaged[17:21] = crc32c(bytes(damaged[21:])).to_bytes(4, "big")
        try:
            decoded(bytes(damaged))
        except (BatchError, UnicodeDecodeError, pa.ArrowInvalid):
            refused += 1
    assert refused > 500


def test_bytes_that_are_not_a_batch_are_rejected() -> None:
    for garbage in (b"\0" * 100, b"\xff" * 100, b"GET / HTTP/1.1\r\n" * 20):
        with pytest.raises(BatchError, match="no record batch"):
            index_batches(garbage, TP)
    assert index_batches(b"", TP) == []


def test_a_batch_in_use_keeps_its_page() -> None:
    decoder = Decoder(SCHEMA, max_rows=10)
    buffer = bytes(encode_batch([record(offset, b"%d" % offset) for offset in range(100)]))
    kept = list(decoder.feed(buffer, index_batches(buffer, TP), TP, first=0, until=100))
    kept += decoder.finish()
    assert [value for batch in kept for value in batch["value"].to_pylist()] == [b"%d" % n for n in range(100)]


def test_a_batch_let_go_lends_its_page_to_a_later_one() -> None:
    decoder = Decoder(SCHEMA, max_rows=10)
    buffer = bytes(encode_batch([record(offset) for offset in range(1000)]))
    addresses = set()
    for batch in decoder.feed(buffer, index_batches(buffer, TP), TP, first=0, until=1000):
        offsets = batch["offset"].buffers()[1]
        assert offsets is not None
        addresses.add(offsets.address)
    assert len(addresses) <= 3


def test_partitions_share_a_batch() -> None:
    decoder = Decoder(SCHEMA)
    buffer = bytes(encode_batch([record(0), record(1)]))
    batches = index_batches(buffer, TP)
    others = [TP, TP._replace(partition=4), TP._replace(topic="other")]
    for tp in others:
        assert list(decoder.feed(buffer, batches, tp, first=0, until=9)) == []
    (batch,) = decoder.finish()
    assert list(zip(batch["topic"].to_pylist(), batch["partition"].to_pylist(), strict=True)) == [
        tp for tp in others for _ in range(2)
    ]
