"""Recovery after a crash: everything acknowledged, nothing torn."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kohort.log import FileStore, PartitionLog, disk
from kohort.log.sync_choice import SyncChoice
from kohort.wire.batches import Record, batches
from tests.log.logs import NOW, append, flush, records, topic_in, values

LOG = "orders-0/" + "0" * 20 + ".log"
steady = settings(deadline=None, derandomize=True, database=None)


@pytest.fixture(scope="module")
def crash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with three batches of two records, as a crash leaves it."""
    path = tmp_path_factory.mktemp("crash")
    store = FileStore(path / "open")
    log = store.partition(topic_in(store), 0)
    for number in range(3):
        append(log, b"value %d" % number, b"second", time=NOW + number)
        flush(store)
    shutil.copytree(path / "open", path / "crash")
    store.close()
    return path / "crash"


@pytest.fixture(scope="module")
def three_batches(crash: Path) -> bytes:
    return (crash / LOG).read_bytes()


@contextmanager
def reopened(directory: Path, content: bytes) -> Iterator[FileStore]:
    """The store over these bytes; it ends as by a crash."""
    (directory / LOG).write_bytes(content)
    store = FileStore(directory)
    try:
        yield store
    finally:
        store.abandon()


def the_log(store: FileStore) -> PartitionLog:
    return store.partition(store.topics()["orders"].topic_id, 0)


def test_a_tail_torn_at_any_byte_is_cut_and_reported(crash: Path, three_batches: bytes) -> None:
    *_, (last, _) = batches(three_batches)
    for size in range(last, len(three_batches)):
        with reopened(crash, three_batches[:size]) as store:
            assert [record.offset for record in records(the_log(store))] == [0, 1, 2, 3]
            torn = [(cut.topic, cut.partition, cut.offset, cut.bytes_cut) for cut in store.recovered]
            assert torn == ([("orders", 0, 4, size - last)] if size > last else [])
            assert (crash / LOG).stat().st_size == last


def test_garbage_behind_the_last_batch_is_cut(
    crash: Path, three_batches: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    for garbage in (b"\0", b"\0" * 5000, b"\xff" * 61, three_batches[:70], three_batches):
        caplog.clear()
        with reopened(crash, three_batches + garbage) as store:
            assert len(records(the_log(store))) == 6
            assert [cut.bytes_cut for cut in store.recovered] == [len(garbage)]
            assert f"orders-0: dropped {len(garbage)} bytes from offset 6 on" in caplog.text


def test_every_flipped_bit_that_a_checksum_covers_is_noticed(crash: Path, three_batches: bytes) -> None:
    places = dict(batches(three_batches))
    expected = [
        Record(2 * n + m, NOW + n + m, b"key", (b"value %d" % n, b"second")[m]) for n in range(3) for m in (0, 1)
    ]
    for at in range(len(three_batches)):
        start = max(place for place in places if place <= at)
        if at - start in range(12, 16):
            continue  # the leader epoch, which brokers set
        damaged = bytearray(three_batches)
        damaged[at] ^= 1 << at % 8
        with reopened(crash, bytes(damaged)) as store:
            sound = places[start].base_offset
            assert [record._replace(headers=()) for record in records(the_log(store))] == expected[:sound]
            assert [cut.offset for cut in store.recovered] == [sound]


def test_sound_batches_behind_a_damaged_one_are_set_aside(crash: Path, three_batches: bytes) -> None:
    places = [position for position, _ in batches(three_batches)]
    aside = (crash / LOG).with_suffix(".log.cut")
    for place in places:
        aside.unlink(missing_ok=True)
        damaged = bytearray(three_batches)
        damaged[place + 30] ^= 1
        with reopened(crash, bytes(damaged)) as store:
            records(the_log(store))
        if place == places[-1]:
            assert not aside.exists()
        else:
            assert aside.read_bytes() == damaged[place:]


def test_a_broker_that_dies_before_it_makes_the_first_file_leaves_a_partition_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(tmp_path)
    topic_in(store)
    store.abandon()
    (tmp_path / LOG).parent.mkdir(exist_ok=True)
    synced: list[Path] = []
    monkeypatch.setattr(disk, "sync_directory", synced.append)
    monkeypatch.setattr(SyncChoice, "prefers_syncfs", lambda *_: False)
    store = FileStore(tmp_path)
    assert (the_log(store).start_offset, the_log(store).end_offset, store.recovered) == (0, 0, [])
    assert append(the_log(store), b"first") == 0
    flush(store)
    assert synced == [tmp_path, (tmp_path / LOG).parent]  # nobody has made the directory's own name durable
    store.abandon()
    store = FileStore(tmp_path)
    assert values(the_log(store)) == [b"first"]
    store.close()


def test_a_start_behind_what_is_left_is_where_new_offsets_begin(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    log = store.partition(topic_in(store), 0)
    for _ in range(3):
        append(log, b"old", b"second")
    flush(store)
    log.delete_before(5)
    store.abandon()
    os.truncate(tmp_path / LOG, log.size - 1)
    store = FileStore(tmp_path)
    assert (the_log(store).start_offset, the_log(store).end_offset) == (5, 5)
    assert append(the_log(store), b"next") == 5
    flush(store)
    store.abandon()
    store = FileStore(tmp_path)
    assert (values(the_log(store)), store.recovered) == ([b"next"], [])
    store.close()


@given(st.binary(max_size=400), st.integers(0, 250))
@settings(steady, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_any_bytes_can_be_opened_and_appended_to(crash: Path, three_batches: bytes, noise: bytes, kept: int) -> None:
    with reopened(crash, three_batches[:kept] + noise) as store:
        log = the_log(store)
        before = records(log)
        append(log, b"next")
        flush(store)
        assert values(log)[len(before) :] == [b"next"]


def test_damage_in_an_older_segment_is_skipped_and_what_follows_is_kept(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "open")
    log = store.partition(topic_in(store, configs={"segment.bytes": "500"}), 0)
    for number in range(20):
        append(log, b"%02d" % number * 50)
    flush(store)
    shutil.copytree(tmp_path / "open", tmp_path / "crash")
    store.close()
    _, second, *_ = sorted((tmp_path / "crash" / "orders-0").glob("*.log"))
    content = bytearray(second.read_bytes())
    *_, (last, header) = batches(content)
    content[last + 16] = 9  # its magic
    second.write_bytes(content)
    second.with_suffix(".index").unlink(missing_ok=True)
    store = FileStore(tmp_path / "crash")
    found = the_log(store)
    others = [number for number in range(20) if number != header.base_offset]
    assert [record.offset for record in records(found)] == others
    assert [record.offset for record in records(found, max_bytes=10)] == others
    assert [cut.offset for cut in store.recovered] == [header.base_offset]
    assert second.stat().st_size == len(content)
    store.close()


def test_a_failed_append_that_comes_back_behind_a_full_segment_is_not_served(tmp_path: Path) -> None:
    # Its cut was not synced before the power went, but the next segment was, whose offsets it had.
    store = FileStore(tmp_path)
    log = store.partition(topic_in(store, configs={"segment.bytes": "500"}), 0)
    for number in range(8):
        append(log, b"%02d" % number * 50)
    flush(store)
    expected = records(log)
    store.abandon()
    first, second, *_ = sorted((tmp_path / "orders-0").glob("*.log"))
    lost = bytearray(second.read_bytes())
    *_, (last, _) = batches(lost)
    with first.open("ab") as file:
        file.write(lost[:last])
    store = FileStore(tmp_path)
    assert records(the_log(store)) == expected
    assert [cut.bytes_cut for cut in store.recovered] == [last]
    store.close()
