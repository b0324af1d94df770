"""What `kohort consume --json` prints, `kohort produce --json` reads back to the byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort import ConsumerRecord
from kohort.cli.record_json import NewRecord, UnreadableLine, from_json, to_json

CONTENT = st.none() | st.binary(max_size=40) | st.text(max_size=40).map(str.encode)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
RECORDS = st.builds(
    ConsumerRecord,
    topic=st.just("orders"),
    partition=st.integers(0, 3),
    offset=st.integers(0, 2**63 - 1),
    timestamp=st.integers(0, 2**62),
    key=CONTENT,
    value=CONTENT,
    headers=st.lists(st.tuples(NAMES, CONTENT), max_size=4),
)


@given(RECORDS)
def test_a_record_survives_json(record: ConsumerRecord) -> None:
    line = json.dumps(to_json(record), ensure_ascii=False).encode()
    assert b"\n" not in line
    read = from_json(line)
    assert read == NewRecord(record.value, record.key, list(record.headers), record.timestamp, record.partition)


def test_text_is_readable_and_other_bytes_are_base64() -> None:
    told = to_json(ConsumerRecord("orders", 0, 7, 5, b"caf\xc3\xa9", b"\xff\x00", [("a", b"1"), ("a", None)]))
    assert told == {
        "topic": "orders", "partition": 0, "offset": 7, "timestamp": 5,
        "key": "café", "value": {"base64": "/wA="}, "headers": [["a", "1"], ["a", None]],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ('{"value": "1"}', NewRecord(b"1", headers=[])),
        ('{"value": null, "key": "a"}', NewRecord(None, b"a", [])),
        ('{"value": "1", "headers": {"a": "x", "b": null}}', NewRecord(b"1", None, [("a", b"x"), ("b", None)])),
        (
            '{"topic":"t","partition":0,"offset":3,"tstype":"create","ts":17,"broker":1,'
            '"headers":["a","x","a","y"],"key":"k","payload":"p"}',
            NewRecord(b"p", b"k", [("a", b"x"), ("a", b"y")], 17, 0),
        ),
        ('{"value": "1", "timestamp": -1}', NewRecord(b"1", headers=[])),
    ],
    ids=["a value alone", "a tombstone", "an object of headers", "kcat's", "no timestamp"],
)
def test_other_lines_are_read(line: str, read: NewRecord) -> None:
    assert from_json(line.encode()) == read


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("hello", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("\xff", "is not JSON"),
        ("7", "is not a JSON object"),
        ('{"key": "a"}', 'has no "value"; that of a tombstone is null'),
        ('{"vaule": "a"}', "has the field 'vaule', but records have key, value, headers"),
        ('{"value": 7}', 'has a "value" that is neither text, null nor {"base64": ...}'),
        ('{"value": {"base64": "?"}}', 'has a "value" that cannot be read'),
        ('{"value": {"base64": 7}}', 'has a "value" that cannot be read'),
        ('{"value": "\\ud800"}', 'has a "value" that cannot be read'),
        ('{"value": "1", "timestamp": -2}', 'has a "timestamp" that is not a number of at least -1'),
        ('{"value": "1", "timestamp": true}', 'has a "timestamp" that is not a number'),
        ('{"value": "1", "partition": "0"}', 'has a "partition" that is not a number of at least 0'),
        ('{"value": "1", "headers": ["a"]}', 'has "headers" that are not a list of [name, value] pairs'),
        ('{"value": "1", "headers": "a"}', 'has "headers" that are not a list of [name, value] pairs'),
        ('{"value": "1", "headers": [["\\ud800", "a"]]}', 'has a "header" that cannot be read'),
    ],
)
def test_a_line_that_is_no_record_is_named(line: str, says: str) -> None:
    with pytest.raises(UnreadableLine) as problem:
        from_json(line.encode("latin-1"))
    assert says in str(problem.value)
