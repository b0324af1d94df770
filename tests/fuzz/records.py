"""Record batches by every decoder that we have of them, which must agree on what is a sound batch and what is in it."""

from __future__ import annotations

import contextlib
from functools import cache
from random import Random

from kohort.columns.decoder import Decoder, index_batches
from kohort.columns.page import PAGE_BYTES, BufferPool
from kohort.columns.schema import SCHEMA
from kohort.errors import ErrorCode
from kohort.model import TopicPartition
from kohort.wire.batches import Record, decode_records, decode_values, encode_batch
from kohort.wire.batches.batch import HEADER_SIZE, batches, check_batches, read_header, seal
from kohort.wire.batches.compression import FREE_INFLATED_BYTES, MAX_RATIO, BatchError, Codec, compress, decompress
from kohort.wire.batches.scanning.record_filter import scan_records, with_records
from kohort.wire.batches.scanning.record_pairs import decode_pairs
from tests.fuzz.rules import Target

_TP = TopicPartition("orders", 3)
_PAGES = BufferPool()
_PAGE_ROWS = 256
_MOST_OFFSET = 2**62
_CODEC_OF = {codec.value: codec for codec in Codec}


def run_batches(data: bytes) -> object:
    """Read the headers, which a broker and a client check first."""
    headers = [header for _, header in batches(data)]
    check_batches(data, 1 << 20)
    return headers


def batch_agrees(data: bytes, value: object) -> None:
    """The other decoders in plain Python agree with `decode_records`, the strictest one."""
    records = decode_records(data)
    _, pairs = decode_pairs(data)
    assert pairs == [(record.key, record.value) for record in records]
    assert decode_values(data) in (None, [record.value for record in records])
    header, unpacked, scanned = scan_records(data)
    assert [(record.offset, record.key, record.is_tombstone) for record in scanned] == [
        (record.offset, record.key, record.value is None) for record in records
    ]
    assert decode_records(with_records(header, unpacked, scanned)) == records or header.is_log_append_time


def run_scan(data: bytes) -> object:
    """Alone, since it takes some batches that `decode_records` refuses; what it takes can be taken out."""
    header, unpacked, scanned = scan_records(data)
    return with_records(header, unpacked, scanned[::2])


def run_columns(data: bytes) -> object:
    """Whole batches by the compiled decoder, into Arrow's columns and out of them."""
    if not all(0 <= header.base_offset < _MOST_OFFSET for _, header in batches(data)):
        raise BatchError(ErrorCode.CORRUPT_MESSAGE, "no broker gives such an offset")
    try:
        return _rows(data)
    except BatchError:
        with contextlib.suppress(BatchError):
            _plain(data)
            raise AssertionError("only the compiled decoder refuses it") from None
        raise


def columns_agree(data: bytes, value: object) -> None:
    """It takes what the plain decoder takes, and sees the same."""
    try:
        plain = _plain(data)
    except BatchError:
        raise AssertionError("only the plain decoder refuses it") from None
    assert value == [(record.offset, record.key, record.value, list(record.headers) or None) for record in plain]


def _plain(data: bytes) -> list[Record]:
    return [record for at, header in batches(data) if not header.is_control for record in decode_records(data, at)]


def _rows(data: bytes) -> list[object]:
    decoder = Decoder(SCHEMA, max_rows=_PAGE_ROWS, pages=_PAGES)
    fed = decoder.feed(data, index_batches(data, _TP), _TP, first=-(2**63), until=2**63 - 1)
    rows: list[object] = []
    for page in (*fed, *decoder.finish()):
        columns = (page.column(name).to_pylist() for name in ("offset", "key", "value", "headers"))
        rows += [
            (offset, key, value, headers and [(header["key"], header["value"]) for header in headers])
            for offset, key, value, headers in zip(*columns, strict=True)
        ]
    return rows


def run_decompress(data: bytes) -> object:
    """A codec's number, then its bytes."""
    return len(decompress(_CODEC_OF[data[0] % len(_CODEC_OF)], data[1:])) if data else 0


def _inflated(packed: int) -> int:
    """Of compressed bytes: three copies, beside one another, of the most that they may become."""
    return 3 * max(FREE_INFLATED_BYTES, MAX_RATIO * packed)


def grant_of_batch(data: bytes) -> int:
    """Return the memory that the batch's codec may need; 0 without compression."""
    if len(data) < HEADER_SIZE or not read_header(data).attributes & 7:
        return 0
    # A record of seven bytes becomes one of two hundred: the limit of unpacked bytes is what bounds that, too.
    return 40 * _inflated(len(data))


def sealed(data: bytes, dice: Random) -> bytes:
    """Mostly with a checksum that is right, and a length that is: else nothing behind the header is ever read."""
    if len(data) < HEADER_SIZE or dice.random() < 0.1:
        return data
    batch = bytearray(data)
    if dice.random() < 0.8:
        batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
        batch[16] = 2
    if read_header(batch).size == len(batch):
        seal(batch)
    return bytes(batch)


def repacked(data: bytes, dice: Random) -> bytes:
    """Now and then the mutated bytes as a codec packs them: damage inside of compressed records."""
    batch = bytearray(data)
    if len(batch) > HEADER_SIZE and dice.random() < 0.3:
        codec = dice.choice(list(Codec))
        batch[HEADER_SIZE:] = compress(codec, bytes(batch[HEADER_SIZE:]))
        batch[22] = batch[22] & ~7 | codec
    return sealed(bytes(batch), dice)


@cache
def batch_seeds() -> list[bytes]:
    """Batches of every codec and shape that is known to be read in a way of its own."""
    dice = Random(2)
    some = [Record(n, 1_700_000_000_000 + n, b"k%d" % n, b"value %d" % n) for n in range(5)]
    odd = [
        Record(7, -1, None, b"", [("h", None), ("é", b"x" * 200)]),
        Record(9, 5, b"", None, [("", b"")]),
        Record(300, 1 << 40, b"k" * 300, dice.randbytes(500)),
    ]
    alike = [Record(n, n, b"%06d" % n, b"%09d" % n) for n in range(150)]
    gone = [Record(n, n, b"%06d" % n, None) for n in range(40)]
    shapes = (some, odd, alike, gone, some[:1])
    return [bytes(encode_batch(records, codec)) for codec in Codec for records in shapes]


@cache
def buffer_seeds() -> list[bytes]:
    """The same, and several batches one behind the other."""
    seeds = batch_seeds()
    return [*seeds, *(seed + other for seed, other in zip(seeds, reversed(seeds), strict=True))]


@cache
def packed_seeds() -> list[bytes]:
    """Bytes of each codec, its number before them."""
    data = [b"", b"short", b"x" * 100_000, Random(3).randbytes(2_000), b"some words, " * 50]
    return [bytes([codec]) + bytes(compress(codec, plain)) for codec in Codec for plain in data]


def _grant_of_columns(data: bytes) -> int:
    return 16 * PAGE_BYTES + grant_of_batch(data)


TARGETS = (
    Target("batches", run_batches, (BatchError,), buffer_seeds, mend=sealed),
    Target("batch", decode_records, (BatchError,), batch_seeds, batch_agrees, repacked, grant_of_batch),
    Target("values", decode_values, (BatchError,), batch_seeds, mend=repacked, grant=grant_of_batch),
    Target("pairs", decode_pairs, (BatchError,), batch_seeds, mend=repacked, grant=grant_of_batch),
    Target("scan", run_scan, (BatchError,), batch_seeds, mend=repacked, grant=grant_of_batch),
    Target("columns", run_columns, (BatchError,), buffer_seeds, columns_agree, repacked, _grant_of_columns),
    Target("decompress", run_decompress, (BatchError,), packed_seeds, grant=lambda data: _inflated(len(data))),
)
