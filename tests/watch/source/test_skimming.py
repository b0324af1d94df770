"""Commits that later ones replace, left out before anything is decoded."""

from __future__ import annotations

import random
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.client import PartitionBatch
from kohort.columns import to_columns
from kohort.model import TopicPartition
from kohort.watch import LogReader
from kohort.watch.changes import Committed
from kohort.watch.source.skimming import WINDOW_MS, SkimmedRecord, Skimmer
from kohort.wire.group_log import encode_key, encode_value
from kohort.wire.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

GENERATION = encode_key(GroupMetadataKey(group="g")), encode_value(GroupMetadataValue(protocol_type="consumer"))


def commit(partition: int, offset: int) -> tuple[bytes, bytes]:
    key = OffsetCommitKey(group="g", topic="orders", partition=partition)
    return encode_key(key), encode_value(OffsetCommitValue(offset=offset, commit_timestamp=offset))


def log(*told: tuple[int, tuple[bytes | None, bytes | None]], partition: int = 3) -> list[SkimmedRecord]:
    return [SkimmedRecord(partition, offset, at, *pair) for offset, (at, pair) in enumerate(told)]


def columns(records: list[SkimmedRecord], size: int) -> list[PartitionBatch]:
    """The records as a consumer returns them: in batches of one partition."""
    batches = []
    for partition, group in groupby(records, key=lambda record: record.partition):
        some = list(group)
        for start in range(0, len(some), size):
            rows = [
                ("log", partition, record.offset, record.timestamp, record.key, record.value, ())
                for record in some[start : start + size]
            ]
            batches.append(PartitionBatch(TopicPartition("log", partition), to_columns(rows)))
    return batches


@pytest.mark.parametrize("by_columns", [False, True])
def test_only_the_last_commit_of_each_key_is_left(by_columns: bool) -> None:
    told = log(*((1_000 + number, commit(number % 2, number)) for number in range(10)))
    skimmer = Skimmer()
    kept = skimmer.skim_columns(columns(told, 3)) if by_columns else skimmer.skim(told)
    assert kept == told[-2:]
    reader = LogReader()
    reader.gaps = skimmer.gaps
    changes = [change for change in reader.read(kept) if isinstance(change, Committed)]
    assert [(change.offset, change.after_gap) for change in changes] == [(8, True), (9, True)]


@pytest.mark.parametrize("by_columns", [False, True])
def test_commits_around_a_rebalance_are_kept(by_columns: bool) -> None:
    # The last ones before it tell when members stopped, the first ones behind it when they read first.
    told = log(
        (1_000, commit(0, 1)),
        (6_000, commit(0, 2)),
        (7_000, GENERATION),
        (11_000, commit(0, 3)),
        (16_000, commit(0, 4)),
        (7_000 + WINDOW_MS, commit(0, 5)),
        (7_001 + WINDOW_MS, commit(0, 6)),
        (90_000, commit(0, 7)),
    )
    skimmer = Skimmer()
    kept = skimmer.skim_columns(columns(told, 100)) if by_columns else skimmer.skim(told)
    assert [record.offset for record in kept] == [1, 2, 3, 4, 5, 7]
    assert skimmer.gaps == {(3, 1), (3, 7)}
    later = [record._replace(offset=record.offset + 100) for record in told[5:]]
    kept = skimmer.skim_columns(columns(later, 100)) if by_columns else skimmer.skim(later)
    assert [record.offset for record in kept] == [105, 107]  # the window goes on in the next batch


KEYS = st.sampled_from([commit(0, 1), commit(1, 1), (commit(0, 1)[0], None), GENERATION, (None, b"x"), (b"", b"x")])


@given(st.lists(st.tuples(st.integers(0, 2), KEYS, st.integers(0, 30_000)), max_size=60), st.integers(1, 20))
def test_columns_are_skimmed_as_records_are(
    told: list[tuple[int, tuple[bytes | None, bytes | None], int]], size: int
) -> None:
    rows, columnar = Skimmer(), Skimmer()
    random.Random(len(told)).shuffle(told)
    at, records = 1_000_000, []
    for offset, (partition, pair, passed) in enumerate(told):
        at += passed
        records.append(SkimmedRecord(partition, offset, at, *pair))
    records.sort(key=lambda record: (record.partition, record.offset))
    for start in range(0, len(records), 25):
        some = records[start : start + 25]
        assert columnar.skim_columns(columns(some, size)) == rows.skim(some)
        assert columnar.gaps == rows.gaps
