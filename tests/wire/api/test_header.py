"""Headers: which version each request uses, against kio's, and against bytes by hand."""

import io

import pytest
from kio.schema.request_header.v1.header import RequestHeader as RequestHeader1
from kio.schema.request_header.v2.header import RequestHeader as RequestHeader2
from kio.schema.response_header.v1.header import ResponseHeader as ResponseHeader1
from kio.serial import entity_writer

from kohort.wire.api.header import (
    flexible_header,
    flexible_response,
    read_request_header,
    read_response_header,
    request_header,
    response_header,
)
from kohort.wire.api.table import APIS, Api
from kohort.wire.codec import DecodeError
from tests.wire.kio_oracle import kio_class


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_each_version_has_the_header_that_kio_knows(api: Api) -> None:
    for version in range(api.min_version, api.max_version + 1):
        request, response = kio_class(api.request, version), kio_class(api.response, version)
        assert flexible_header(api.key, version) == (request.__header_schema__ is RequestHeader2)
        assert flexible_response(api.key, version) == (response.__header_schema__ is ResponseHeader1)


@pytest.mark.parametrize("client_id", [None, "", "sarama", "ü" * 200])
@pytest.mark.parametrize(("version", "kind"), [(3, RequestHeader1), (4, RequestHeader2)])
def test_a_request_header_is_what_kio_writes(client_id: str | None, version: int, kind: type) -> None:
    heartbeat = 12
    buffer = io.BytesIO()
    entity_writer(kind)(
        buffer,
        kind(request_api_key=heartbeat, request_api_version=version, correlation_id=7, client_id=client_id),
    )
    data = request_header(heartbeat, version, 7, client_id)
    assert data == buffer.getvalue()
    assert read_request_header(b"...." + data + b"body", 4) == (heartbeat, version, 7, client_id, 4 + len(data))


def test_a_response_header_has_tags_where_the_request_had_them() -> None:
    assert response_header(12, 3, 7) == b"\0\0\0\7"
    assert response_header(12, 4, 7) == b"\0\0\0\7\0"
    assert read_response_header(b"\0\0\0\7\1\5\2ab!", 12, 4) == (7, 9)


def test_the_answer_to_api_versions_never_has_tags() -> None:
    # KIP-511: it must be readable by a client whose version the broker does not know.
    for version in range(6):
        assert response_header(18, version, 7) == b"\0\0\0\7"


def test_unknown_tags_in_a_request_header_are_skipped() -> None:
    data = request_header(12, 4, 7, "c")
    tagged = data[:-1] + b"\1\x63\4tag!"
    assert read_request_header(tagged + b"body").body == len(tagged)


def test_the_header_of_an_unsupported_request_can_be_read() -> None:
    # So that the broker can answer ApiVersions in its own version, and log what it refuses.
    unknown_api = bytes.fromhex("03e7 0001 00000007 0001 63".replace(" ", "")) + b"body"
    assert read_request_header(unknown_api)[:4] == (999, 1, 7, "c")
    newer_api_versions = request_header(18, 99, 7, "c") + b"body"
    assert read_request_header(newer_api_versions)[:4] == (18, 99, 7, "c")


@pytest.mark.parametrize("size", range(10))
def test_a_header_that_is_cut_short_is_an_error(size: int) -> None:
    with pytest.raises(DecodeError):
        read_request_header(request_header(12, 4, 7, "c")[:size])
    with pytest.raises(DecodeError):
        read_response_header(response_header(12, 4, 7)[: min(size, 4)], 12, 4)
