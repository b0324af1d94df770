"""Lines of input as records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort import ConfigError
from kohort.cli.record_json import NewRecord, UnreadableLine
from kohort.cli.record_lines import LineFormat, LineSplitter, read_header, read_separator


@given(
    st.lists(st.text("ab\n").map(str.encode), max_size=8),
    st.sampled_from([b"\n", b"a", b"ab", b"aa", b"aba"]),
)
def test_chunks_are_divided_as_the_whole(chunks: list[bytes], delimiter: bytes) -> None:
    splitter = LineSplitter(delimiter)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.finish()
    whole = b"".join(chunks).split(delimiter)
    assert lines == (whole if whole[-1] else whole[:-1])


def test_lines_end_as_on_unix_and_on_windows() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"a\r") == []
    assert splitter.feed(b"\nb\nc\rd\n\ne") == [b"a", b"b", b"c\rd", b""]
    assert splitter.finish() == [b"e"]
    assert splitter.finish() == []


@pytest.mark.parametrize(
    ("text", "means"),
    [
        (":", b":"),
        (r"\t", b"\t"),
        (r"a\nb", b"a\nb"),
        (r"\x1f\x0", b"\x1f\0"),
        (r"\\t", rb"\t"),
        (r"\q", rb"\q"),
        ("€", b"\xe2\x82\xac"),
    ],
)
def test_separators_have_escapes(text: str, means: bytes) -> None:
    assert read_separator("-K", text) == means


def test_an_empty_separator_is_an_error() -> None:
    with pytest.raises(ConfigError, match="-K takes at least one character"):
        read_separator("-K", "")


def test_a_header_without_a_value_is_null() -> None:
    assert [read_header(text) for text in ("a=1", "a=", "a", "a=b=c")] == [
        ("a", b"1"), ("a", b""), ("a", None), ("a", b"b=c"),
    ]  # fmt: skip


H = (("h", b"1"),)


@pytest.mark.parametrize(
    ("line_format", "line", "record"),
    [
        (LineFormat(), b"a:1", NewRecord(b"a:1")),
        (LineFormat(separator=b":"), b"a:b:1", NewRecord(b"b:1", b"a")),
        (LineFormat(separator=b":"), b":1", NewRecord(b"1", b"")),
        (LineFormat(separator=b":", empty_as_null=True), b":", NewRecord(None, None)),
        (LineFormat(empty_as_null=True), b"", NewRecord(None)),
        (LineFormat(separator=b":", null_marker=b"NULL"), b"a:NULL", NewRecord(None, b"a")),
        (LineFormat(key=b"k", headers=H, timestamp=5, partition=2), b"v", NewRecord(b"v", b"k", H, 5, 2)),
        (LineFormat(key=b"k", separator=b":"), b"v", NewRecord(b"v", b"k")),
        (LineFormat(key=b"k", separator=b":"), b"a:v", NewRecord(b"v", b"a")),
        (LineFormat(as_json=True, partition=-1), b'{"value":"v","partition":3}', NewRecord(b"v")),
        (
            LineFormat(as_json=True, headers=H, timestamp=5),
            b'{"value":"v","timestamp":3,"headers":{"a":"b"}}',
            NewRecord(b"v", None, (("a", b"b"), *H), 3),
        ),
    ],
)
def test_a_line_becomes_a_record(line_format: LineFormat, line: bytes, record: NewRecord) -> None:
    assert line_format.record(line) == record


def test_a_line_without_the_separator_is_named() -> None:
    with pytest.raises(UnreadableLine, match="has no '=' between key and value"):
        LineFormat(separator=b"=").record(b"a:1")
