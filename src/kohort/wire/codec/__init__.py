"""Encode and decode messages: the interface of the codec for the rest of Kohort.

    @message(key=12, versions=(0, 4), flexible=4)
    class HeartbeatRequest(Message): ...

    encode(HeartbeatRequest(group_id="g"), 4)
    decode(HeartbeatRequest, 4, body).group_id

A function for each (message, version) is compiled on first use.
"""

from kohort.wire.codec.coding import decode, decoder, encode, encoder
from kohort.wire.codec.decoding import Decoder
from kohort.wire.codec.schema import (
    NOT_ASKED,
    ArrayOf,
    Bool,
    Buffer,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Nested,
    NullableBytes,
    NullableString,
    RecordParts,
    Records,
    SecretBytes,
    String,
    Struct,
    UInt16,
    Uuid,
    array,
    message,
    since,
    struct,
)
from kohort.wire.codec.varint import DecodeError, EncodeError, read_varint, skip_tags

__all__ = [
    "NOT_ASKED",
    "ArrayOf",
    "Bool",
    "Buffer",
    "Bytes",
    "DecodeError",
    "Decoder",
    "EncodeError",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Message",
    "Nested",
    "NullableBytes",
    "NullableString",
    "RecordParts",
    "Records",
    "SecretBytes",
    "String",
    "Struct",
    "UInt16",
    "Uuid",
    "array",
    "decode",
    "decoder",
    "encode",
    "encoder",
    "message",
    "read_varint",
    "since",
    "skip_tags",
    "struct",
]
