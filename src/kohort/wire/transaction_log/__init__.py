"""Records of `__transaction_state`: their keys and values as bytes.

The schemas of keys and values are messages, in `kohort.wire.messages.transaction_records`.
"""

from kohort.wire.transaction_log.state_bytes import decode_key, decode_value, encode_key, encode_value

__all__ = ["decode_key", "decode_value", "encode_key", "encode_value"]
