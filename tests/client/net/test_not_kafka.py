"""The first bytes of a peer that is not a broker."""

from __future__ import annotations

import pytest

from kohort import ErrorCode, KafkaError
from kohort.client.net.not_kafka import NotKafkaError, copied_error, other_protocol_error


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (b"\x15\x03\x01\x00\x02", "expects TLS"),
        (b"\x16\x03\x03", "expects TLS"),
        (b"HTTP/1.1 400", "is a web server"),
        (b"HTTP/", "is a web server"),
    ],
)
def test_another_protocol_is_named(first: bytes, told: str) -> None:
    error = other_protocol_error("b:9092", first)
    assert error is not None and error.sentence.startswith("b:9092 ") and told in error.sentence
    assert not error.retriable


@pytest.mark.parametrize(
    "first", [b"", b"\x15\x03", b"\x17\x03\x03", b"\x14\x03\x03", b"\x15\x02\x00", b"HTTP", b"\0\0\0\x10"]
)
def test_other_bytes_may_be_an_answer(first: bytes) -> None:
    assert other_protocol_error("b:9092", first) is None


def test_a_copied_error_says_the_same_and_is_as_retriable() -> None:
    for error in (NotKafkaError("no broker"), KafkaError(ErrorCode.NETWORK_EXCEPTION, "cut")):
        copied = copied_error(error)
        assert copied is not error and type(copied) is type(error)
        assert (copied.code, copied.sentence, copied.retriable) == (error.code, error.sentence, error.retriable)
