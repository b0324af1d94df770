"""Columns of the client's record batches: those of Spark's Kafka source without `timestampType`."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", tz="UTC")),
    ("headers", pa.list_(HEADER)),
]
SCHEMA = pa.schema(_FIELDS)
"""Schema of the client's record batches. A record without headers has null in `headers`."""


def to_columns(records: Iterable[Sequence[Any]]) -> pa.RecordBatch:
    """Convert rows of (topic, partition, offset, timestamp in ms, key, value, headers, ...) to a batch."""
    topics, partitions, offsets, timestamps, keys, values, headers, *_ = zip(*records, strict=True)
    # If a producer sent nanoseconds instead of milliseconds, the int64 keeps the low bits, as in
    # the compiled loops.
    times = [(timestamp * 1000 + 2**63) % 2**64 - 2**63 for timestamp in timestamps]
    named = [[{"key": key, "value": value} for key, value in pairs] or None for pairs in headers]
    columns = (keys, values, topics, partitions, offsets, times, named)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
