"""Records of `__consumer_offsets`: their keys and values as bytes, and batches of them.

The schemas of keys and values are messages, in `kohort.wire.messages.group_records`.
"""

from kohort.wire.group_log.decoding import decode_group_records
from kohort.wire.group_log.group_bytes import decode_key, decode_value, encode_key, encode_records, encode_value

__all__ = ["decode_group_records", "decode_key", "decode_value", "encode_key", "encode_records", "encode_value"]
