"""Batches whose checksum holds and whose lengths lie: whoever may produce can write them, and no broker looks inside.

The compiled loops read no byte outside of the batch and refuse what the plain decoder refuses.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from kohort.wire.batches import BatchError, decode_records, encode_batch
from kohort.wire.batches.batch import HEADER_SIZE, seal
from kohort.wire.batches.record_writer import signed_varint
from tests.columns.records import decoded, record

HUGE = 2**63 - 1
FAR = 1 << 62


def batch_of(*bodies: bytes) -> bytes:
    """A sealed batch of records with these bytes behind their length."""
    batch = bytearray(encode_batch([record(offset) for offset in range(len(bodies))]))
    del batch[HEADER_SIZE:]
    for body in bodies:
        batch += signed_varint(len(body)) + body
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    seal(batch)
    return bytes(batch)


def body(key_size: int = 1, value_size: int = 1, headers: bytes = b"\0", offset: int = 0, time: int = 0) -> bytes:
    """A record's bytes: key and value of one byte, whatever size they claim."""
    start = b"\0" + signed_varint(time) + signed_varint(offset)
    return start + signed_varint(key_size) + b"k" + signed_varint(value_size) + b"v" + headers


def test_the_honest_one_is_read() -> None:
    batch = batch_of(body(headers=b"\2\2h\2x"), body(offset=1))
    assert decoded(batch)["key"].to_pylist() == [b"k", b"k"] == [record.key for record in decode_records(batch)]


LIES: dict[str, Sequence[bytes]] = {
    "a key's size that would wrap around": [body(key_size=HUGE)],
    "a value's size that would wrap around": [body(value_size=HUGE)],
    "the size of a header's key that would wrap around": [body(headers=b"\2" + signed_varint(HUGE) + b"h\2x")],
    "the size of a header's value that would wrap around": [body(headers=b"\2\2h" + signed_varint(HUGE) + b"x")],
    "a key that passes its record": [body(key_size=9), body(offset=1)],
    "headers that pass their record": [body(headers=b"\4\2h\2x"), body(offset=1)],
    "headers that end before their record": [body(headers=b"\2\2h\2x\0\0"), body(offset=1)],
    "a record without a number of headers": [body(headers=b""), body(offset=1)],
    "bytes behind a record": [body(headers=b"\0\0\0"), body(offset=1)],
    "a header's key that is not UTF-8": [body(headers=b"\2\2\xff\2x")],
    "an offset before the batch": [body(offset=-1)],
    "an offset far behind the batch": [body(offset=FAR)],
    "a time that no int64 holds": [body(time=FAR)],
}


@pytest.mark.parametrize("bodies", LIES.values(), ids=LIES)
def test_a_lie_is_refused_by_both_decoders(bodies: Sequence[bytes]) -> None:
    batch = batch_of(*bodies)
    with pytest.raises(BatchError):
        decode_records(batch)
    with pytest.raises(BatchError):
        decoded(batch)


def test_bytes_behind_the_last_record_are_refused_by_both_decoders() -> None:
    batch = bytearray(batch_of(body(), body(offset=1)))
    struct.pack_into(">i", batch, 57, 1)  # the number of records
    seal(batch)
    with pytest.raises(BatchError):
        decode_records(batch)
    with pytest.raises(BatchError):
        decoded(bytes(batch))


def test_nanoseconds_by_mistake_are_read() -> None:
    # Producers do that; an int64 of microseconds cannot hold them, and their records must not stop a reader.
    batch = batch_of(body(time=1_700_000_000_000_000_000))
    assert decoded(batch).num_rows == 1 == len(decode_records(batch))
