"""Batches seen from outside: what a broker accepts from a producer, and what it answers otherwise."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.errors import ErrorCode
from kohort.wire.batches.batch import batches, check_batches, crc_matches, place, read_header, seal, stamp
from kohort.wire.batches.compression import BatchError, Codec
from kohort.wire.batches.record_reader import Record, decode_records
from kohort.wire.batches.record_writer import encode_batch

NOW = 1_700_000_000_000
LIMIT = 1_048_588
steady = settings(deadline=None, derandomize=True, database=None)


def a_batch(count: int = 3, **options: int) -> bytearray:
    return encode_batch([Record(n, NOW + n, b"k%d" % n, b"v") for n in range(count)], **options)  # type: ignore[arg-type]


def refusal(batch: bytes | bytearray | None, limit: int = LIMIT) -> ErrorCode:
    with pytest.raises(BatchError) as raised:
        check_batches(batch, limit)
    assert len(str(raised.value)) > 20
    return raised.value.code


def test_a_sound_batch_is_accepted_and_described() -> None:
    batch = a_batch(producer_id=5, producer_epoch=0, base_sequence=40)
    (header,) = check_batches(batch, LIMIT)
    assert (header.record_count, header.last_offset, header.next_offset, header.last_sequence) == (3, 2, 3, 42)
    assert (header.size, header.magic, header.codec) == (len(batch), 2, Codec.NONE)


def test_a_batch_gets_its_place_without_touching_its_checksum() -> None:
    batch = bytearray(b"??") + a_batch()
    place(batch, 1_000_000_000_000, 17, position=2)
    header = read_header(batch, 2)
    assert (header.base_offset, header.leader_epoch) == (1_000_000_000_000, 17)
    assert crc_matches(batch, header, 2)
    assert [record.offset - 10**12 for record in decode_records(batch, 2)] == [0, 1, 2]


def test_a_stamped_batch_has_the_brokers_time_and_a_right_checksum() -> None:
    batch = a_batch()
    stamp(batch, NOW + 99)
    (header,) = check_batches(batch, LIMIT)
    assert header.is_log_append_time
    assert {record.timestamp for record in decode_records(batch)} == {NOW + 99}


def test_sequence_numbers_wrap() -> None:
    header = read_header(a_batch(producer_id=5, producer_epoch=0, base_sequence=2**31 - 2))
    assert header.last_sequence == 0


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_refused_by_name(magic: int) -> None:
    batch = a_batch()
    batch[16] = magic
    assert refusal(batch) is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_an_unknown_magic_is_corrupt(magic: int) -> None:
    batch = a_batch()
    batch[16] = magic
    assert refusal(batch) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 14, 48])
def test_a_length_shorter_than_a_header_is_corrupt(length: int) -> None:
    batch = a_batch()
    struct.pack_into(">i", batch, 8, length)
    assert refusal(batch) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("nothing", [None, b"", b"\0" * 16, bytes(a_batch())[:-1]])
def test_no_whole_batch_is_an_invalid_record(nothing: bytes | None) -> None:
    assert refusal(nothing) is ErrorCode.INVALID_RECORD


def test_two_batches_for_one_partition_are_refused() -> None:
    assert refusal(a_batch() + a_batch()) is ErrorCode.INVALID_RECORD


def test_bytes_behind_the_batch_are_refused() -> None:
    assert refusal(a_batch() + b"tail") is ErrorCode.INVALID_RECORD


def test_a_batch_may_have_exactly_the_size_that_is_allowed() -> None:
    batch = a_batch()
    assert check_batches(batch, len(batch))
    assert refusal(batch, len(batch) - 1) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("at", [17, 21, 22, 23, 60, 61, -1])
def test_a_changed_byte_is_corrupt(at: int) -> None:
    batch = a_batch()
    batch[at] ^= 0x40
    assert refusal(batch) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unknown_codec_is_named(number: int) -> None:
    batch = a_batch()
    batch[22] = number
    seal(batch)
    assert refusal(batch) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize(
    ("at", "layout", "value"),
    [(57, ">i", 0), (57, ">i", -1), (57, ">i", 4), (23, ">i", 1), (23, ">i", -1), (23, ">i", 2**31 - 1)],
)
def test_a_count_that_contradicts_the_offsets_is_refused(at: int, layout: str, value: int) -> None:
    batch = a_batch()
    struct.pack_into(layout, batch, at, value)
    seal(batch)
    assert refusal(batch) is ErrorCode.INVALID_RECORD


def test_clients_may_not_write_control_batches() -> None:
    assert refusal(encode_batch([Record(0, NOW, b"\0\0\0\1", b"")], control=True)) is ErrorCode.INVALID_RECORD


def test_a_producer_id_needs_a_sequence() -> None:
    assert refusal(a_batch(producer_id=5, producer_epoch=0)) is ErrorCode.INVALID_RECORD
    assert refusal(a_batch(producer_id=5, base_sequence=0)) is ErrorCode.INVALID_RECORD


def test_a_torn_tail_ends_the_iteration_quietly() -> None:
    # A fetch response is cut at max.bytes, so its last batch is often a part of one.
    whole = a_batch() + a_batch(1)
    for cut in range(len(a_batch(1))):
        assert [position for position, _ in batches(whole[: len(a_batch()) + cut])] == [0]
    assert [(position, header.record_count) for position, header in batches(whole)] == [(0, 3), (len(a_batch()), 1)]


@given(st.binary(max_size=200))
@steady
def test_any_bytes_are_batches_or_an_error(noise: bytes) -> None:
    for read in (lambda: list(batches(noise)), lambda: check_batches(noise, LIMIT), lambda: decode_records(noise)):
        try:
            read()
        except BatchError as error:
            assert error.code is not ErrorCode.NONE


def test_memoryviews_are_read_like_bytes() -> None:
    batch = a_batch()
    assert check_batches(memoryview(batch), LIMIT) == check_batches(bytes(batch), LIMIT)
    assert decode_records(memoryview(batch)) == decode_records(bytes(batch))
