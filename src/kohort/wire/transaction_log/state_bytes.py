"""Encode and decode keys and values of `__transaction_state`.

A key begins with its record type, and a value with its version (int16). The schemas are in
`kohort.wire.messages.transaction_records`.
"""

from struct import Struct as Packer

from kohort.wire.codec import DecodeError, decoder, encode
from kohort.wire.messages.transaction_records import TransactionLogKey, TransactionLogValue

_INT16 = Packer(">h")
_LOWEST, _HIGHEST = TransactionLogValue.VERSIONS


def encode_key(key: TransactionLogKey) -> bytes:
    """Encode a record's key."""
    return _INT16.pack(0) + encode(key, 0)


def encode_value(value: TransactionLogValue, version: int) -> bytes:
    """Encode a record's value. Version 1 is for clusters with transaction.version 1 or higher."""
    return _INT16.pack(version) + encode(value, version)


def decode_key(data: bytes) -> TransactionLogKey | None:
    """Decode a record's key; return None for an unknown type. Raises DecodeError."""
    return decoder(TransactionLogKey, 0)(data, 2)[0] if _prefix(data) == 0 else None


def decode_value(data: bytes) -> TransactionLogValue:
    """Decode a record's value. Raises DecodeError, also for an unknown version."""
    version = _prefix(data)
    if not _LOWEST <= version <= _HIGHEST:
        raise DecodeError(f"a record of __transaction_state has version {version}, and only 0 and 1 are known")
    return decoder(TransactionLogValue, version)(data, 2)[0]


def _prefix(data: bytes) -> int:
    if len(data) < 2:
        raise DecodeError("a record of __transaction_state lacks its type or version")
    prefix: int = _INT16.unpack_from(data)[0]
    return prefix
