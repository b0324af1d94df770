"""Bytes that are no message: an error or some message, soon and in little memory, and never another exception."""

import contextlib
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kohort.wire.api import APIS, read_request_header, read_response_header
from kohort.wire.codec import DecodeError, Message, decode, decoder, encode
from kohort.wire.codec.varint import read_varint
from kohort.wire.messages.fetch import FetchRequest, FetchResponse
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.offset_commit import OffsetCommitRequest
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kohort.wire.messages.produce import ProduceRequest
from tests.wire.messages import REQUESTS_AND_RESPONSES, any_bytes, fit, messages

few = settings(
    max_examples=4,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


def attempt(kind: type[Message], version: int, data: bytes) -> Message | None:
    try:
        return decode(kind, version, data)
    except DecodeError:
        return None


@pytest.mark.parametrize("kind", REQUESTS_AND_RESPONSES, ids=lambda kind: kind.__name__)
def test_a_message_that_is_cut_short_is_an_error(kind: type[Message]) -> None:
    @few
    @given(messages(kind, any_bytes))
    def refuses(message: Any) -> None:
        low, high = kind.VERSIONS
        for version in {low, max(low, kind.FLEXIBLE - 1) if high >= kind.FLEXIBLE else low, high}:
            data = encode(fit(message, version), version)
            # Every cut of a short message, some of a long one.
            for size in range(0, len(data), 1 + len(data) // 200):
                assert attempt(kind, version, data[:size]) is None

    refuses()


@pytest.mark.parametrize("kind", REQUESTS_AND_RESPONSES, ids=lambda kind: kind.__name__)
def test_a_message_with_a_wrong_byte_is_an_error_or_another_message(kind: type[Message]) -> None:
    @few
    @given(messages(kind, any_bytes), st.data())
    def survives(message: Any, data: st.DataObject) -> None:
        for version in kind.VERSIONS:
            good = encode(fit(message, version), version)
            for _ in range(10):
                place = data.draw(st.integers(0, max(0, len(good) - 1)))
                wrong = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
                attempt(kind, version, good[:place] + bytes([wrong]) + good[place + 1 :])

    survives()


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.sampled_from(sorted(APIS)), st.binary(max_size=80), st.binary(min_size=1, max_size=4))
def test_garbage_is_an_error_or_some_message(key: int, garbage: bytes, repeated: bytes) -> None:
    api = APIS[key]
    for version in range(api.min_version, api.max_version + 1):
        for data in (garbage, repeated * 30):
            attempt(api.request, version, data)
            attempt(api.response, version, data)


HUGE = [
    (MetadataRequest, 1, b"\x7f\xff\xff\xff"),
    (MetadataRequest, 12, b"\xff\xff\xff\xff\x07"),
    (JoinGroupRequest, 0, b"\0\1g\0\0\0\0\0\0\0\0\x7f\xff\xff\xff" + bytes(50)),
    (JoinGroupRequest, 6, b"\2g" + bytes(8) + b"\1\0\1" + b"\xfe\xff\xff\xff\x0f" + bytes(50)),
    (OffsetCommitRequest, 8, b"\2g\0\0\0\0\1\0\2\2t\xff\xff\xff\xff\x0f" + bytes(50)),
    (OffsetFetchRequest, 1, b"\0\1g\0\0\0\1\0\1t\x7f\xff\xff\xff" + bytes(50)),
    (FetchRequest, 4, bytes(17) + b"\x7f\xff\xff\xff" + bytes(50)),
    (ProduceRequest, 3, b"\xff\xff\0\1\0\0\0\0\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\x7f\xff\xff\xff" + bytes(50)),
    (FetchResponse, 12, bytes(10) + b"\1\xff\xff\xff\xff\x0f" + bytes(50)),
    (FetchResponse, 12, bytes(10) + b"\1\1\0\xff\xff\xff\xff\x0f" + bytes(50)),
]


@pytest.mark.parametrize(("kind", "version", "data"), HUGE, ids=lambda value: getattr(value, "__name__", ""))
def test_a_hostile_length_allocates_nothing(kind: type[Message], version: int, data: bytes) -> None:
    attempt(kind, version, data)  # compile first
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            decode(kind, version, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_a_negative_length_is_null_or_an_error_and_never_a_step_back() -> None:
    for length in (b"\xff\xff", b"\x80\x00", b"\xff\xfe"):
        with pytest.raises(DecodeError):
            decode(OffsetFetchRequest, 1, length + bytes(20))
    with pytest.raises(DecodeError):
        decode(OffsetFetchRequest, 1, b"\0\1g\xff\xff\xff\xff")
    assert decode(OffsetFetchRequest, 2, b"\0\1g\xff\xff\xff\xff").topics is None


def test_a_tagged_field_must_have_its_declared_length() -> None:
    # FetchRequest v12 with cluster_id, tag 0.
    body = encode(FetchRequest(cluster_id="c"), 12)
    assert body.endswith(b"\1\0\2\2c")
    for tail in (b"\1\0\1\2c", b"\1\0\3\2c", b"\1\0\xff\xff\xff\xff\x0f\2c", b"\1\0\2\x7fc"):
        with pytest.raises(DecodeError):
            decode(FetchRequest, 12, body[:-5] + tail)


def test_a_varint_is_at_most_five_bytes() -> None:
    assert read_varint(b"\xff\xff\xff\xff\x0f", 0) == (2**32 - 1, 5)
    with pytest.raises(DecodeError):
        read_varint(b"\xff\xff\xff\xff\xff\x0f", 0)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.binary(max_size=40), st.sampled_from(sorted(APIS)), st.integers(0, 13))
def test_headers_of_garbage_are_an_error_or_a_header(data: bytes, key: int, version: int) -> None:
    for position in range(min(3, len(data))):
        with contextlib.suppress(DecodeError):
            assert position < read_request_header(data, position).body <= len(data)
        with contextlib.suppress(DecodeError):
            assert position < read_response_header(data, key, version, position)[1] <= len(data)


def test_a_message_of_more_elements_than_are_allowed_is_refused_before_they_cost_anything() -> None:
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[1, 2, 3]) for _ in range(10)]
    for version in (2, 6):
        data = encode(OffsetFetchRequest(group_id="g", topics=topics), version)
        read = decoder(OffsetFetchRequest, version)
        assert read(data, 0, 40)[0].topics == topics  # ten topics with three numbers each
        with pytest.raises(DecodeError, match="has too many elements"):
            read(data, 0, 39)
    many = encode(OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic() for _ in range(300_000)]), 6)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            decoder(OffsetFetchRequest, 6)(many, 0, 200_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000
