"""Headers of requests and responses. They are coded by hand, because every message has one.

A frame is an int32 size followed by that many bytes. These functions receive the bytes after the
size.
"""

from struct import Struct, error
from typing import NamedTuple

from kohort.wire.api.table import APIS
from kohort.wire.codec import DecodeError, skip_tags
from kohort.wire.messages.api_key import ApiKey

API_VERSIONS = int(ApiKey.API_VERSIONS)

_FIXED = Struct(">hhih")
_CORRELATION = Struct(">i")


class RequestHeader(NamedTuple):
    """Header of a request, and the position of its body."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: int


def flexible_header(api_key: int, api_version: int) -> bool:
    """Return whether the request's header has tagged fields (header version 2, else 1).

    It has none if the API is unknown.
    """
    api = APIS.get(api_key)
    return api is not None and api_version >= api.first_flexible


def read_request_header(data: bytes | bytearray, position: int = 0) -> RequestHeader:
    """Parse the header of a request, as far as possible if the API or version is not supported.

    The correlation ID of an unsupported request is still valid, so it can be answered; its `body`
    is meaningless. Raises DecodeError.
    """
    try:
        api_key, api_version, correlation_id, length = _FIXED.unpack_from(data, position)
        position += 10
        client_id = None
        if length >= 0:
            end = position + length
            client_id = data[position:end].decode("utf-8", "surrogateescape")
            position = end
        # The client ID still has an int16 length in header version 2 (KIP-482).
        if flexible_header(api_key, api_version):
            position = position + 1 if not data[position] else skip_tags(data, position)
    except (error, IndexError) as cause:
        raise DecodeError(f"a request header is malformed: {cause}") from cause
    if position > len(data):
        raise DecodeError("a request header is cut short")
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Encode a request header."""
    raw = b"" if client_id is None else client_id.encode("utf-8", "surrogateescape")
    length = -1 if client_id is None else len(raw)
    tags = b"\0" if flexible_header(api_key, api_version) else b""
    return _FIXED.pack(api_key, api_version, correlation_id, length) + raw + tags


def response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """Encode a response header."""
    if flexible_response(api_key, api_version):
        return _CORRELATION.pack(correlation_id) + b"\0"
    return _CORRELATION.pack(correlation_id)


def flexible_response(api_key: int, api_version: int) -> bool:
    """Return whether the response's header has tagged fields (header version 1, else 0)."""
    # KIP-511: a client that sent a version unknown to the broker must be able to read the response.
    return api_key != API_VERSIONS and flexible_header(api_key, api_version)


def read_response_header(data: bytes | bytearray, api_key: int, api_version: int, position: int = 0) -> tuple[int, int]:
    """Return the correlation ID of a response, and the position of its body. Raises DecodeError."""
    try:
        (correlation_id,) = _CORRELATION.unpack_from(data, position)
        position += 4
        if flexible_response(api_key, api_version):
            position = skip_tags(data, position)
    except (error, IndexError) as cause:
        raise DecodeError(f"a response header is malformed: {cause}") from cause
    if position > len(data):
        raise DecodeError("a response header is cut short")
    return correlation_id, position
