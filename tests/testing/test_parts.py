"""Error answers of every request in every version that the broker serves."""

from typing import Any

import pytest

from kohort.broker.apis import SERVED
from kohort.errors import ErrorCode
from kohort.testing.parts import (
    names_all,
    parts,
    shape_of,
    whole_error,
    with_errors,
    without,
)
from kohort.wire.api import APIS
from kohort.wire.codec import Struct, decode, encode
from kohort.wire.messages.api_key import ApiKey
from tests.testing.samples import sample_request

SERVED_VERSIONS = [
    pytest.param(key, version, id=f"{ApiKey(key).name}-{version}")
    for key, low, high in SERVED
    for version in range(low, high + 1)
]
CODE = ErrorCode.COORDINATOR_NOT_AVAILABLE
WITHOUT_ERRORS = {ApiKey.LIST_PARTITION_REASSIGNMENTS}


def codes(value: Any) -> list[int]:
    """All error codes of a message, at any level."""
    found: list[int] = []
    if isinstance(value, Struct):
        for field in value.FIELDS:
            each = getattr(value, field.name)
            found += [each] if field.name == "error_code" else codes(each)
    elif isinstance(value, list):
        for each in value:
            found += codes(each)
    return found


@pytest.mark.parametrize(("key", "version"), SERVED_VERSIONS)
def test_every_request_can_fail(key: int, version: int) -> None:
    api = APIS[key]
    request = sample_request(api.request, version)
    shape = shape_of(request, version)
    assert shape.whole or shape.depths
    if shape.whole:
        answer = decode(api.response, version, encode(whole_error(request, version, CODE), version))
        assert codes(answer)[-1:] == [CODE] or codes(answer)[0] == CODE


@pytest.mark.parametrize(("key", "version"), SERVED_VERSIONS)
def test_every_part_of_a_request_can_fail(key: int, version: int) -> None:
    api = APIS[key]
    request = sample_request(api.request, version)
    shape = shape_of(request, version)
    for depth in shape.depths:
        if names_all(shape, depth, request):
            assert key == ApiKey.DESCRIBE_LOG_DIRS
            continue
        places = [path for path, _ in parts(shape, depth, request)]
        assert len(places) == (4 if key == ApiKey.ALTER_USER_SCRAM_CREDENTIALS else 2**depth)
        answer = with_errors(shape, depth, request, None, version, lambda path: CODE)
        wire = decode(api.response, version, encode(answer, version))
        found = [code for code in codes(wire) if code]
        assert found == [CODE] * (2 if key == ApiKey.ALTER_USER_SCRAM_CREDENTIALS else len(places))
        assert without(shape, depth, request, lambda path: True) is None
        assert without(shape, depth, request, lambda path: False) == request
