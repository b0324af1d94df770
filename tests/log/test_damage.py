"""Bits that flip on the disk are found when they are first read and never served; what a crash leaves is read again
only behind the last sidecar."""

import asyncio
import os
import shutil
import struct
from pathlib import Path

import pytest

from kohort.broker.groups.loading import load
from kohort.log import CorruptBatch, Duplicate, FileStore, PartitionLog, partition_files
from kohort.wire.batches import Record, batches, decode_records, read_header
from tests.broker.groups.test_loading import Replayed
from tests.log.logs import append, batch, flush, records, topic_in, values


def the_log(store: FileStore) -> PartitionLog:
    return store.partition(store.topics()["orders"].topic_id, 0)


def flip(path: Path, at: int, bit: int = 4) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def filled(root: Path) -> list[Path]:
    """Twenty batches of one record in several segments; closed. Returns the segments' files."""
    store = FileStore(root)
    log = store.partition(topic_in(store, configs={"segment.bytes": "900"}), 0)
    for number in range(20):
        append(log, b"%02d" % number * 50)
    flush(store)
    store.close()
    return sorted((root / "orders-0").glob("*.log"))


@pytest.mark.parametrize("which", [0, 2, -1])
def test_a_flipped_bit_is_reported_and_not_served_and_the_rest_is(
    tmp_path: Path, which: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = filled(tmp_path)[which]
    _, (second, header), *_ = batches(path.read_bytes())
    flip(path, second + 70)
    store = FileStore(tmp_path)
    log = the_log(store)
    damaged = header.base_offset
    sound = [record.offset for record in records_up_to(log, damaged)]
    assert sound == list(range(damaged))
    for _ in range(3):
        with pytest.raises(CorruptBatch, match=f"batch at offset {damaged} is wrong") as raised:
            log.read(damaged, 1 << 20)
    assert raised.value.next_offset == damaged + 1
    assert values(log, damaged + 1) == [b"%02d" % number * 50 for number in range(damaged + 1, 20)]
    assert caplog.text.count("orders-0 is damaged") == 1
    append(log, b"goes on")
    flush(store)
    assert values(log, 20) == [b"goes on"]
    store.close()


@pytest.mark.parametrize("which", [0, 2, -1])
@pytest.mark.parametrize(
    ("at", "bit", "lost"),
    [(8, 7, 4), (8, 6, 4), (8, 0, 4), (10, 4, 4), (11, 7, 4), (11, 3, 4), (16, 0, 1), (16, 4, 1), (16, 7, 1)],
    ids=lambda value: str(value),
)
def test_a_flipped_bit_where_no_checksum_looks_costs_no_more_than_is_near(
    tmp_path: Path, which: int, at: int, bit: int, lost: int, caplog: pytest.LogCaptureFixture
) -> None:
    """In a batch's size or in its magic byte: without the size, the start of the next batch is unknown."""
    path = filled(tmp_path)[which]
    _, (second, header), *_ = batches(path.read_bytes())
    flip(path, second + at, bit)
    store = FileStore(tmp_path)
    log = the_log(store)
    assert asyncio.run(load("__consumer_offsets-0", log, Replayed())) == 20 - lost
    damaged = header.base_offset
    assert "__consumer_offsets-0" in caplog.text
    with pytest.raises(CorruptBatch) as raised:
        log.read(damaged, 1 << 20)
    assert raised.value.base_offset == damaged
    for size in (1, 200, 1 << 20):
        assert [record.offset for record in records_up_to(log, damaged, size)] == list(range(damaged))
        if damaged + lost < 20:
            assert values(log, damaged + lost, size)[-1] == b"19" * 50
    store.close()


def test_a_size_that_leaves_less_than_a_header_ends_every_walk(tmp_path: Path) -> None:
    path = filled(tmp_path)[0]
    content = bytearray(path.read_bytes())
    _, (second, _), *_ = batches(content)
    struct.pack_into(">i", content, second + 8, len(content) - 30 - second - 12)
    path.write_bytes(content)
    store = FileStore(tmp_path)
    log = the_log(store)
    assert asyncio.run(load("__consumer_offsets-0", log, Replayed())) == 16
    with pytest.raises(CorruptBatch) as raised:
        log.read(3, 1 << 20)
    assert (raised.value.base_offset, raised.value.next_offset) == (3, 5)
    store.close()


def records_up_to(log: PartitionLog, end: int, max_bytes: int = 300) -> list[Record]:
    found: list[Record] = []
    position = 0
    while position < end:
        for part in log.read(position, max_bytes):
            for at, header in batches(part):
                found += [record for record in decode_records(part, at) if record.offset >= position]
                position = header.next_offset
    return found


def test_checked_batches_are_not_checked_again(tmp_path: Path) -> None:
    path = filled(tmp_path)[0]
    store = FileStore(tmp_path)
    log = the_log(store)
    before = values(log)
    flip(path, 70)  # in the page cache, unlike on a disk: a read now shows that nothing checks it
    assert len(log.read(0, 100)) == 1
    assert len(before) == 20
    store.close()


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sidecar for every kilobyte."""
    monkeypatch.setattr(partition_files, "_SIDECAR_EVERY", 1000)


def test_after_a_crash_only_what_follows_the_last_sidecar_is_read(
    tmp_path: Path, often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(tmp_path / "data")
    log: PartitionLog = store.partition(topic_in(store), 0)
    for number in range(40):
        append(log, b"%02d" % number * 50, producer_id=1, producer_epoch=0, base_sequence=number)
        flush(store)
    flush(store)
    expected = records(log)
    shutil.copytree(tmp_path / "data", tmp_path / "crash")
    store.close()
    read = 0
    pread = os.pread

    def counting(descriptor: int, size: int, position: int) -> bytes:
        nonlocal read
        found = pread(descriptor, size, position)
        read += len(found)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", counting)
        again = FileStore(tmp_path / "crash")
        log = the_log(again)
    assert read < 3000 < log.size
    assert records(log) == expected
    sent = batch(b"again", producer_id=1, producer_epoch=0, base_sequence=38)
    assert log.producers.check(read_header(sent)) == Duplicate(38, 38)
    append(log, b"next")
    flush(again)
    assert values(log, 40) == [b"next"]
    again.close()


def test_a_sidecar_knows_nothing_of_appends_that_a_crash_took_back(tmp_path: Path, often: None) -> None:
    store = FileStore(tmp_path / "data")
    log: PartitionLog = store.partition(topic_in(store), 0)
    append(log, b"x" * 2000, producer_id=1, producer_epoch=0, base_sequence=0)
    pending = store.take()
    assert pending is not None
    append(log, b"waits", producer_id=1, producer_epoch=0, base_sequence=1)
    append(log, b"waits", producer_id=2, producer_epoch=0, base_sequence=0)
    store.sync(pending)
    store.settle(pending)
    store.files.run_cleanup_tasks()
    shutil.copytree(tmp_path / "data", tmp_path / "crash")
    assert log.producers.get(2) is not None
    flush(store)
    assert values(log)[1:] == [b"waits", b"waits"]
    store.close()
    again = FileStore(tmp_path / "crash")
    assert list((tmp_path / "crash" / "orders-0").glob("*.index"))
    log = the_log(again)
    known = log.producers.get(1)
    assert known is not None and [batch.last_sequence for batch in known.batches] == [0]
    assert log.producers.get(2) is None
    again.close()


def test_a_sidecar_of_other_bytes_is_not_believed(tmp_path: Path) -> None:
    first, second, *_ = filled(tmp_path)
    # As long as it was, and nothing of it where the sidecar says.
    first.write_bytes(bytes(reversed(first.read_bytes())))
    store = FileStore(tmp_path)
    log = the_log(store)
    assert [cut.offset for cut in store.recovered] == [0]
    (kept,) = decode_records(second.read_bytes())[:1]
    assert values(log, 1)[0] == kept.value
    store.close()


def test_a_cut_log_keeps_no_sidecar_of_what_is_gone(tmp_path: Path, often: None) -> None:
    store = FileStore(tmp_path / "data")
    log: PartitionLog = store.partition(topic_in(store), 0)
    for number in range(30):
        append(log, b"%02d" % number * 50)
        flush(store)
    log.truncate(10)
    for number in range(10, 30):
        append(log, b"new %02d" % number * 25)
    pending = store.take()
    assert pending is not None
    store._write(pending)  # and the process dies before its clean-up tasks
    shutil.copytree(tmp_path / "data", tmp_path / "crash")
    store.settle(pending)
    expected = values(log)
    store.close()
    again = FileStore(tmp_path / "crash")
    assert values(the_log(again)) == expected
    again.close()
