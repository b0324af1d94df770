"""Records through bytes and back: by ourselves, and against what kafka-python and aiokafka write and read."""

import contextlib
import struct
import warnings

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.wire.batches import BatchError, Codec, batches, read_header
from kohort.wire.batches.batch import HEADER_SIZE, pack_header, seal
from kohort.wire.batches.record_reader import Header, Record, decode_records, decode_values
from kohort.wire.batches.record_writer import BatchBuilder, encode_batch, encode_pairs

with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore", DeprecationWarning
    )  # kafka-python reads its schemas in a way that Python 3.11 frowns at
    from kafka.record.default_records import DefaultRecordBatch as PyBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as PyBuilder

Content = list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]
NOW = 1_700_000_000_000
steady = settings(deadline=None, derandomize=True, database=None)

blobs = st.none() | st.binary(max_size=200) | st.integers(60, 20_000).map(lambda size: b"v" * size)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=70)
header_lists = st.lists(st.tuples(names, st.none() | st.binary(max_size=80)), max_size=3)
times = st.integers(NOW - 10**12, NOW + 10**12)
bodies = st.lists(st.tuples(times, blobs, blobs, header_lists), min_size=1, max_size=20)


def records_of(content: Content) -> list[Record]:
    return [
        Record(offset, time, key, value, tuple(headers)) for offset, (time, key, value, headers) in enumerate(content)
    ]


def same(records: list[Record]) -> list[Record]:
    return [record._replace(headers=tuple(record.headers)) for record in records]


@given(bodies, st.sampled_from(Codec), st.integers(0, 2**62))
@steady
def test_encoded_records_decode_to_the_same_records(content: Content, codec: Codec, base: int) -> None:
    records = [record._replace(offset=base + record.offset) for record in records_of(content)]
    batch = encode_batch(records, codec, producer_id=7, producer_epoch=1, base_sequence=5)
    assert same(decode_records(batch)) == records
    header = read_header(batch)
    assert (header.size, header.record_count, header.codec) == (len(batch), len(records), codec)
    assert (header.base_offset, header.last_offset) == (records[0].offset, records[-1].offset)
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert header.last_sequence == 5 + len(records) - 1


@given(bodies, st.sampled_from(Codec))
@steady
def test_aiokafka_reads_what_we_write(content: Content, codec: Codec) -> None:
    records = records_of(content)
    theirs = AioBatch(bytearray(encode_batch(records, codec)))
    assert theirs.validate_crc()
    assert [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs] == records


@given(bodies, st.sampled_from([Codec.NONE, Codec.GZIP]))
@steady
def test_kafka_python_reads_what_we_write(content: Content, codec: Codec) -> None:
    records = records_of(content)
    theirs = PyBatch(bytearray(encode_batch(records, codec)))
    assert theirs.validate_crc()
    assert [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs] == records


@given(bodies, st.sampled_from(Codec))
@steady
def test_we_read_what_aiokafka_writes(content: Content, codec: Codec) -> None:
    records = records_of(content)
    builder = AioBuilder(2, int(codec), 1, 9, 2, 3, 10**8)
    for record in records:
        assert builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    batch = builder.build()
    assert same(decode_records(batch)) == records
    header = read_header(batch)
    assert (header.is_transactional, header.producer_id, header.producer_epoch, header.base_sequence) == (True, 9, 2, 3)


@given(bodies, st.sampled_from([Codec.NONE, Codec.GZIP]))
@steady
def test_we_read_what_kafka_python_writes(content: Content, codec: Codec) -> None:
    records = records_of(content)
    builder = PyBuilder(2, int(codec), 0, -1, -1, -1, 10**8)
    for record in records:
        assert builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    assert same(decode_records(builder.build())) == records


@given(bodies.filter(lambda content: all(not headers for *_, headers in content)))
@steady
def test_uncompressed_bytes_are_those_of_aiokafka(content: Content) -> None:
    records = records_of(content)
    builder = AioBuilder(2, 0, 0, -1, -1, -1, 10**8)
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, [])
    # A batch that no broker has placed carries leader epoch 0 there and -1 here; the CRC does not cover it.
    theirs, ours = builder.build(), encode_batch(records)
    assert (ours[:12], ours[16:]) == (theirs[:12], theirs[16:])


sizes = st.integers(0, 100) | st.sampled_from([62, 63, 64, 65, 4094, 4095, 4096, 8191, 8192, 70_000])


@given(st.lists(st.tuples(sizes, st.none() | sizes), min_size=1, max_size=12))
@steady
def test_pairs_are_encoded_as_records_of_one_time(shape: list[tuple[int, int | None]]) -> None:
    pairs = [(b"k" * key, None if value is None else b"v" * value) for key, value in shape]
    expected = encode_batch(Record(offset, NOW, key, value) for offset, (key, value) in enumerate(pairs))
    assert encode_pairs(pairs, NOW) == expected


@pytest.mark.parametrize("count", [63, 64, 65, 8191, 8192, 8193, 9000])
def test_pairs_are_encoded_right_at_every_width_of_the_offset_delta(count: int) -> None:
    pairs = [(b"key", b"value")] * count
    assert [(r.offset, r.key, r.value) for r in decode_records(encode_pairs(pairs, NOW))] == [
        (offset, b"key", b"value") for offset in range(count)
    ]


@steady
@given(
    st.lists(st.tuples(st.integers(NOW - 5, NOW + 20_000), blobs, blobs, header_lists | st.just([])), max_size=5),
    st.integers(1, 60),
    st.booleans(),
)
def test_values_are_decoded_alone_or_not_at_all(content: Content, times: int, gap: bool) -> None:
    builder = BatchBuilder()
    for timestamp, key, value, headers in content * times:
        builder.append(timestamp, key, value, headers)
    if gap:
        builder.append(NOW, None, b"last", offset=builder.count + 3 if builder.count else 0)
    if not builder.count:
        return
    batch = bytes(builder.build(Codec.GZIP))
    values = decode_values(batch)
    unusual = any(headers or len(key or b"") + len(value or b"") > 8000 for _, key, value, headers in content)
    assert (values is None) == (unusual or (gap and bool(content)))
    if values is not None:
        assert values == [record.value for record in decode_records(batch)]


@given(st.binary(max_size=60), st.integers(1, 12))
def test_values_of_bad_bytes_are_those_of_records(noise: bytes, count: int) -> None:
    builder = BatchBuilder()
    builder.append(NOW, None, b"")
    header = read_header(builder.build())._replace(
        batch_length=HEADER_SIZE + len(noise) - 12, record_count=count, last_offset_delta=count - 1
    )
    batch = pack_header(header) + noise
    values = decode_values(batch, check_crc=False)
    with contextlib.suppress(BatchError):  # decode_values does not look at timestamps and offsets
        records = decode_records(batch, check_crc=False)
        assert values is None or values == [record.value for record in records]


@steady
@given(
    st.lists(
        st.tuples(st.integers(NOW - 5, NOW + 20_000), st.lists(st.binary(max_size=200), max_size=5), st.integers(1, 60))
    ),
    st.booleans(),
)
def test_values_alone_are_encoded_as_records(runs: list[tuple[int, list[bytes], int]], after_others: bool) -> None:
    together, one_by_one = BatchBuilder(), BatchBuilder()
    if after_others:
        for builder in (together, one_by_one):
            builder.append(NOW, b"key", b"value", [("h", b"1")], offset=7)
    for timestamp, values, times in runs:
        together.append_values(timestamp, values * times)
        for value in values * times:
            one_by_one.append(timestamp, None, value)
    assert (together.count, together.size) == (one_by_one.count, one_by_one.size)
    if together.count:
        assert together.build() == one_by_one.build()


@steady
@given(
    st.lists(
        st.tuples(
            st.integers(NOW - 5, NOW + 20_000),
            st.lists(st.tuples(st.none() | st.binary(max_size=200), st.none() | st.binary(max_size=200)), max_size=12),
            st.integers(1, 60),
            header_lists | st.just([]),
        )
    ),
    st.booleans(),
)
def test_deferred_records_are_encoded_as_others(
    runs: list[tuple[int, list[tuple[bytes | None, bytes | None]], int, list[Header]]], after_others: bool
) -> None:
    deferred, one_by_one = BatchBuilder(), BatchBuilder()
    if after_others:
        for builder in (deferred, one_by_one):
            builder.append(NOW, b"key", b"value", [("h", b"1")], offset=7)
    for timestamp, pairs, times, headers in runs:
        for key, value in pairs * times:
            count = one_by_one.count
            assert deferred.defer(timestamp, key, value) == count
            one_by_one.append(timestamp, key, value)
        if headers:
            for builder in (deferred, one_by_one):
                builder.append(timestamp, b"k", b"v", headers)
    assert deferred.count == one_by_one.count
    if deferred.count:
        assert deferred.build() == one_by_one.build()
        assert deferred.size == one_by_one.size


def test_deferred_records_may_be_many_and_long() -> None:
    deferred, one_by_one = BatchBuilder(), BatchBuilder()
    data = [b"", b"x" * 9000, *(b"%d" % number for number in range(9000))]
    for keys in ([b"key"], [b"k" * 5000, b""]):
        for value in data:
            for key in keys:
                deferred.defer(NOW, key, value)
                one_by_one.append(NOW, key, value)
    assert (deferred.build(), deferred.size) == (one_by_one.build(), one_by_one.size)


def test_values_may_be_many_and_long() -> None:
    together, one_by_one = BatchBuilder(), BatchBuilder()
    values = [b"", b"x" * 9000, *(b"%d" % number for number in range(9000))]
    together.append_values(NOW, values)
    together.append_values(NOW, values)
    for value in values * 2:
        one_by_one.append(NOW, None, value)
    assert (together.size, together.build()) == (one_by_one.size, one_by_one.build())


def test_a_builder_knows_its_size_and_counts_offsets_from_zero() -> None:
    builder = BatchBuilder()
    for n in range(300):
        builder.append(NOW + n, b"%d" % n, None, [("h", b"x")])
        assert builder.size == len(builder.build())
    assert [record.offset for record in decode_records(builder.build(Codec.ZSTD))] == list(range(300))


def test_a_retry_with_other_numbers_is_built_from_the_same_records() -> None:
    builder = BatchBuilder()
    builder.append(NOW, b"k", b"v")
    first, again = (builder.build(producer_id=4, producer_epoch=epoch, base_sequence=0) for epoch in (0, 1))
    assert read_header(first)._replace(producer_epoch=1, crc=0) == read_header(again)._replace(crc=0)


def test_all_records_of_a_log_append_time_batch_have_its_time() -> None:
    batch = encode_batch([Record(0, NOW, None, b"a"), Record(1, NOW + 5, None, b"b")])
    batch[22] |= 0x08
    seal(batch)
    assert [record.timestamp for record in decode_records(batch)] == [NOW + 5, NOW + 5]


def test_control_batches_are_flagged() -> None:
    marker = encode_batch([Record(3, NOW, b"\0\0\0\1", b"\0\0\0\0\0\0")], control=True, transactional=True)
    assert [header.is_control for _, header in batches(marker)] == [True]


@given(bodies, st.sampled_from(Codec), st.data())
@settings(steady, max_examples=60)
def test_any_flipped_bit_behind_the_crc_is_an_error(content: Content, codec: Codec, data: st.DataObject) -> None:
    batch = encode_batch(records_of(content), codec)
    bit = data.draw(st.integers(17 * 8, len(batch) * 8 - 1))
    batch[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BatchError):
        decode_records(batch)


@given(bodies, st.sampled_from(Codec), st.data())
@settings(steady, max_examples=60)
def test_any_truncation_is_an_error(content: Content, codec: Codec, data: st.DataObject) -> None:
    batch = encode_batch(records_of(content), codec)
    with pytest.raises(BatchError):
        decode_records(batch[: data.draw(st.integers(0, len(batch) - 1))])


@given(bodies, st.data())
@steady
def test_changed_records_under_a_right_checksum_never_crash_the_reader(content: Content, data: st.DataObject) -> None:
    batch = encode_batch(records_of(content))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(57, len(batch) - 1))] = data.draw(st.integers(0, 255))
    seal(batch)
    try:
        decode_records(batch)
    except BatchError as error:
        assert str(error)


@given(st.binary(max_size=300), st.integers(-5, 2**31 - 1))
@steady
def test_garbage_for_records_is_an_error_or_records(noise: bytes, count: int) -> None:
    batch = encode_batch([Record(0, NOW, None, b"")])[:61] + noise
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">i", batch, 57, count)
    seal(batch)
    try:
        assert len(decode_records(batch)) == count
    except BatchError as error:
        assert str(error)
