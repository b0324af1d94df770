"""Records of `__consumer_offsets` by the million are those that are decoded one by one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.model import NO_TOPIC_ID, UUID
from kohort.wire.batches.scanning.record_pairs import Pair
from kohort.wire.codec import DecodeError, Message
from kohort.wire.group_log.decoding import decode_group_records
from kohort.wire.group_log.group_bytes import decode_key, decode_value, encode_key, encode_value
from kohort.wire.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

names = st.sampled_from(["", "g", "größe", "a-longer-name"])
keys = st.builds(OffsetCommitKey, group=names, topic=names, partition=st.integers(-(2**31), 2**31 - 1))
values = st.none() | st.builds(
    OffsetCommitValue,
    offset=st.integers(-1, 2**63 - 1),
    leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=st.sampled_from(["", "", "m"]),
    commit_timestamp=st.integers(-1, 2**62),
    expire_timestamp=st.sampled_from([-1, -1, 5]),
    topic_id=st.sampled_from([NO_TOPIC_ID, UUID(int=7)]),
)


def one_by_one(pairs: list[Pair]) -> list[tuple[Message, Message | None]]:
    found: list[tuple[Message, Message | None]] = []
    for key_bytes, value_bytes in pairs:
        try:
            key = decode_key(key_bytes or b"")
            if key is not None:
                found.append((key, None if value_bytes is None else decode_value(key, value_bytes)))
        except DecodeError:
            continue
    return found


def together(pairs: list[Pair]) -> tuple[list[tuple[Message, Message | None]], int]:
    errors: list[DecodeError] = []
    found = [(record.key, record.value) for record in decode_group_records(pairs, errors.append)]
    return found, len(errors)


@given(st.lists(st.tuples(keys, values), max_size=20))
@settings(deadline=None, derandomize=True, database=None)
def test_commits_are_read_as_they_were_written(records: list[tuple[OffsetCommitKey, OffsetCommitValue | None]]) -> None:
    pairs: list[Pair] = [(encode_key(key), None if value is None else encode_value(value)) for key, value in records]
    assert together(pairs) == (one_by_one(pairs), 0)


@given(st.data())
@settings(deadline=None, derandomize=True, database=None, max_examples=500)
def test_other_bytes_are_read_as_the_decoders_read_them(data: st.DataObject) -> None:
    key = bytearray(encode_key(data.draw(keys)))
    value = bytearray(encode_value(data.draw(values.filter(lambda value: value is not None))))  # type: ignore[arg-type]
    for damaged in (key, value):
        for _ in range(data.draw(st.integers(0, 2))):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(value)[: data.draw(st.sampled_from([None, None, -1, 10]))] + data.draw(
        st.sampled_from([b"", b"", b"x"])
    )
    pairs: list[Pair] = [(bytes(key) + data.draw(st.sampled_from([b"", b"\0\0\0\0"])), cut)]
    # Runs of one group and topic share their names, so others come before and behind it.
    good: Pair = (encode_key(data.draw(keys)), encode_value(OffsetCommitValue(offset=3)))
    pairs = data.draw(st.permutations([*pairs, good, good]))
    assert together(pairs)[0] == one_by_one(pairs)


@pytest.mark.parametrize("key", [None, b"", b"\0", b"\0\1", b"\0\1\0\1"])
def test_records_without_a_readable_key_are_reported(key: bytes | None) -> None:
    good: Pair = (encode_key(GroupMetadataKey(group="g")), encode_value(GroupMetadataValue(generation=3)))
    found, errors = together([(key, b""), good])
    assert (len(found), errors) == (1, 1)


def test_records_of_a_newer_kafka_are_passed_over() -> None:
    assert together([(b"\0\x7f", b"whatever")]) == ([], 0)
