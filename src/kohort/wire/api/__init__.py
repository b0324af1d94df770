"""Requests that Kohort can encode and decode, and the headers of requests and responses.

`APIS` has every request type with its response and versions; a broker or a client selects from it. To
use it loads all messages. A program that sends a few requests imports only those, from
`kohort.wire.messages`.
"""

from kohort.wire.api.header import (
    API_VERSIONS,
    RequestHeader,
    flexible_header,
    flexible_response,
    read_request_header,
    read_response_header,
    request_header,
    response_header,
)
from kohort.wire.api.table import APIS

__all__ = [
    "APIS",
    "API_VERSIONS",
    "RequestHeader",
    "flexible_header",
    "flexible_response",
    "read_request_header",
    "read_response_header",
    "request_header",
    "response_header",
]
