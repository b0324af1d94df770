"""The writer's half: all bytes, in order, however the kernel takes them; and the cheaper way to sync."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kohort.log import FileStore
from kohort.log.disk import write_all
from kohort.log.sync_choice import SyncChoice, file_system_of, syncfs_of
from tests.log.logs import append, flush, topic_in, values

steady = settings(deadline=None, derandomize=True, database=None)


@given(st.lists(st.binary(max_size=40), max_size=3000), st.integers(0, 100))
@settings(steady, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_parts_are_written_one_behind_the_other(tmp_path: Path, parts: list[bytes], position: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"." * position)
    descriptor = os.open(path, os.O_RDWR)
    try:
        write_all(descriptor, parts, position)
    finally:
        os.close(descriptor)
    assert path.read_bytes() == b"." * position + b"".join(parts)


def test_thousands_of_parts_are_written_in_several_calls(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "data")
    log = store.partition(topic_in(store), 0)
    for number in range(5000):
        append(log, b"%d" % number)
    flush(store)
    assert values(log) == [b"%d" % number for number in range(5000)]
    store.close()


def test_one_file_is_synced_alone_and_many_together() -> None:
    choice = SyncChoice(can_sync_together=True, each=0.0002, together=0.0008)
    assert [choice.prefers_syncfs(files) for files in (1, 2, 5, 50)] == [False, False, True, True]


def test_without_syncfs_every_file_is_synced() -> None:
    assert not SyncChoice(can_sync_together=False).prefers_syncfs(1000)


def test_a_file_system_that_others_keep_busy_is_not_synced_as_a_whole_but_tried_again() -> None:
    choice = SyncChoice(can_sync_together=True, each=0.0002, together=0.0008)
    choice.syncfs_took(5.0)
    answers = [choice.prefers_syncfs(10) for _ in range(1000)]
    assert answers.index(True) > 300


def test_a_slow_disk_moves_the_choice_to_one_sync_for_all() -> None:
    choice = SyncChoice(can_sync_together=True, each=0.0002, together=0.0008)
    for _ in range(20):
        choice.fdatasyncs_took(0.010, 2)
    assert choice.prefers_syncfs(2)


def test_many_partitions_are_durable_one_by_one_too(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "data", max_open_files=3)
    store.files.disk.choice = SyncChoice(can_sync_together=False)
    topic_id = topic_in(store, partitions=20)
    logs = [store.partition(topic_id, number) for number in range(20)]
    for _ in range(3):
        for number, log in enumerate(logs):
            append(log, b"%d" % number)
        flush(store)
    assert [values(log) for log in logs] == [[b"%d" % number] * 3 for number in range(20)]
    store.close()


def test_many_partitions_are_durable_together_too(tmp_path: Path) -> None:
    if syncfs_of(tmp_path) is None:
        pytest.skip("syncfs means nothing here")
    store = FileStore(tmp_path / "data", max_open_files=3)
    store.files.disk.choice = SyncChoice(can_sync_together=True, together=0)
    topic_id = topic_in(store, partitions=20)
    logs = [store.partition(topic_id, number) for number in range(20)]
    for number, log in enumerate(logs):
        append(log, b"%d" % number)
    flush(store)
    assert [values(log) for log in logs] == [[b"%d" % number] for number in range(20)]
    store.close()


def test_a_syncfs_that_fails_raises(tmp_path: Path) -> None:
    syncfs = syncfs_of(tmp_path)
    if syncfs is None:
        pytest.skip("syncfs means nothing here")
    with pytest.raises(OSError, match="Bad file descriptor"):
        syncfs(-1)


def test_file_systems_are_identified_by_their_device(tmp_path: Path) -> None:
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 27 0:9999 / /proc rw,relatime - proc proc rw\n"
        f"25 24 {os.major(device)}:{os.minor(device)} / /mnt rw,relatime shared:1 master:2 - fuse.sshfs host:/ rw\n"
    )
    assert file_system_of(tmp_path, str(mounts)) == "fuse.sshfs"
    assert file_system_of(Path("/proc"), str(mounts)) is None
    assert file_system_of(tmp_path, str(tmp_path / "none")) is None
