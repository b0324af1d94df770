"""Keys and values by runs: the same as record by record, for any batch; and records taken out of batches."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.wire.batches import HEADER_SIZE, Record, decode_records, encode_batch, encode_pairs, stamp
from kohort.wire.batches.batch import seal
from kohort.wire.batches.compression import BatchError, Codec
from kohort.wire.batches.scanning.record_filter import scan_records, with_records
from kohort.wire.batches.scanning.record_pairs import decode_pairs

NOW = 1_700_000_000_000
steady = settings(deadline=None, derandomize=True, database=None)

blob = st.one_of(st.none(), st.binary(max_size=4), st.binary(min_size=60, max_size=70))
header = st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=3)))
runs = st.lists(
    st.tuples(
        st.integers(1, 90),
        blob,
        blob,
        st.sampled_from([0, 0, 1, 70]),
        st.lists(header, max_size=1),
        st.sampled_from([1, 1, 2]),
    ),
    min_size=1,
    max_size=6,
)


def records_of(
    described: list[tuple[int, bytes | None, bytes | None, int, list[tuple[str, bytes | None]], int]],
) -> list[Record]:
    """Runs of records alike: how many, key, value, milliseconds and offsets between two, headers."""
    made: list[Record] = []
    offset, time = 0, NOW
    for count, key, value, apart, headers, step in described:
        for _ in range(count):
            made.append(Record(offset, time, key, value, headers))
            offset, time = offset + step, time + apart
    return made


@given(runs, st.sampled_from(Codec))
@settings(steady, max_examples=300)
def test_pairs_are_the_keys_and_values_of_the_records(described: list, codec: Codec) -> None:  # type: ignore[type-arg]
    batch = encode_batch(records_of(described), codec)
    found, pairs = decode_pairs(b"before" + batch, 6)
    expected = decode_records(batch)
    assert pairs == [(record.key, record.value) for record in expected]
    assert found.has_gaps == ([record.offset for record in expected] != list(range(len(expected))))


@given(st.binary(max_size=120), st.integers(0, 40), st.data())
@settings(steady, max_examples=300)
def test_any_bytes_are_either_pairs_or_an_error(noise: bytes, count: int, data: st.DataObject) -> None:
    batch = encode_pairs([(b"key%02d" % n, b"value") for n in range(20)], NOW)
    at = data.draw(st.integers(HEADER_SIZE, len(batch)))
    batch[at : at + len(noise)] = noise
    batch[8:12] = (len(batch) - 12).to_bytes(4)
    batch[57:61] = count.to_bytes(4)
    seal(batch)
    try:
        expected = [(record.key, record.value) for record in decode_records(batch)]
    except BatchError:
        expected = None
    try:
        found = decode_pairs(batch)[1]
    except BatchError:
        found = None
    # Headers are passed over here, so what is wrong in them alone is no matter.
    assert found == expected or expected is None


def test_a_wrong_checksum_is_an_error() -> None:
    batch = encode_pairs([(b"k", b"v")] * 10, NOW)
    batch[-2] ^= 1
    with pytest.raises(BatchError, match="checksum"):
        decode_pairs(batch)
    with pytest.raises(BatchError, match="checksum"):
        scan_records(batch)
    assert len(decode_pairs(batch, check_crc=False)[1]) == 10


@given(runs, st.sampled_from(Codec), st.data())
@settings(steady, max_examples=200)
def test_records_that_are_kept_are_unchanged(described: list, codec: Codec, data: st.DataObject) -> None:  # type: ignore[type-arg]
    made = records_of(described)
    batch = encode_batch(made, codec, leader_epoch=3, producer_id=4, producer_epoch=5, base_sequence=6)
    found, unpacked, scanned = scan_records(batch)
    assert [(record.offset, record.timestamp, record.key, record.is_tombstone) for record in scanned] == [
        (record.offset, record.timestamp, record.key, record.value is None) for record in made
    ]
    wanted = data.draw(st.lists(st.booleans(), min_size=len(made), max_size=len(made)))
    horizon = data.draw(st.one_of(st.none(), st.integers(NOW - 10, NOW + 10**9)))
    kept = [record for record, stays in zip(scanned, wanted, strict=True) if stays]
    left = with_records(found, unpacked, kept, horizon)
    assert [r._replace(headers=list(r.headers)) for r in decode_records(left)] == [
        r for r, stays in zip(made, wanted, strict=True) if stays
    ]
    after, _, _ = scan_records(left)
    same = ("base_offset", "last_offset", "leader_epoch", "producer_id", "producer_epoch", "base_sequence")
    assert [getattr(after, name) for name in same] == [getattr(found, name) for name in same]
    assert after.last_sequence == found.last_sequence
    if kept:
        assert (after.codec, after.delete_horizon) == (codec, horizon)
        assert after.max_timestamp == max(record.timestamp for record in kept)


def test_a_record_of_the_brokers_time_keeps_it_when_others_go() -> None:
    batch = encode_batch([Record(n, NOW + n, b"k", b"v") for n in range(3)])
    stamp(batch, NOW + 500)
    found, unpacked, scanned = scan_records(batch)
    left = with_records(found, unpacked, scanned[:1], NOW + 10**6)
    assert [record.timestamp for record in decode_records(left)] == [NOW + 500]
