"""A disk that says no: full, it is tried again; one that does not confirm a sync is never asked a second time."""

import errno
import os
from pathlib import Path

import pytest

from kohort.log import FileStore, PartitionLog, PartitionStopped, SyncFailed
from kohort.log.sync_choice import SyncChoice
from tests.log.logs import append, at, flush, topic_in, values


class Disk:
    """Simulated kernel; a sync of a path that contains a string of `fails` fails."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.fails = ""
        self.error = errno.EIO
        self.synced = 0
        self._fdatasync = os.fdatasync
        patch.setattr(os, "fdatasync", self._sync)

    def _sync(self, descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
        if self.fails and self.fails in path:
            raise OSError(self.error, os.strerror(self.error))
        self.synced += 1
        self._fdatasync(descriptor)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def opened(path: Path) -> FileStore:
    store = FileStore(path)
    store.files.disk.choice = SyncChoice(can_sync_together=False)
    return store


def failed_flush(store: FileStore) -> OSError:
    pending = store.take()
    assert pending is not None
    with pytest.raises(OSError, match=r".") as raised:
        store.sync(pending)
    store.fail(pending, raised.value)
    return raised.value


def filled(store: FileStore) -> tuple[PartitionLog, PartitionLog]:
    topic_id = topic_in(store)
    log, other = store.partition(topic_id, 0), store.partition(topic_id, 1)
    append(log, b"kept")
    append(other, b"kept")
    flush(store)
    return log, other


def test_a_partition_whose_sync_failed_is_read_but_not_written(tmp_path: Path, disk: Disk) -> None:
    store = opened(tmp_path)
    log, other = filled(store)
    append(log, b"lost")
    append(other, b"lost too")
    disk.fails = "orders-0"
    assert isinstance(failed_flush(store), SyncFailed)
    disk.fails = ""
    with pytest.raises(PartitionStopped, match="orders-0 takes no appends until a restart"):
        append(log, b"again")
    assert log.stopped is not None and other.stopped is None
    assert (values(log), log.end_offset, log.stable_offset) == ([b"kept"], 1, 1)
    append(other, b"next")
    flush(store)
    assert values(other) == [b"kept", b"next"]
    store.close()
    store = opened(tmp_path)
    topic_id = store.topics()["orders"].topic_id
    log = store.partition(topic_id, 0)
    assert (values(log), log.stopped) == ([b"kept"], None)
    append(log, b"new")
    flush(store)
    assert values(log) == [b"kept", b"new"]
    store.close()


def test_the_next_start_checks_what_a_failed_sync_left(tmp_path: Path, disk: Disk) -> None:
    store = opened(tmp_path)
    log, _ = filled(store)
    append(log, b"never confirmed")
    disk.fails = "orders-0"
    failed_flush(store)
    disk.fails = ""
    store.close()
    path = tmp_path / "orders-0" / f"{0:020}.log"
    # As if the kernel had written half of it after all.
    with path.open("ab") as file:
        file.write(path.read_bytes()[:50])
    store = opened(tmp_path)
    found = store.partition(store.topics()["orders"].topic_id, 0)
    assert values(found) == [b"kept"]
    assert [cut.bytes_cut for cut in store.recovered] == [50]
    store.close()


@pytest.mark.parametrize("fails", ["", "orders-0"])
def test_when_the_file_system_reports_an_error_each_file_is_asked(tmp_path: Path, disk: Disk, fails: str) -> None:
    # It may be another program's, on another part of the disk.
    store = opened(tmp_path)
    log, other = filled(store)

    def syncfs(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    store.files.disk._syncfs = syncfs
    store.files.disk.choice = SyncChoice(can_sync_together=True, each=1, together=0)
    append(log, b"next")
    append(other, b"next")
    disk.fails = fails
    if fails:
        assert isinstance(failed_flush(store), SyncFailed)
        disk.fails = ""
        append(other, b"later")
    flush(store)
    assert (log.stopped is None, other.stopped is None) == (not fails, True)
    assert values(log) == ([b"kept"] if fails else [b"kept", b"next"])
    assert values(other) == [b"kept", b"later" if fails else b"next"]
    store.close()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_stops_no_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    store = opened(tmp_path)
    log, _ = filled(store)

    def full(descriptor: int, buffers: list[bytes], offset: int) -> int:
        raise OSError(error, os.strerror(error))

    append(log, b"lost")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        assert not isinstance(failed_flush(store), SyncFailed)
    append(log, b"next")
    flush(store)
    assert values(log) == [b"kept", b"next"]
    store.close()


def test_a_disk_that_cannot_write_at_all_stops_the_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(tmp_path)
    log, _ = filled(store)

    def broken(descriptor: int, buffers: list[bytes], offset: int) -> int:
        raise OSError(errno.EIO, "Input/output error")

    append(log, b"lost")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", broken)
        assert isinstance(failed_flush(store), SyncFailed)
    assert log.stopped is not None
    store.close()


def test_a_full_disk_is_made_room_on_while_appends_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(tmp_path)
    log = store.partition(topic_in(store, configs={"segment.bytes": "100", "retention.bytes": "200"}), 0)
    for number in range(10):
        append(log, b"%d" % number * 50)
    flush(store)
    log.apply_retention(at(0))
    assert list((tmp_path / "orders-0").glob("*.deleted"))

    def full(descriptor: int, buffers: list[bytes], offset: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    append(log, b"lost")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        failed_flush(store)
    left = [path.name for path in (tmp_path / "orders-0").glob("*.deleted")]
    assert left == [f"{10:020}.log.deleted"]  # the failed append's own, which was later
    store.close()
