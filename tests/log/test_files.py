"""Properties of files only: the directory's owner, descriptors, a full disk, and file names."""

import json
import os
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from kohort.log import BadDataDirectory, DataDirectoryInUse, Duplicate, FileStore, PartitionLog
from kohort.wire.batches import read_header
from tests.log.logs import NOW, append, at, batch, flush, open_below, records, topic_in, values


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@contextmanager
def opened(path: Path, **options: int) -> Iterator[FileStore]:
    store = FileStore(path, **options)  # type: ignore[arg-type]
    try:
        yield store
    finally:
        store.close()


def only_log(store: FileStore) -> PartitionLog:
    (topic,) = store.topics().values()
    return store.partition(topic.topic_id, 0)


def crashed(path: Path, copy: Path) -> Path:
    """The directory as it is while its store is open: what a crash leaves."""
    shutil.copytree(path, copy)
    return copy


@pytest.mark.parametrize("ending", ["closed", "crashed"])
def test_everything_is_restored(data: Path, tmp_path: Path, ending: str) -> None:
    with opened(data) as store:
        log = store.partition(topic_in(store, configs={"segment.bytes": "2000"}), 0)
        for number in range(100):
            append(log, b"%03d" % number * 20, time=NOW + number, producer_id=3, producer_epoch=1, base_sequence=number)
            flush(store)
        log.delete_before(7)
        expected = (records(log), log.find_time(NOW + 50), log.find_max_time(), log.size, store.topics())
        epoch, cluster = log.leader_epoch, store.cluster_id
        crash = crashed(data, tmp_path / "crash")
    with opened(data if ending == "closed" else crash) as store:
        log = store.partition(next(iter(store.topics().values())).topic_id, 0)
        found = (records(log), log.find_time(NOW + 50), log.find_max_time(), log.size, store.topics())
        times = [record and record.timestamp for record in (found[1], found[2])]
        assert (found[0], times, found[3:]) == (expected[0], [NOW + 50, NOW + 99], expected[3:])
        assert (log.start_offset, log.end_offset, log.stable_offset) == (7, 100, 100)
        assert (log.leader_epoch, store.cluster_id, store.recovered) == (epoch + 1, cluster, [])
        sent = batch(b"again", producer_id=3, producer_epoch=1, base_sequence=97)
        assert log.producers.check(read_header(sent)) == Duplicate(97, 97)
        assert append(log, b"next") == 100
        flush(store)
        assert values(log, 99) == [b"099" * 20, b"next"]


def test_a_log_grows_over_many_opens(data: Path) -> None:
    with opened(data) as store:
        topic_in(store, configs={"segment.bytes": "500"})
    for number in range(30):
        with opened(data) as store:
            assert append(only_log(store), b"%d" % number) == number
            flush(store)
    with opened(data) as store:
        assert values(only_log(store)) == [b"%d" % number for number in range(30)]
        assert only_log(store).leader_epoch == 31


def test_close_writes_pending_appends(data: Path) -> None:
    with opened(data) as store:
        topic_in(store)
        append(only_log(store), b"a")
    with opened(data) as store:
        assert values(only_log(store)) == [b"a"]


def test_a_missing_or_damaged_sidecar_is_made_up_for(data: Path, tmp_path: Path) -> None:
    with opened(data) as store:
        topic_in(store, configs={"segment.bytes": "1000"})
        for number in range(60):
            append(only_log(store), b"%03d" % number * 30, producer_id=3, producer_epoch=0, base_sequence=number)
            flush(store)
        expected = records(only_log(store))
    sidecars = sorted((data / "orders-0").glob("*.index"))
    assert len(sidecars) > 5
    whole = [sidecar.read_bytes() for sidecar in sidecars]
    for number, sidecar in enumerate(sidecars):
        content = sidecar.read_bytes()
        sidecar.write_bytes([b"", content[:-1], content[:50] + b"\xff" + content[51:]][number % 3])
    with opened(data) as store:
        log = only_log(store)
        assert records(log) == expected
        known = log.producers.get(3)
        assert known is not None and [batch.last_sequence for batch in known.batches] == [55, 56, 57, 58, 59]
        assert store.recovered == []
    assert [sidecar.read_bytes() for sidecar in sidecars] == whole


def test_a_second_owner_gets_the_name_of_the_first(data: Path) -> None:
    with opened(data):
        command = [sys.executable, "-c", f"from kohort.log import FileStore; FileStore({str(data)!r})"]
        second = subprocess.run(command, capture_output=True, text=True, check=False)
        assert f"{data} is in use by process {os.getpid()}; stop it, or choose another" in second.stderr
        with pytest.raises(DataDirectoryInUse):
            FileStore(data)
    with opened(data):
        pass


def test_a_directory_of_somebody_else_is_left_alone(data: Path) -> None:
    data.mkdir()
    (data / "thesis.txt").write_text("important")
    with pytest.raises(BadDataDirectory, match=r"not empty .* 'thesis\.txt'"):
        FileStore(data)
    assert not (data / "kohort.json").exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 2}', '{"format": 1, "cluster_id": "other"}'])
def test_a_directory_that_cannot_be_read_is_refused_in_a_sentence(data: Path, content: str) -> None:
    data.mkdir()
    (data / "kohort.json").write_text(content)
    for _ in range(2):  # and the lock is free again
        with pytest.raises(BadDataDirectory, match="data"):
            FileStore(data, cluster_id="mine")


def test_a_path_that_cannot_be_a_directory_is_refused_in_a_sentence(data: Path) -> None:
    data.write_text("a file")
    with pytest.raises(BadDataDirectory, match=r"cannot use .*: File exists"):
        FileStore(data)
    with pytest.raises(BadDataDirectory, match=r"cannot use .*: Not a directory"):
        FileStore(data / "below")


def test_a_full_disk_at_start_is_a_sentence_too(data: Path) -> None:
    with files_limited_to(20), pytest.raises(BadDataDirectory, match=r"cannot write to .*: File too large"):
        FileStore(data)


@pytest.mark.parametrize("topics", ["[]", "{}", '{"topics": [{"name": "a"}]}', "x"])
def test_damaged_topics_are_refused_in_a_sentence(data: Path, topics: str) -> None:
    with opened(data):
        pass
    (data / "topics.json").write_text(topics)
    with pytest.raises(BadDataDirectory, match=r"topics\.json"):
        FileStore(data)


@pytest.mark.parametrize("name", ["", ".", "..", "../evil", "/etc/evil", "a/b", "a\0b", "a b", "x" * 250])
def test_no_topic_name_leaves_the_directory(data: Path, name: str) -> None:
    with opened(data) as store:
        with pytest.raises(BadDataDirectory):
            topic_in(store, name)
        assert store.topics() == {}
    stored = {"topics": [{"id": "0" * 32, "name": name, "partitions": 1, "configs": {}}]}
    (data / "topics.json").write_text(json.dumps(stored))
    with pytest.raises(BadDataDirectory):
        FileStore(data)


def test_creating_topics_creates_no_files_before_the_first_write(data: Path) -> None:
    with opened(data) as store:
        topic_id = topic_in(store, "__consumer_offsets", 50)
        for partition in range(50):
            assert store.partition(topic_id, partition).end_offset == 0
        assert [entry.name for entry in data.iterdir() if entry.is_dir()] == []


def test_ten_thousand_partitions_need_a_handful_of_descriptors(data: Path) -> None:
    with opened(data, max_open_files=8) as store:
        topic_id = topic_in(store, "wide", 10_000)
        logs = [store.partition(topic_id, number) for number in range(10_000)]
        before = open_below(data)
        for _ in range(2):
            for log in logs[::200]:
                append(log, b"a")
            flush(store)
        assert all(values(log) == [b"a", b"a"] for log in logs[::200])
        assert open_below(data) - before == 16  # eight to write and eight to read
    with opened(data, max_open_files=8) as store:
        before = open_below(data)
        assert [store.partition(topic_id, number).end_offset for number in range(0, 10_000, 200)] == [2] * 50
        assert open_below(data) == before


def test_a_process_without_descriptors_left_reuses_its_own(data: Path) -> None:
    with opened(data) as store:
        topic_id = topic_in(store, partitions=20)
        for number in range(20):
            append(store.partition(topic_id, number), b"a")
    with opened(data) as store:
        logs = [store.partition(topic_id, number) for number in range(20)]
        for log in logs[:10]:
            append(log, b"b")
        flush(store)
        assert all(values(log) == [b"a", b"b"] for log in logs[:10])
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest_free = os.dup(0)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
        try:
            for log in logs[10:]:
                append(log, b"b")
                flush(store)
                assert values(log) == [b"a", b"b"]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_writer_thread_and_the_event_loop_do_not_disturb_each_other(data: Path) -> None:
    with opened(data, max_open_files=4) as store, ThreadPoolExecutor(1) as writer:
        topic_id = topic_in(store, partitions=8, configs={"segment.bytes": "3000", "retention.bytes": "9000"})
        logs = [store.partition(topic_id, number) for number in range(8)]
        expected: list[list[bytes]] = [[] for _ in logs]
        chance = random.Random(5)
        for round_number in range(150):
            for _ in range(20):
                number = chance.randrange(8)
                value = b"%d %d" % (round_number, number) * chance.randint(1, 60)
                append(logs[number], value)
                expected[number].append(value)
            pending = store.take()
            assert pending is not None
            synced = writer.submit(store.sync, pending)
            # Meanwhile the event loop continues.
            number = chance.randrange(8)
            log = logs[number]
            start = log.apply_retention(at(NOW)) if round_number % 5 == 0 else log.start_offset
            assert values(log) == expected[number][start : log.stable_offset]
            if round_number % 10 == 0:
                store.delete_topic(topic_in(store, f"passing-{round_number}"))
            synced.result()
            store.settle(pending)
        assert [values(log) for log in logs] == [
            written[log.start_offset :] for log, written in zip(logs, expected, strict=True)
        ]
        final = [records(log) for log in logs]
    with opened(data) as store:
        assert [records(store.partition(topic_id, number)) for number in range(8)] == final


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """The kernel refuses to let any file of this process grow beyond that, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_loses_nothing_acknowledged_and_keeps_nothing_else(data: Path, tmp_path: Path) -> None:
    with opened(data) as store:
        topic_id = topic_in(store)
        log, other = store.partition(topic_id, 0), store.partition(topic_id, 1)
        append(log, b"kept" * 1000)
        flush(store)
        for round_number in range(3):
            append(log, b"lost" * 1000)
            append(other, b"fits, and is lost all the same")
            append(log, b"lost" * 5000)
            pending = store.take()
            assert pending is not None
            with files_limited_to(12_000), pytest.raises(OSError, match="File too large") as raised:
                store.sync(pending)
            store.fail(pending, raised.value)
            assert values(log) == [b"kept" * 1000] + [b"small"] * round_number
            assert (values(other), store.queued_bytes) == ([], 0)
            append(log, b"small")
            flush(store)
        append(log, b"large" * 5000)
        flush(store)
        expected = records(log)
        assert [record.value for record in expected][1:] == [b"small"] * 3 + [b"large" * 5000]
        crash = crashed(data, tmp_path / "crash")
    for path in (data, crash):
        with opened(path) as store:
            assert records(only_log(store)) == expected
            assert store.partition(topic_id, 1).end_offset == 0
            assert store.recovered == []


def test_a_failed_append_to_a_new_segment_leaves_no_segment(data: Path, tmp_path: Path) -> None:
    with opened(data) as store:
        log = store.partition(topic_in(store, configs={"segment.bytes": "1000"}), 0)
        append(log, b"kept" * 200)
        flush(store)
        append(log, b"lost" * 1000)
        append(log, b"lost too" * 1000)
        pending = store.take()
        assert pending is not None
        with files_limited_to(6000), pytest.raises(OSError, match="File too large") as raised:
            store.sync(pending)
        store.fail(pending, raised.value)
        assert append(log, b"next" * 200) == 1
        flush(store)
        expected = [b"kept" * 200, b"next" * 200]
        assert values(log) == expected
        crash = crashed(data, tmp_path / "crash")
    for path in (data, crash):
        with opened(path) as store:
            assert values(only_log(store)) == expected


def test_a_disk_that_is_full_at_close_is_not_called_clean(data: Path) -> None:
    store = FileStore(data)
    topic_in(store)
    append(only_log(store), b"kept")
    flush(store)
    append(only_log(store), b"lost" * 1000)
    with files_limited_to(2000), pytest.raises(OSError, match="File too large"):
        store.close()
    assert json.loads((data / "kohort.json").read_text())["clean"] is False
    with opened(data) as store:
        assert values(only_log(store)) == [b"kept"]


def test_a_deleted_topics_bytes_are_freed_by_the_next_sync(data: Path) -> None:
    with opened(data) as store:
        topic_id = topic_in(store)
        append(store.partition(topic_id, 0), b"a")
        flush(store)
        store.delete_topic(topic_id)
        assert not (data / "orders-0").exists()
        flush(store)
        assert sorted(entry.name for entry in data.iterdir()) == ["kohort.json", "lock", "topics.json"]


def test_leftovers_of_an_interrupted_deletion_do_not_become_a_new_topics(data: Path) -> None:
    with opened(data) as store:
        topic_id = topic_in(store)
        append(store.partition(topic_id, 0), b"old")
        append(store.partition(topic_id, 2), b"old")
    (data / "topics.json").write_text('{"topics": []}')
    (data / "orders-2").rename(data / "orders-2.0-delete")
    with opened(data) as store:
        topic_id = topic_in(store, partitions=1)
        assert store.partition(topic_id, 0).end_offset == 0
        topic = store.topics()["orders"]
        (data / "orders-1").mkdir()
        flush(store)
        append(store.partition(topic.topic_id, 0), b"new")
    assert not (data / "orders-2.0-delete").exists()
    with opened(data) as store:
        assert values(only_log(store)) == [b"new"]


def test_partitions_added_to_a_topic_are_empty_despite_old_files(data: Path) -> None:
    with opened(data) as store:
        topic_in(store, partitions=1)
    (data / "orders-1").mkdir()
    (data / "orders-1" / ("0" * 20 + ".log")).write_bytes(batch(b"stray"))
    with opened(data) as store:
        topic = store.topics()["orders"]
        store.alter_topic(type(topic)(topic.topic_id, "orders", 2, {}))
        assert store.partition(topic.topic_id, 1).end_offset == 0


def test_dropped_segments_leave_no_files(data: Path) -> None:
    with opened(data) as store:
        log = store.partition(topic_in(store, configs={"segment.bytes": "200", "retention.ms": "1000"}), 0)
        for number in range(20):
            append(log, b"x" * 100, time=NOW + number)
            flush(store)
        log.truncate(15)
        log.delete_before(5)
        flush(store)
        log.apply_retention(at(NOW + 100_000))
        flush(store)
        assert [path.name for path in (data / "orders-0").glob("*.log")] == [f"{15:020}.log"]
        assert list((data / "orders-0").glob("*.deleted")) == []
    with opened(data) as store:
        assert (only_log(store).start_offset, only_log(store).end_offset) == (15, 15)


def test_segments_below_the_start_are_removed_when_that_was_interrupted(data: Path) -> None:
    with opened(data) as store:
        log = store.partition(topic_in(store, configs={"segment.bytes": "200"}), 0)
        for _ in range(10):
            append(log, b"x" * 100)
        flush(store)
    (data / "orders-0" / "start-offset").write_text("6")
    with opened(data) as store:
        assert [record.offset for record in records(only_log(store))] == [6, 7, 8, 9]
    assert len(list((data / "orders-0").glob("*.log"))) == 4


def test_a_removed_file_is_an_error_and_not_created_again(data: Path) -> None:
    with opened(data) as store:
        topic_in(store)
        append(only_log(store), b"a")
    with opened(data) as store:
        append(only_log(store), b"b")
        pending = store.take()
        assert pending is not None
        path = data / "orders-0" / ("0" * 20 + ".log")
        path.rename(data / "kept")
        with pytest.raises(FileNotFoundError) as raised:
            store.sync(pending)
        (data / "kept").rename(path)
        store.fail(pending, raised.value)
        assert values(only_log(store)) == [b"a"]


def test_a_file_that_was_cut_by_somebody_else_is_an_error_and_not_garbage(data: Path) -> None:
    with opened(data) as store:
        topic_in(store)
        append(only_log(store), b"x" * 1000)
        flush(store)
        os.truncate(data / "orders-0" / ("0" * 20 + ".log"), 500)
        with pytest.raises(OSError, match="shorter: another program changed it"):
            records(only_log(store))
