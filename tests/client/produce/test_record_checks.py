"""Records that `send` accepts, and their size in a batch."""

from __future__ import annotations

from typing import Any

import pytest

from kohort import ErrorCode, KafkaError
from kohort.client import InvalidRecordError
from kohort.client.produce.record_checks import check_partition, check_timestamp, record_size
from kohort.errors import ConfigError

EMPTY = record_size(None, None, ())
LATEST = (1 << 63) - 1
WIDE = memoryview(b"12345678").cast("q")


@pytest.mark.parametrize(
    ("key", "value", "headers", "more"),
    [
        (None, b"abc", (), 3),
        (b"kk", None, [], 2),
        (b"kk", b"abc", (), 5),
        (bytearray(b"kk"), memoryview(b"abc"), (), 5),
        (None, None, [("h", b"12")], 13),
        (None, None, (("h", None), ["über", b""]), 11 + 15),
        (None, b"abc", [("h", bytearray(b"12"))], 16),
    ],
)
def test_the_size_of_a_record_includes_key_value_and_headers(key: Any, value: Any, headers: Any, more: int) -> None:
    assert record_size(key, value, headers) - EMPTY == more


def test_the_size_of_an_empty_record_exceeds_its_overhead() -> None:
    assert EMPTY == 24


@pytest.mark.parametrize(
    ("key", "value", "headers", "sentence"),
    [
        (None, "text", (), "the value of a record is a str, but must be bytes: encode it first"),
        (None, WIDE, (), "the value of a record is a memoryview"),
        ("k", b"", (), "the key of a record is a str"),
        (None, b"", {"h": b""}, "headers are a dict"),
        (None, b"", ["hb"], "'hb' is not a header"),
        (None, b"", [("h",)], r"\('h',\) is not a header"),
        (None, b"", [("h", b"", b"")], "is not a header"),
        (None, b"", [(b"h", b"")], "is not a header"),
        (None, b"", [("h", "text")], "the header 'h' of a record is a str"),
        (None, b"", [("\ud800", b"")], "cannot be encoded: surrogates not allowed"),
    ],
)
def test_values_other_than_bytes_are_rejected(key: Any, value: Any, headers: Any, sentence: str) -> None:
    with pytest.raises(InvalidRecordError, match=sentence):
        record_size(key, value, headers)


@pytest.mark.parametrize("timestamp", [0, 1, LATEST])
def test_a_timestamp_may_be_any_that_a_record_can_hold(timestamp: int) -> None:
    assert check_timestamp(timestamp) == timestamp


@pytest.mark.parametrize("timestamp", [-1, LATEST + 1, 1.5, "1"])
def test_other_timestamps_are_refused(timestamp: Any) -> None:
    with pytest.raises(ConfigError, match="timestamp is"):
        check_timestamp(timestamp)


@pytest.mark.parametrize("partition", [0, 2])
def test_a_partition_is_one_that_the_topic_has(partition: int) -> None:
    assert check_partition("t", partition, 3) == partition


@pytest.mark.parametrize("partition", [-1, 3])
def test_a_partition_that_the_topic_does_not_have_is_refused(partition: int) -> None:
    with pytest.raises(KafkaError, match=f"t has partitions 0 to 2, not {partition}") as raised:
        check_partition("t", partition, 3)
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_while_the_topic_is_not_known_any_number_from_0_may_be_a_partition() -> None:
    assert check_partition("t", 77, None) == 77
    with pytest.raises(ConfigError, match="partition is -1"):
        check_partition("t", -1, None)


@pytest.mark.parametrize("count", [3, None])
def test_a_partition_must_be_a_number(count: int | None) -> None:
    with pytest.raises(ConfigError, match=r"partition is 0\.5"):
        check_partition("t", 0.5, count)
