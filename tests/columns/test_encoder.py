"""The record reader reads the output of the column encoder."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.client.produce import murmur2
from kohort.columns.encoder import Columns, PartitionEncoder, columns_of, place_keys
from kohort.wire.batches import (
    HEADER_SIZE,
    Buffer,
    Codec,
    Record,
    check_batches,
    decode_records,
    encode_batch,
    pack_batch,
)

LIMIT = 64 << 10
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]

rows = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=300),
        st.none() | st.binary(max_size=300) | st.integers(0, 40_000).map(bytes),
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2),
    ),
    max_size=40,
)


def columns(some: list[Row]) -> Columns:
    keys, values = (pa.array([row[n] for row in some], pa.binary()) for n in (0, 1))
    headers = pa.array([[{"key": k, "value": v} for k, v in row[2]] for row in some], HEADERS)
    return columns_of(keys, values, headers)


def sealed(count: int, packed: Buffer, codec: Codec = Codec.NONE) -> list[Record]:
    batch = pack_batch(packed, count, 1_700_000_000_000, codec, 7, 3, 100)
    (header,) = check_batches(batch, 1 << 20)
    assert (header.record_count, header.producer_id, header.producer_epoch) == (count, 7, 3)
    assert header.last_sequence == 100 + count - 1
    records = decode_records(batch)
    assert encode_batch(records)[HEADER_SIZE:] == packed, "the same bytes as one by one, and no more"
    return records


@settings(deadline=None)  # the first example loads what was compiled
@given(rows, st.sampled_from(Codec), st.sampled_from((300, 2_000, LIMIT)))
def test_every_row_comes_back_in_order_as_it_was(some: list[Row], codec: Codec, limit: int) -> None:
    encoder = PartitionEncoder(limit)
    batches = list(encoder.add(columns(some), np.arange(len(some), dtype=np.int64)))
    assert all(len(packed) <= limit or count == 1 for count, packed in batches)
    if encoder.count:
        batches.append(encoder.take())
    found = [record for count, packed in batches for record in sealed(count, packed, codec)]
    assert [(record.key, record.value, list(record.headers)) for record in found] == some


def test_only_the_chosen_rows_are_taken() -> None:
    some: list[Row] = [(None, b"%d" % n, []) for n in range(10)]
    encoder = PartitionEncoder(LIMIT)
    assert not list(encoder.add(columns(some), np.array([1, 5], np.int64)))
    assert not list(encoder.add(columns(some), np.array([9], np.int64)))
    assert [record.value for record in sealed(*encoder.take())] == [b"1", b"5", b"9"]
    assert encoder.count == 0


def test_what_was_taken_stays_as_it_was() -> None:
    some: list[Row] = [(None, b"%d" % n, []) for n in range(3)]
    encoder = PartitionEncoder(LIMIT)
    taken = []
    for n in range(3):
        list(encoder.add(columns(some), np.array([n], np.int64)))
        taken.append(encoder.take())
    assert [record.value for count, packed in taken for record in sealed(count, packed)] == [b"0", b"1", b"2"]


def test_a_slice_of_a_column_is_read_where_it_begins() -> None:
    whole = pa.array([b"a", None, b"ccc", b"dd"], pa.binary())
    text = pa.array(["w", "x", "y", "z"])
    encoder = PartitionEncoder(LIMIT)
    list(encoder.add(columns_of(whole[1:], text[1:], None), np.arange(3, dtype=np.int64)))
    found = sealed(*encoder.take())
    assert [(record.key, record.value) for record in found] == [(None, b"x"), (b"ccc", b"y"), (b"dd", b"z")]


def test_a_record_beyond_the_limit_is_sent_alone() -> None:
    some: list[Row] = [(None, b"small", []), (None, b"x" * 3 * LIMIT, []), (None, b"small", [])]
    encoder = PartitionEncoder(LIMIT)
    batches = list(encoder.add(columns(some), np.arange(3, dtype=np.int64)))
    assert [(count, len(packed) > LIMIT) for count, packed in batches] == [(1, False), (1, True)]
    assert [record.value for count, packed in batches for record in sealed(count, packed)] == [
        b"small",
        b"x" * 3 * LIMIT,
    ]
    assert encoder.count == 1
    assert encoder.memory == LIMIT


@settings(deadline=None)
@given(st.lists(st.none() | st.binary(max_size=40), min_size=1), st.integers(1, 1000))
def test_keys_go_where_javas_producer_puts_them(keys: list[bytes | None], count: int) -> None:
    partitions = np.full(len(keys), -1, np.int32)
    place_keys(columns_of(pa.array(keys, pa.binary()), pa.array(keys, pa.binary()), None).key, count, partitions)
    assert partitions.tolist() == [-1 if key is None else murmur2(key) % count for key in keys]
