"""Public names of record batches v2: headers (`batch`), reading (`record_reader`) and writing (`record_writer`)."""

from kohort.wire.batches.batch import (
    HEADER_SIZE,
    BatchHeader,
    batches,
    check_batches,
    crc_matches,
    place,
    read_header,
    stamp,
)
from kohort.wire.batches.compression import MAX_INFLATED_BYTES, BatchError, Buffer, Codec
from kohort.wire.batches.record_reader import Header, Record, decode_records
from kohort.wire.batches.record_writer import (
    BatchBuilder,
    encode_batch,
    encode_pairs,
    pack_batch,
    pack_headers,
    recompress,
)

__all__ = [
    "HEADER_SIZE",
    "MAX_INFLATED_BYTES",
    "BatchBuilder",
    "BatchError",
    "BatchHeader",
    "Buffer",
    "Codec",
    "Header",
    "Record",
    "batches",
    "check_batches",
    "crc_matches",
    "decode_records",
    "encode_batch",
    "encode_pairs",
    "pack_batch",
    "pack_headers",
    "place",
    "read_header",
    "recompress",
    "stamp",
]
