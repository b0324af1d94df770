"""The counts of a stateful member, in memory and in RocksDB: what outlives it, and what it has to read again."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kohort import blocking
from kohort.client import NewTopic
from kohort.lab.brokers import BROKERS, LabBroker
from kohort.lab.clients.counts import Counts, MemoryCounts, checkpoint
from kohort.lab.clients.rocks import RocksCounts, RocksCountStore
from kohort.lab.clients.store import Store
from kohort.lab.member_settings import MemberSettings

_KEYS = 500


@pytest.fixture(scope="module")
def broker() -> Iterator[LabBroker]:
    with BROKERS["kohort"]({}) as running:
        yield running


@pytest.fixture
def settings(broker: LabBroker, tmp_path: Path) -> MemberSettings:
    """A member with a directory, and a changelog of two partitions with a count of one for each key."""
    topic = f"counts-{uuid.uuid4().hex[:8]}"
    with blocking.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 2, configs={"cleanup.policy": "compact"})])
    settings = MemberSettings(
        bootstrap=broker.bootstrap, group="g", topic="t", name="m", protocol="consumer", changelog=topic,
        state=str(tmp_path / "m"),
    )  # fmt: skip
    _write(settings, [0, 1], 1)
    return settings


def test_a_member_that_comes_back_with_its_directory_restores_only_what_it_missed(settings: MemberSettings) -> None:
    store = Store(settings)
    store.restore([0, 1])
    assert store.restored == 2 * _KEYS
    store.count(0, b"key-3")
    store.flush([0, 1])
    store.close()
    _write(settings, [1], 7)  # by who had it meanwhile
    store = Store(settings)
    store.restore([0, 1])
    assert store.restored == _KEYS
    assert [store.of(0, b"key-3"), store.of(1, b"key-3"), store.of(0, b"key-4")] == [2, 7, 1]
    store.close()


def test_a_member_without_a_directory_restores_all_of_it(settings: MemberSettings) -> None:
    for _ in range(2):
        store = Store(replace(settings, state=""))
        store.restore([0])
        assert (store.restored, store.of(0, b"key-3")) == (_KEYS, 1)
        store.close()


def test_unflushed_counts_are_not_in_the_directory(settings: MemberSettings) -> None:
    # A member that returns reads those records again: if their counts were on disk, they would be counted twice.
    store = Store(settings)
    store.restore([0])
    store.count(0, b"key-3")
    assert store.of(0, b"key-3") == 2
    store.forget([0])
    store.restore([0])
    assert (store.of(0, b"key-3"), store.restored) == (1, _KEYS)
    store.close()


def test_a_regained_partition_continues_at_its_checkpoint(settings: MemberSettings) -> None:
    store = Store(settings)
    store.restore([0])
    store.forget([0])
    _write(settings, [0], 9)
    store.restore([0])
    assert (store.of(0, b"key-3"), store.restored) == (9, 2 * _KEYS)
    store.close()


@pytest.mark.parametrize("kind", ["memory", "rocksdb"])
def test_counts_of_another_changelog_are_dropped(kind: str, tmp_path: Path) -> None:
    counts: Counts = MemoryCounts() if kind == "memory" else RocksCounts(tmp_path / "0")
    counts.take({b"a": 5}, 100)
    assert (checkpoint(counts, end=100), counts.get(b"a")) == (100, 5)
    assert (checkpoint(counts, end=99), counts.get(b"a"), counts.position) == (None, None, None)
    counts.take({b"b": 1}, 3)
    assert (counts.get(b"b"), counts.position) == (1, 3)
    counts.close()


def test_a_key_is_never_taken_for_the_position(tmp_path: Path) -> None:
    store = RocksCountStore(tmp_path)
    counts = store.open(3)
    counts.take({b"p": 4, b"": 2, b"k": 1}, 7)
    counts.close()
    assert (store.kept(), RocksCountStore(tmp_path).kept()) == ([], [3])
    again = store.open(3)
    assert (again.position, [again.get(key) for key in (b"p", b"", b"k", b"kp")]) == (7, [4, 2, 1, None])
    again.close()


def _write(settings: MemberSettings, partitions: list[int], count: int) -> None:
    with blocking.Producer(bootstrap_servers=settings.bootstrap) as producer:
        for partition in partitions:
            for number in range(_KEYS):
                producer.send(settings.changelog, b"%d" % count, key=b"key-%d" % number, partition=partition)
        producer.flush()
