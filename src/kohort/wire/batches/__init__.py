"""Record batches v2: their headers, and their records one by one, as pairs, or packed in columns.

A log uses `read_header`, `crc_matches` and `place`. A broker checks (`check_batches`) and changes
(`stamp`, `recompress`) what it receives. Clients build batches (`BatchBuilder`) and read them
(`decode_records`); `encode_pairs` encodes keys and values alone. Bad bytes raise BatchError. Brokers
scan their own log with the room `scanning`, which clients do not load.
"""

from kohort.wire.batches.batch import (
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    batches,
    check_batches,
    crc_matches,
    is_transactional,
    place,
    read_header,
    stamp,
)
from kohort.wire.batches.compression import BatchError, Buffer, Codec, InflatesTooLarge, decompress
from kohort.wire.batches.markers import Marker, encode_marker, read_marker
from kohort.wire.batches.record_reader import (
    MOST_OFFSET_DELTA,
    MOST_TIME,
    Header,
    Record,
    decode_records,
    decode_values,
)
from kohort.wire.batches.record_writer import (
    BatchBuilder,
    encode_batch,
    encode_pairs,
    pack_batch,
    pack_headers,
    pack_record,
    recompress,
    signed_varint,
    signed_varints,
)

__all__ = [
    "HEADER_SIZE",
    "MAGIC",
    "MOST_OFFSET_DELTA",
    "MOST_TIME",
    "BatchBuilder",
    "BatchError",
    "BatchHeader",
    "Buffer",
    "Codec",
    "Header",
    "InflatesTooLarge",
    "Marker",
    "Record",
    "batches",
    "check_batches",
    "crc_matches",
    "decode_records",
    "decode_values",
    "decompress",
    "encode_batch",
    "encode_marker",
    "encode_pairs",
    "is_transactional",
    "pack_batch",
    "pack_headers",
    "pack_record",
    "place",
    "read_header",
    "read_marker",
    "recompress",
    "signed_varint",
    "signed_varints",
    "stamp",
]
