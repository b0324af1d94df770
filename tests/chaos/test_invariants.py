"""A run's history goes through the simulation's checkers: they pass what is sound, and find what is planted into it."""

from __future__ import annotations

import base64
from typing import Any
from uuid import UUID

import pytest

from kohort.model import TopicPartition
from kohort.wire.batches import Record, encode_batch
from kohort.wire.codec import Message
from kohort.wire.group_log.group_bytes import encode_key, encode_value
from kohort.wire.messages.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kohort.wire.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    TopicPartitions,
)
from tests.chaos import invariants
from tests.chaos.history import Entry
from tests.chaos.invariants import violations

TOPIC_ID = UUID(int=7)
Written = tuple[Message, Message | None]


def entry(at: int, kind: str, **fields: Any) -> Entry:
    made: Entry = {"at": at, "kind": kind, **fields}  # type: ignore[typeddict-item]
    return made


def records(at: int, *written: Written, partition: int = 0) -> Entry:
    """Return the events of one request."""
    pairs = [
        Record(number, at, encode_key(key), None if value is None else encode_value(value), ())
        for number, (key, value) in enumerate(written)
    ]
    return entry(10_000, "records", partition=partition, data=base64.b64encode(encode_batch(pairs)).decode())


def commit(group: str, offset: int) -> Written:
    return OffsetCommitKey(group=group, topic="t", partition=0), OffsetCommitValue(offset=offset)


def generation(number: int, **owned: list[int]) -> Written:
    members = [
        MemberMetadata(
            member_id=name,
            subscription=encode_subscription(Subscription(["t"])),
            assignment=encode_assignment(Assignment([TopicPartition("t", partition) for partition in partitions])),
        )
        for name, partitions in owned.items()
    ]
    value = GroupMetadataValue(
        protocol_type="consumer", generation=number, protocol="range", leader="a", members=members
    )
    return GroupMetadataKey(group="classic"), value


def group_epoch(epoch: int) -> Written:
    return ConsumerGroupMetadataKey(group_id="newer"), ConsumerGroupMetadataValue(epoch=epoch)


def joined(member_id: str) -> Written:
    key = ConsumerGroupMemberMetadataKey(group_id="newer", member_id=member_id)
    value = ConsumerGroupMemberMetadataValue(
        instance_id=None, subscribed_topic_names=["t"], subscribed_topic_regex=None
    )
    return key, value


def has(member_id: str, epoch: int, *partitions: int) -> Written:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=epoch,
        previous_member_epoch=epoch - 1,
        assigned_partitions=[TopicPartitions(topic_id=TOPIC_ID, partitions=list(partitions))] if partitions else [],
    )
    return ConsumerGroupCurrentMemberAssignmentKey(group_id="newer", member_id=member_id), value


def sound() -> list[Entry]:
    """A member that reads and commits, a committer, two generations, and a partition that changes hands at an epoch."""
    return [
        entry(0, "topic", topic="t", id=str(TOPIC_ID)),
        entry(1000, "read", group="classic", member="a", spans=[[0, 0, 2]]),
        entry(1500, "read", group="classic", member="b", spans=[[0, 1, 4]]),
        records(1000, generation(1, a=[0, 1])),
        records(1200, commit("classic", 2)),
        records(1300, commit("classic", 3)),
        records(1400, generation(2, a=[1], b=[0])),
        records(1600, commit("classic", 5)),
        entry(2000, "committing", group="c", value=0),
        entry(2010, "committed", group="c", value=0),
        entry(2020, "committing", group="c", value=1),
        entry(2030, "committed", group="c", value=1),
        entry(2300, "found", group="c", value=1, since=2200),
        records(2005, commit("c", 0), partition=1),
        records(2025, commit("c", 1), partition=1),
        records(3000, group_epoch(1), joined("m1"), has("m1", 1, 0, 1), partition=2),
        records(3100, group_epoch(2), joined("m2"), has("m1", 2, 0), has("m2", 2, 1), partition=2),
        entry(9000, "stands", group="classic", partition=0, value=5),
    ]


def test_a_sound_history_violates_nothing() -> None:
    assert list(violations(sound())) == []


def test_a_history_without_the_coordinators_records_has_no_violation() -> None:
    bare = [entry for entry in sound() if entry["kind"] != "records"]
    assert list(violations(bare)) == []


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ([records(1700, commit("classic", 4))], "S8: "),
        ([records(1700, commit("classic", 6))], "committed t-0 at 6, but its members processed it up to 5 only"),
        ([entry(1800, "read", group="classic", member="b", spans=[[0, 7, 9]])], "b skips t-0 from 5 to 7"),
        ([records(1700, generation(3, a=[0], b=[0]))], "in generation 3 of classic"),
        ([records(1700, generation(1, a=[0, 1]))], "the generation of classic decreased from 2 to 1"),
        (
            [entry(2400, "committing", group="c", value=2), entry(2410, "committed", group="c", value=2)],
            "but is not in the log",
        ),
        ([entry(2400, "found", group="c", value=0, since=2390)], "S8: "),
        ([entry(2400, "found", group="c", value=9, since=2390)], "read, but never written"),
        ([records(3200, group_epoch(3), has("m2", 3, 0, 1), partition=2)], "t-0 of newer is assigned to m1 and m2"),
        ([records(3200, has("m1", 2), has("m2", 2, 0, 1), partition=2)], "m1 had t-0 of newer at epoch 2, m2 has it"),
        ([records(3200, group_epoch(1), partition=2)], "the epoch of newer decreased from 2 to 1"),
        ([records(3200, has("m1", 3, 0), partition=2)], "m1 of newer has epoch 3, the group has epoch 2"),
        ([entry(9001, "stands", group="c", partition=0, value=0)], "c stands at 0 of t-0, and its log at 1"),
    ],
)
def test_each_planted_violation_is_found(planted: list[Entry], said: str) -> None:
    found = list(violations([*sound(), *planted]))
    assert any(said in violation for violation in found), found


def test_the_checks_of_the_test_kit_find_what_others_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariants, "check_consumer_group", lambda *arguments, **named: None)
    twice = records(3200, group_epoch(3), has("m2", 3, 0, 1), partition=2)
    (found,) = violations([*sound(), twice])
    assert "Members 'm1' and 'm2' of group newer both have" in found


def test_a_partition_of_the_coordinators_topic_is_checked_to_its_first_violation() -> None:
    twice = [records(1700, commit("classic", 4)), records(1710, commit("classic", 3))]
    found = list(violations([*sound()[:-1], *twice]))
    assert len(found) == 1
