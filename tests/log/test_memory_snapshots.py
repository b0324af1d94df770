"""Snapshots of a memory store: no bytes are copied until they must be, and each can be restored again and again."""

from dataclasses import replace

import pytest

from kohort.log import MemoryStore
from kohort.model import UUID
from tests.log.logs import append, flush, topic_in, values


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def write(store: MemoryStore, topic_id: UUID, *written: bytes, partition: int = 0, **producer: int) -> None:
    append(store.partition(topic_id, partition), *written, **producer)
    flush(store)


def read(store: MemoryStore, topic_id: UUID, partition: int = 0) -> list[bytes | None]:
    return values(store.partition(topic_id, partition))


def test_records_of_a_snapshot_are_back_as_often_as_it_is_restored(store: MemoryStore) -> None:
    topic_id = topic_in(store)
    write(store, topic_id, b"a", b"b")
    one = store.snapshot()
    write(store, topic_id, b"c")
    two = store.snapshot()
    write(store, topic_id, b"d")
    for _ in range(2):
        store.restore(one)
        assert read(store, topic_id) == [b"a", b"b"]
        write(store, topic_id, b"other")
        assert read(store, topic_id) == [b"a", b"b", b"other"]
        store.restore(two)
        assert read(store, topic_id) == [b"a", b"b", b"c"]
        write(store, topic_id, b"again")
    store.restore(one)
    assert read(store, topic_id) == [b"a", b"b"]


def test_a_log_that_has_not_changed_is_not_replaced(store: MemoryStore) -> None:
    topic_id = topic_in(store)
    write(store, topic_id, b"a")
    write(store, topic_id, b"b", partition=1)
    untouched, changed = store.partition(topic_id, 0), store.partition(topic_id, 1)
    snapshot = store.snapshot()
    for _ in range(2):
        write(store, topic_id, b"c", partition=1)
        assert store.changed_since(snapshot) == {(topic_id, 1)}
        store.restore(snapshot)
        assert not store.changed_since(snapshot)
    assert store.partition(topic_id, 0) is untouched
    assert store.partition(topic_id, 1) is not changed


def test_bytes_of_a_snapshot_survive_truncation_and_deletion(store: MemoryStore) -> None:
    topic_id = topic_in(store, configs={"segment.bytes": "100"})
    for number in range(5):
        write(store, topic_id, b"%d" % number)
    snapshot = store.snapshot()
    store.partition(topic_id, 0).truncate(1)
    write(store, topic_id, b"new")
    store.restore(snapshot)
    assert read(store, topic_id) == [b"0", b"1", b"2", b"3", b"4"]
    store.partition(topic_id, 0).delete_before(3)
    store.restore(snapshot)
    assert read(store, topic_id) == [b"0", b"1", b"2", b"3", b"4"]
    store.delete_topic(topic_id)
    store.restore(snapshot)
    assert read(store, topic_id) == [b"0", b"1", b"2", b"3", b"4"]
    store.partition(topic_id, 0).truncate(4)
    assert read(store, topic_id) == [b"0", b"1", b"2", b"3"]


def test_no_bytes_are_copied_by_a_snapshot(store: MemoryStore) -> None:
    topic_id = topic_in(store)
    write(store, topic_id, b"x" * 1_000)
    before = store.partition(topic_id, 0).segments[0].medium
    snapshot = store.snapshot()
    store.delete_topic(topic_id)
    store.restore(snapshot)
    after = store.partition(topic_id, 0).segments[0].medium
    assert after is not before
    assert after._data is before._data  # type: ignore[attr-defined]


def test_topics_and_configs_are_those_of_the_snapshot(store: MemoryStore) -> None:
    kept, gone = topic_in(store, "kept"), topic_in(store, "gone")
    store.keep_configs("groups", "g", {"a": "1"})
    snapshot = store.snapshot()
    store.delete_topic(gone)
    new = topic_in(store, "new")
    write(store, new, b"a")
    store.alter_topic(replace(store.topics()["kept"], partitions=5, configs={"retention.ms": "1"}))
    write(store, kept, b"a", partition=4)
    store.keep_configs("groups", "g", {"a": "2"})
    store.keep_configs("groups", "h", {"a": "3"})
    assert {(new, 0), (kept, 4)} <= store.changed_since(snapshot)
    store.restore(snapshot)
    assert {name: topic.partitions for name, topic in store.topics().items()} == {"kept": 3, "gone": 3}
    assert store.topics()["kept"].configs == {}
    assert store.configs("groups") == {"g": {"a": "1"}}
    assert read(store, gone) == []
    with pytest.raises(KeyError):
        store.partition(new, 0)
    with pytest.raises(KeyError):
        store.partition(kept, 4)


def test_a_topic_that_is_kept_is_not_taken_back(store: MemoryStore) -> None:
    journal, other = topic_in(store, "journal"), topic_in(store, "other")
    write(store, journal, b"1")
    snapshot = store.snapshot()
    write(store, journal, b"2")
    write(store, other, b"2")
    store.restore(snapshot, keep=["journal"])
    assert (read(store, journal), read(store, other)) == ([b"1", b"2"], [])
    store.delete_topic(journal)
    later = topic_in(store, "journal")
    write(store, later, b"3")
    store.restore(snapshot, keep=["journal"])
    assert read(store, later) == [b"3"]


def test_producers_that_have_written_since_go_on_and_those_of_the_others_stay(store: MemoryStore) -> None:
    topic_id = topic_in(store)
    write(store, topic_id, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    write(store, topic_id, b"a", producer_id=6, producer_epoch=0, base_sequence=0)
    snapshot = store.snapshot()
    write(store, topic_id, b"b", producer_id=7, producer_epoch=0, base_sequence=1)
    write(store, topic_id, b"c", producer_id=8, producer_epoch=0, base_sequence=0)
    store.restore(snapshot)
    producers = store.partition(topic_id, 0).producers.snapshot()
    assert [batch.last_sequence for batch in producers.pop(6).batches] == [0]
    assert not producers
    write(store, topic_id, b"d", producer_id=7, producer_epoch=0, base_sequence=2)
    assert read(store, topic_id) == [b"a", b"a", b"d"]
    assert store.changed_since(snapshot)
