"""Encode and decode messages. A function for each (message, version) is compiled on first use."""

from collections.abc import Callable
from typing import Any, TypeVar

from kohort.wire.codec.decoding import Decoder, compile_decoder
from kohort.wire.codec.encoding import Encoder, compile_encoder
from kohort.wire.codec.schema import Buffer, Message
from kohort.wire.codec.varint import DecodeError, EncodeError

_M = TypeVar("_M", bound=Message)


_encoders: dict[tuple[type[Message], int], Encoder] = {}
_decoders: dict[tuple[type[Message], int], Decoder[Any]] = {}


def _check(kind: type[Message], version: int, error: type[Exception]) -> None:
    low, high = kind.VERSIONS
    if not low <= version <= high:
        raise error(f"{kind.__name__} has versions {low} to {high}, not {version}")


def encoder(kind: type[_M], version: int) -> Callable[[_M, list[Buffer]], None]:
    """Return the function that appends a message's buffers to a list.

    Raises EncodeError if the version is out of range; the function raises it for invalid messages.
    """
    known = _encoders.get((kind, version))
    if known is None:
        _check(kind, version, EncodeError)
        known = _encoders[kind, version] = compile_encoder(kind, version)
    return known


def decoder(kind: type[_M], version: int) -> Decoder[_M]:
    """Return the function that decodes a message at a position, and returns it with the position after it.

    The message may end anywhere before the end of the bytes. Record batches are views into the
    bytes, and writable if the bytes are; everything else is copied. Raises DecodeError if the
    version is out of range; the function raises it for malformed bytes.
    """
    known = _decoders.get((kind, version))
    if known is None:
        _check(kind, version, DecodeError)
        known = _decoders[kind, version] = compile_decoder(kind, version)
    return known


def encode(message: Message, version: int) -> bytes:
    """Encode a message. Raises EncodeError if the version cannot represent it."""
    parts: list[Buffer] = []
    encoder(type(message), version)(message, parts)
    return b"".join(parts)


def decode(kind: type[_M], version: int, buffer: Buffer) -> _M:
    """Decode the message at the start of the bytes. Trailing bytes are ignored, as in Kafka. Raises DecodeError."""
    return decoder(kind, version)(bytes(buffer) if isinstance(buffer, memoryview) else buffer, 0)[0]
