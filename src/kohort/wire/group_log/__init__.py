"""Records of `__consumer_offsets`: their keys and values as bytes, and records of batches.

The schemas of keys and values are messages, in `kohort.wire.messages.group_records`.
"""

from kohort.wire.group_log.decoding import decode_group_records
from kohort.wire.group_log.group_bytes import decode_key, decode_value, encode_key, encode_records, encode_value
from kohort.wire.group_log.packing import pack_records
from kohort.wire.group_log.records import CommittedOffset, GroupRecord, Record, committed_offsets, group_record

__all__ = [
    "CommittedOffset",
    "GroupRecord",
    "Record",
    "committed_offsets",
    "decode_group_records",
    "decode_key",
    "decode_value",
    "encode_key",
    "encode_records",
    "encode_value",
    "group_record",
    "pack_records",
]
