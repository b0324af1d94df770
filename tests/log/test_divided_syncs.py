"""Appends that need many new files are synced in parts, and partitions that are synced first are in each of them."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.log import FileStore, MemoryStore, PartitionLog
from kohort.log.api import SyncFailed
from kohort.log.queue import NEW_FILES, PendingAppends
from tests.log.logs import append, flush, topic_in, values

WIDE = 3 * NEW_FILES + 1


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    opened = FileStore(tmp_path / "data")
    yield opened
    opened.close()


def wide_topic(store: FileStore) -> list[PartitionLog]:
    """A topic with an append to each of its partitions, which have no files yet."""
    topic_id = topic_in(store, "wide", WIDE)
    logs: list[PartitionLog] = [store.partition(topic_id, number) for number in range(WIDE)]
    for log in logs:
        append(log, b"first")
    return logs


def first_partition(store: FileStore) -> PartitionLog:
    log = store.partition(topic_in(store, "offsets", 1), 0)
    log.sync_first()
    return log


def take(store: FileStore) -> PendingAppends:
    pending = store.take()
    assert pending is not None
    return pending


def sync(store: FileStore) -> PendingAppends:
    pending = take(store)
    store.sync(pending)
    store.settle(pending)
    return pending


def test_one_sync_makes_a_bounded_number_of_files(store: FileStore) -> None:
    logs = wide_topic(store)
    sizes, last = [], []
    while pending := store.take():
        sizes.append(len(pending.logs))
        last.append(pending.is_last)
        store.sync(pending)
        store.settle(pending)
    assert sizes == [NEW_FILES, NEW_FILES, NEW_FILES, 1]
    assert last == [False, False, False, True]
    assert all(values(log) == [b"first"] for log in logs)
    assert store.queued_bytes == 0


def test_existing_files_do_not_divide_a_sync(store: FileStore) -> None:
    logs = wide_topic(store)
    flush(store)
    for log in logs:
        append(log, b"second")
    pending = sync(store)
    assert (len(pending.logs), pending.is_last) == (WIDE, True)


def test_partitions_that_have_their_files_are_in_the_first_part(store: FileStore) -> None:
    old = store.partition(topic_in(store, "old", 1), 0)
    append(old, b"first")
    flush(store)
    wide_topic(store)
    append(old, b"second")
    sync(store)
    assert values(old) == [b"first", b"second"]


def test_one_partition_that_needs_more_files_than_a_sync_makes_is_not_divided(store: FileStore) -> None:
    log = store.partition(topic_in(store, "small", 1, {"segment.bytes": "100"}), 0)
    wide_topic(store)
    for number in range(NEW_FILES + 3):
        append(log, b"%3d" % number + bytes(100))
    flush(store)
    assert len(values(log)) == NEW_FILES + 3


def test_appends_during_a_divided_sync_follow_all_parts(store: FileStore) -> None:
    logs = wide_topic(store)
    sync(store)
    for log in logs:
        append(log, b"second")
    for _ in range(3):
        pending = sync(store)
        assert {len(queued) for _, queued in pending.logs} == {1}
    assert pending.is_last
    assert all(values(log) == [b"first"] for log in logs)
    flush(store)
    assert all(values(log) == [b"first", b"second"] for log in logs)


def test_a_partition_that_is_synced_first_is_in_each_part(store: FileStore) -> None:
    offsets = first_partition(store)
    wide_topic(store)
    for number in range(4):
        append(offsets, b"%d" % number)
        pending = sync(store)
        assert offsets.stable_offset == number + 1
    assert pending.is_last
    assert values(offsets) == [b"0", b"1", b"2", b"3"]


def test_a_partition_is_not_made_first_while_it_has_appends(store: FileStore) -> None:
    log = wide_topic(store)[-1]
    with pytest.raises(AssertionError):
        log.sync_first()


def test_a_part_that_fails_takes_the_rest_with_it_and_not_what_is_settled(store: FileStore) -> None:
    offsets = first_partition(store)
    logs = wide_topic(store)
    append(offsets, b"settled")
    sync(store)
    append(offsets, b"lost")
    append(logs[0], b"lost")
    pending = take(store)
    store.fail(pending, OSError(errno.ENOSPC, "full"))
    assert store.queued_bytes == 0
    assert store.take() is None
    assert values(offsets) == [b"settled"]
    assert [log.end_offset for log in logs] == [1] * NEW_FILES + [0] * (WIDE - NEW_FILES)
    assert [log.stable_offset for log in logs] == [log.end_offset for log in logs]
    for log in logs:
        append(log, b"again")
    append(offsets, b"again")
    flush(store)
    assert values(offsets) == [b"settled", b"again"]
    assert values(logs[0]) == [b"first", b"again"]
    assert values(logs[-1]) == [b"again"]


def test_only_partitions_of_the_part_that_the_disk_did_not_confirm_are_stopped(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = wide_topic(store)
    sync(store)
    pending = take(store)

    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(store.files.disk, "_syncfs", lambda descriptor: refuse(descriptor))
        patch.setattr(os, "fdatasync", refuse)
        with pytest.raises(SyncFailed) as raised:
            store.sync(pending)
    store.fail(pending, raised.value)
    stopped = [number for number, log in enumerate(logs) if log.stopped is not None]
    assert stopped == [NEW_FILES]
    append(logs[-1], b"again")
    flush(store)
    assert values(logs[-1]) == [b"again"]


def test_closing_syncs_all_parts(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    wide_topic(store)
    store.close()
    store = FileStore(tmp_path)
    topic_id = store.topics()["wide"].topic_id
    assert all(values(store.partition(topic_id, number)) == [b"first"] for number in range(WIDE))
    store.close()


def test_a_topic_may_be_deleted_between_the_parts(store: FileStore) -> None:
    offsets = first_partition(store)
    logs = wide_topic(store)
    sync(store)
    store.delete_topic(store.topics()["wide"].topic_id)
    append(offsets, b"kept")
    flush(store)
    assert values(offsets) == [b"kept"]
    assert store.queued_bytes == 0
    assert not any(log.unsettled for log in logs)  # type: ignore[attr-defined]
    assert not list(store.path.glob("wide-*"))


def test_memory_is_never_divided() -> None:
    store = MemoryStore()
    topic_id = topic_in(store, "wide", WIDE)
    for number in range(WIDE):
        append(store.partition(topic_id, number), b"first")
    pending = store.take()
    assert pending is not None and pending.is_last
    store.settle(pending)
