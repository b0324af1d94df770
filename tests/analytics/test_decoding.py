"""Raw records to rows: every version of a commit, damage, and where runs end."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.analytics.decoding import Decoder
from kohort.analytics.schema import HISTORY, HISTORY_DDL, RAW, Kind
from kohort.model import UUID, TopicPartition
from kohort.wire.codec import encode
from kohort.wire.group_log.group_bytes import encode_key, encode_value
from kohort.wire.messages.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kohort.wire.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

AT = 1_767_225_600_000
MINUTE = 60_000
KEY = encode_key(OffsetCommitKey(group="delays", topic="flights", partition=3))


def raw(records: Sequence[tuple[bytes | None, bytes | None]]) -> pa.RecordBatch:
    rows = [
        {"key": key, "value": value, "partition": 7, "offset": n, "timestamp": datetime.fromtimestamp(AT / 1000, UTC)}
        for n, (key, value) in enumerate(records)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RAW)


def decoded(*records: tuple[bytes | None, bytes | None]) -> list[dict[str, Any]]:
    return [row for batch in Decoder(MINUTE).decode([raw(records)]) for row in batch.to_pylist()]


def commit(offset: int, at: int = AT, *, version: int = 4, **fields: Any) -> bytes:
    value = OffsetCommitValue(offset=offset, commit_timestamp=at, **fields)
    return version.to_bytes(2, "big") + encode(value, version)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("metadata", ["", "who", "m" * 300])
def test_commits_of_every_version_are_read(version: int, metadata: str) -> None:
    (row,) = decoded((KEY, commit(41, AT + 5, version=version, metadata=metadata)))
    assert (row["kind"], row["group_id"], row["topic"], row["partition"]) == (Kind.COMMITS, "delays", "flights", 3)
    assert (row["at"], row["last_offset"], row["commits"], row["shard"]) == (AT + 5, 41, 1, 7)


def test_commits_of_brokers_before_0_9_are_read() -> None:
    key = b"\0\0" + encode(LegacyOffsetCommitKey(group="delays", topic="flights", partition=3), 0)
    value = b"\0\0" + encode(LegacyOffsetCommitValue(offset=5, metadata="x", commit_timestamp=AT), 0)
    (row,) = decoded((key, value))
    assert (row["group_id"], row["topic"], row["partition"], row["last_offset"]) == ("delays", "flights", 3, 5)


def test_a_commit_reports_the_id_of_its_topic_once() -> None:
    told = UUID(int=77)
    rows = decoded(
        (KEY, commit(1, topic_id=told)), (KEY, commit(2, topic_id=told)), (KEY, commit(3, topic_id=UUID(int=78)))
    )
    assert [(row["topic"], row["topic_id"]) for row in rows if row["kind"] == Kind.TOPIC] == [
        ("flights", str(told)),
        ("flights", str(UUID(int=78))),
    ]


def test_commits_of_one_partition_and_window_become_one_row() -> None:
    (row,) = decoded(*((KEY, commit(n, AT + n)) for n in range(10)))
    assert (row["commits"], row["first_offset"], row["last_offset"]) == (10, 0, 9)
    assert (row["position"], row["last_position"], row["at"], row["last_at"]) == (0, 9, AT, AT + 9)


def test_windows_are_kept_apart() -> None:
    rows = decoded((KEY, commit(1, AT + MINUTE - 1)), (KEY, commit(2, AT + MINUTE)))
    assert [row["window_at"] for row in rows] == [AT, AT + MINUTE]


def test_a_deleted_offset_is_not_a_commit() -> None:
    rows = decoded((KEY, commit(1)), (KEY, None))
    assert sorted((row["commits"], row["deletions"], row["last_offset"]) for row in rows) == [(0, 1, None), (1, 0, 1)]


GENERATION = GroupMetadataValue(
    protocol_type="consumer",
    generation=4,
    protocol="range",
    leader="a",
    members=[
        MemberMetadata(
            member_id="a",
            group_instance_id="one",
            client_id="client",
            client_host="/127.0.0.1",
            subscription=encode_subscription(Subscription(topics=["flights"])),
            assignment=encode_assignment(Assignment([TopicPartition("flights", 0), TopicPartition("flights", 3)])),
        )
    ],
)


def test_a_run_ends_where_the_group_gets_a_generation_and_no_other_groups_does() -> None:
    other = encode_key(OffsetCommitKey(group="others", topic="flights", partition=3))
    generation = (encode_key(GroupMetadataKey(group="delays")), encode_value(GENERATION))
    rows = decoded((KEY, commit(1)), (other, commit(1)), generation, (KEY, commit(2)), (other, commit(2)))
    runs = [(row["group_id"], row["commits"]) for row in rows if row["kind"] == Kind.COMMITS]
    assert sorted(runs) == [("delays", 1), ("delays", 1), ("others", 2)]


def test_a_classic_group_is_read_with_its_members_and_what_they_have() -> None:
    (row,) = decoded((encode_key(GroupMetadataKey(group="delays")), encode_value(GENERATION)))
    assert (row["kind"], row["epoch"], row["protocol"], row["alive"]) == (Kind.GENERATION, 4, "range", True)
    (member,) = row["members"]
    assert (member["instance_id"], member["subscribed"]) == ("one", ["flights"])
    assert member["assigned"] == ["flights-0", "flights-3"]


@pytest.mark.parametrize("field", ["subscription", "assignment"])
@pytest.mark.parametrize(("protocol_type", "told"), [("consumer", 1), ("connect", 0)])
def test_malformed_subscriptions_and_assignments_are_counted_as_unreadable(
    field: str, protocol_type: str, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    # Bytes of another protocol belong to it. Of a consumer, nothing assigned would be a revocation that never was.
    member, generation = copy(GENERATION.members[0]), copy(GENERATION)
    setattr(member, field, b"\0\0\xff")
    generation.protocol_type, generation.members = protocol_type, [member, GENERATION.members[0]]
    decoder = Decoder(MINUTE)
    batch = raw([(encode_key(GroupMetadataKey(group="delays")), encode_value(generation))])
    first, *others = (row for found in decoder.decode([batch]) for row in found.to_pylist())
    assert (first["kind"], len(first["members"])) == (Kind.GENERATION, 2)
    assert [(row["kind"], row["position"]) for row in others] == [(Kind.UNREADABLE, 0)] * told
    assert decoder.unreadable == told
    assert ["group delays" in record.getMessage() for record in caplog.records] == [True] * told


def test_a_member_that_is_deleted_is_not_alive() -> None:
    key = encode_key(ConsumerGroupCurrentMemberAssignmentKey(group_id="delays", member_id="m"))
    (row,) = decoded((key, None))
    assert (row["kind"], row["member_id"], row["alive"], row["assigned"]) == (Kind.CURRENT, "m", False, [])


def test_unknown_records_are_counted_and_skipped() -> None:
    decoder = Decoder(MINUTE)
    damaged = [
        (None, b"x"),
        (b"", b""),
        (b"\0\1\0\7abc", b""),
        (KEY, b"\0\4\0"),
        (KEY[:-1], commit(1)),
        (KEY, commit(9)),
    ]
    rows = [row for batch in decoder.decode([raw(damaged)]) for row in batch.to_pylist()]
    assert decoder.unreadable == 5
    assert [row["last_offset"] for row in rows if row["kind"] == Kind.COMMITS] == [9]
    left_out = [(row["shard"], row["position"], row["at"]) for row in rows if row["kind"] == Kind.UNREADABLE]
    assert left_out == [(7, n, AT) for n in range(5)]


def test_records_of_a_newer_kafka_are_passed_over() -> None:
    decoder = Decoder(MINUTE)
    assert list(decoder.decode([raw([(b"\0\x63whatever", b"\0\0")])])) == []
    assert decoder.unreadable == 0


@given(st.lists(st.tuples(st.binary(max_size=60) | st.just(KEY), st.none() | st.binary(max_size=60)), max_size=20))
def test_no_bytes_stop_the_decoder(records: list[tuple[bytes, bytes | None]]) -> None:
    for batch in Decoder(MINUTE).decode([raw(records)]):
        assert batch.schema == HISTORY


@given(st.integers(0, 60), st.sampled_from([0, 1, 2, 3, 4]))
def test_a_commit_that_is_cut_off_is_unreadable_and_never_read_beyond_its_end(size: int, version: int) -> None:
    whole = commit(7, version=version, metadata="m", topic_id=UUID(int=5) if version == 4 else UUID(int=0))
    decoder = Decoder(MINUTE)
    rows = [row for batch in decoder.decode([raw([(KEY, whole[:size])])]) for row in batch.to_pylist()]
    readable = size >= len(whole) or (version == 1 and size >= len(whole) - 8)
    assert (decoder.unreadable == 0) == readable
    assert any(row["last_offset"] == 7 for row in rows) == readable


def test_small_pieces_sum_up_to_the_same() -> None:
    records = [raw([(KEY, commit(n, AT + n))]) for n in range(20)]
    rows = [row for batch in Decoder(MINUTE, rows_at_once=7).decode(records) for row in batch.to_pylist()]
    assert [row["commits"] for row in rows] == [7, 7, 6]


def test_both_names_of_the_schema_have_the_same_columns() -> None:
    assert [part.split()[0] for part in HISTORY_DDL.split(", members")[0].split(", ")] == HISTORY.names[:-1]
