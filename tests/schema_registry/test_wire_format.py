"""The bytes that name a schema."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.schema_registry import SchemaMismatchError
from kohort.schema_registry.wire_format import SchemaName, decode_indexes, encode_indexes, encode_name, split

GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def test_an_id_is_a_magic_byte_and_four_bytes() -> None:
    assert encode_name(SchemaName(258)) == b"\0\0\0\1\2"
    assert split("value", [], b"\0\0\0\1\2data", indexed=False) == (SchemaName(258), 5)
    assert split("value", [], b"\0\0\0\1\2", indexed=False) == (SchemaName(258), 5)


def test_a_guid_is_a_magic_byte_and_sixteen_bytes() -> None:
    assert encode_name(SchemaName(GUID)) == b"\1" + GUID.bytes
    assert split("value", [], b"\1" + GUID.bytes + b"data", indexed=False) == (SchemaName(GUID), 17)


def test_a_header_counts_before_a_prefix_and_only_for_its_part() -> None:
    headers = [("__key_schema_id", b"\1" + GUID.bytes), ("other", b"x")]
    assert split("key", headers, b"\0\0\0\0\7", indexed=False) == (SchemaName(GUID), 0)
    assert split("value", headers, b"\0\0\0\0\7", indexed=False) == (SchemaName(7), 5)


@pytest.mark.parametrize(
    ("indexes", "encoded"),
    [((0,), b"\0"), ((1,), b"\2\2"), ((1, 0), b"\4\2\0"), ((64,), b"\2\x80\1"), ((0, 300), b"\4\0\xd8\4")],
)
def test_indexes_are_zigzag_varints(indexes: tuple[int, ...], encoded: bytes) -> None:
    assert encode_indexes(indexes) == encoded
    assert decode_indexes(encoded, 0, "value") == (indexes, len(encoded))


@given(st.lists(st.integers(0, 2**20), min_size=1, max_size=20).map(tuple), st.integers(0, 2**32 - 1))
def test_names_come_back(indexes: tuple[int, ...], number: int) -> None:
    name = SchemaName(number, indexes)
    data = encode_name(name)
    assert split("value", [], data + b"rest", indexed=True) == (name, len(data))


@given(st.binary(max_size=30))
def test_any_bytes_are_a_name_or_a_sentence(data: bytes) -> None:
    for indexed in (False, True):
        try:
            _, start = split("value", [], data, indexed=indexed)
        except SchemaMismatchError as problem:
            assert str(problem).startswith("the ") and str(problem).endswith(".")
        else:
            assert 5 <= start <= len(data)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "the value is empty, so it names no schema"),
        (b"{}", "begins with byte 0x7b instead of magic byte 0 or 1"),
        (b"\0\0\0", "has 3 bytes, but the name of a schema takes 5"),
        (b"\1\0\0", "has 3 bytes, but the name of a schema takes 17"),
        (b"\0\0\0\0\1", "message indexes in the value are incomplete"),
        (b"\0\0\0\0\1\1", "message indexes in the value are incomplete or invalid"),  # -1
        (b"\0\0\0\0\1\xd0\x0f", "has 1000 message indexes"),
    ],
)
def test_bytes_without_a_schema_are_a_sentence(data: bytes, text: str) -> None:
    with pytest.raises(SchemaMismatchError, match=text):
        split("value", [], data, indexed=True)
