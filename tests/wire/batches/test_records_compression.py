"""The codecs: what others write can be read, damage is an error, and a bomb is one too."""

import gzip
import tracemalloc

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.wire.batches.compression import FREE_INFLATED_BYTES, BatchError, Codec, compress, decompress

PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
steady = settings(deadline=None, derandomize=True, database=None)


@given(st.sampled_from(Codec), st.binary(max_size=500), st.integers(1, 400))
@steady
def test_compressed_data_decompresses(codec: Codec, piece: bytes, times: int) -> None:
    assert decompress(codec, bytes(compress(codec, piece * times))) == piece * times


def test_raw_snappy_is_read_as_well_as_javas_framing() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(b"abc" * 99))) == b"abc" * 99
    assert bytes(compress(Codec.SNAPPY, b"abc")).startswith(b"\x82SNAPPY\0\0\0\0\1\0\0\0\1")


def test_snappy_is_cut_into_blocks_as_java_does() -> None:
    data = bytes(range(256)) * 400
    packed = bytes(compress(Codec.SNAPPY, data))
    assert len(packed) > 20
    assert decompress(Codec.SNAPPY, packed) == data


def test_lz4_blocks_are_independent_because_java_reads_no_others() -> None:
    flags = bytes(compress(Codec.LZ4, b"abc"))[4]
    assert flags & 0x20


def test_several_gzip_members_are_one_stream() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


@pytest.mark.parametrize("codec", PACKED)
def test_a_large_result_of_a_small_input_is_read_up_to_the_limit(codec: Codec) -> None:
    data = bytes(3_000_000)
    packed = bytes(compress(codec, data))
    assert decompress(codec, packed, max_bytes=len(data)) == data
    with pytest.raises(BatchError, match="decompresses to more than 2999999 bytes"):
        decompress(codec, packed, max_bytes=len(data) - 1)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_a_bomb_is_an_error_and_takes_no_more_memory_than_the_limit(codec: Codec) -> None:
    packed = bytes(compress(codec, bytes(300 << 20)))
    if codec is Codec.GZIP:
        packed = packed[:15_000]  # its ratio is 1000 at most, so only its start stays under the free size
    tracemalloc.start()
    try:
        with pytest.raises(BatchError):
            decompress(codec, packed)
        assert tracemalloc.get_traced_memory()[1] < 4 * FREE_INFLATED_BYTES
    finally:
        tracemalloc.stop()


@given(st.sampled_from(PACKED), st.data())
@steady
def test_damage_is_an_error_or_other_bytes_but_never_a_crash(codec: Codec, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, b"some records " * 40))
    match data.draw(st.sampled_from(["flip", "cut", "noise"])):
        case "flip":
            packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
        case "cut":
            del packed[data.draw(st.integers(0, len(packed) - 1)) :]
        case _:
            packed[:] = data.draw(st.binary(max_size=60))
    try:
        decompress(codec, bytes(packed), max_bytes=10**6)
    except BatchError as error:
        assert str(error)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_cut_stream_is_an_error(codec: Codec) -> None:
    packed = bytes(compress(codec, b"some records " * 40))
    for end in range(1, len(packed)):
        with pytest.raises(BatchError):
            decompress(codec, packed[:end])
