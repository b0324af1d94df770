"""Batches for the tests of the decoder, and what the decoder should make of them."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st
from kafka.record import MemoryRecordsBuilder

from kohort.columns.decoder import Decoder, index_batches
from kohort.model import TopicPartition
from kohort.wire.batches import Codec, Record, place

TP = TopicPartition("flights", 3)
HEADER_TYPE = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", tz="UTC")),
    ("timestampType", pa.int32()),
    ("headers", HEADER_TYPE),
]
SCHEMA = pa.schema(_COLUMNS)

blobs = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3)
records = st.lists(st.tuples(st.integers(0, 2**41), blobs, blobs, headers), min_size=1, max_size=60)

Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def kafka_python_batch(rows: list[Row], codec: Codec, base_offset: int) -> bytes:
    """One batch as kafka-python's producer writes it."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=codec.value, batch_size=1 << 24)
    for timestamp, key, value, row_headers in rows:
        builder.append(timestamp=timestamp, key=key, value=value, headers=row_headers)
    builder.close()
    batch = bytearray(builder.buffer())
    place(batch, base_offset, 0)
    return bytes(batch)


def decoded(
    buffer: bytes | bytearray,
    schema: pa.Schema = SCHEMA,
    *,
    first: int = 0,
    until: int = 1 << 62,
    max_rows: int = 16384,
    aborted: list[tuple[int, int]] | None = None,
) -> pa.Table:
    """All that a decoder makes of a buffer; `aborted` makes it one that reads committed records."""
    decoder = Decoder(schema, max_rows=max_rows, read_committed=aborted is not None)
    batches = index_batches(buffer, TP)
    found = list(decoder.feed(buffer, batches, TP, first=first, until=until, aborted=aborted or []))
    return pa.Table.from_batches([*found, *decoder.finish()], schema=schema)


def record(offset: int, value: bytes = b"v", key: bytes | None = b"k") -> Record:
    return Record(offset, 1_700_000_000_000 + offset, key, value, ())
