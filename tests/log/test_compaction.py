"""Compaction: records that are kept and removed, when, and at which offsets; killed at any step; memory and files."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kohort.log import Accepted, Duplicate, FileStore, LogStore, MemoryStore, PartitionLog
from kohort.log.sidecar import decode_sidecar
from kohort.wire.batches import (
    Codec,
    Marker,
    Record,
    batches,
    decode_records,
    encode_batch,
    encode_marker,
    read_header,
    read_marker,
)
from tests.log.logs import NOW, at, flush, records, topic_in

DAY = 86_400_000
TABLE = {"cleanup.policy": "compact", "segment.bytes": "600", "min.cleanable.dirty.ratio": "0.01"}
MAP = 1 << 20

Change = tuple[bytes, bytes | None]


def put(log: PartitionLog, *changes: Change, time: int = NOW, codec: Codec = Codec.NONE, **producer: int) -> int:
    made = [Record(offset, time + offset, key, value) for offset, (key, value) in enumerate(changes)]
    return log.append(encode_batch(made, codec, **producer), log.leader_epoch)  # type: ignore[arg-type]


def fill(store: LogStore, log: PartitionLog, changes: Iterable[Change]) -> None:
    """One batch each, then enough to fill the segment that they end in."""
    for change in changes:
        put(log, change)
    put(log, (b"filler", b"x" * 600))
    put(log, (b"filler", b"x"))
    flush(store)


def compact(store: LogStore, log: PartitionLog, now: int = NOW, max_map_bytes: int = MAP) -> None:
    compaction = log.compact(now, max_map_bytes)
    while True:
        for _ in compaction.work():
            pass
        if not compaction.swap():
            break
    flush(store)


def table(found: Iterable[Record]) -> dict[bytes, bytes]:
    """Return the newest value of each key, as a reader of the whole log gets it."""
    made: dict[bytes, bytes] = {}
    for record in found:
        assert record.key is not None
        made.pop(record.key, None)
        if record.value is not None:
            made[record.key] = record.value
    return made


def the_log(store: LogStore) -> PartitionLog:
    return store.partition(store.topics()["orders"].topic_id, 0)


@pytest.fixture
def log(store: LogStore) -> PartitionLog:
    return store.partition(topic_in(store, configs=TABLE), 0)


def test_the_last_value_of_each_key_stays_where_it_was(store: LogStore, log: PartitionLog) -> None:
    fill(store, log, [(b"k%d" % (n % 7), b"v%d" % n * 10) for n in range(100)])
    before, size = records(log), log.size
    compact(store, log)
    after = records(log)
    assert set(after) <= set(before)
    assert table(after) == table(before)
    assert sorted(record.offset for record in after if record.key != b"filler") == list(range(93, 100))
    assert (log.start_offset, log.stable_offset, log.end_offset) == (0, 102, 102)
    assert log.size < size / 5
    assert log.cleanable_ratio(NOW) == 0


def test_every_offset_in_a_gap_reads_on_behind_it(store: LogStore, log: PartitionLog) -> None:
    fill(store, log, [(b"k%d" % (n % 3), b"v%d" % n * 10) for n in range(60)])
    compact(store, log)
    after = records(log)
    for offset in range(log.stable_offset):
        for size in (1, 100, 1 << 20):
            part, *_ = log.read(offset, size)
            first = next(header for _, header in batches(part))
            assert first.last_offset >= offset
            assert first.last_offset == min(record.offset for record in after if record.offset >= offset)
    assert list(log.read(log.stable_offset, 100)) == []


def test_a_look_up_by_time_finds_what_is_left(store: LogStore, log: PartitionLog) -> None:
    for number in range(60):
        put(log, (b"k%d" % (number % 3), b"v" * 40), time=NOW + number)
    fill(store, log, [])
    compact(store, log)
    found = log.find_time(NOW)
    assert found is not None and (found.offset, found.timestamp) == (57, NOW + 57)
    newest = log.find_max_time()
    assert newest is not None and newest.timestamp == NOW + 59
    assert log.find_time(NOW + 60) is None


def test_the_active_segment_is_not_compacted(store: LogStore, log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    flush(store)
    assert log.cleanable_ratio(NOW) == 0
    compact(store, log)
    assert [record.value for record in records(log)] == [b"1", b"2"]


def test_only_a_compacted_topic_is_ever_cleanable(store: LogStore) -> None:
    log = store.partition(topic_in(store, configs=TABLE | {"cleanup.policy": "delete"}), 0)
    fill(store, log, [(b"k", b"v" * 50) for _ in range(50)])
    assert log.cleanable_ratio(NOW) == 0


def test_a_tombstone_stays_for_delete_retention_after_compaction_met_it(store: LogStore) -> None:
    log = store.partition(topic_in(store, configs=TABLE | {"delete.retention.ms": "1000"}), 0)
    put(log, (b"gone", b"1"), (b"kept", b"2"), time=NOW)
    put(log, (b"gone", None), (b"other", b"3"), time=NOW + 5)
    fill(store, log, [])
    first = records(log)
    compact(store, log, NOW + DAY)
    # The clock of a tombstone begins with its first compaction, however old it is by then (KIP-534).
    assert records(log) == [record for record in first if record.offset > 0]
    fill(store, log, [])
    compact(store, log, NOW + DAY + 999)
    assert [record.value for record in records(log)][:3] == [b"2", None, b"3"]
    assert records(log)[1].timestamp == NOW + 5
    fill(store, log, [])
    compact(store, log, NOW + DAY + 1000)
    assert [(record.offset, record.value, record.timestamp) for record in records(log)][:2] == [
        (1, b"2", NOW + 1),
        (3, b"3", NOW + 6),
    ]


def test_the_dirty_ratio_decides_when(store: LogStore) -> None:
    log = store.partition(topic_in(store, configs=TABLE | {"min.cleanable.dirty.ratio": "0.5"}), 0)
    fill(store, log, [(b"k%d" % n, b"v" * 50) for n in range(50)])
    assert log.cleanable_ratio(NOW) == 1
    compact(store, log)
    fill(store, log, [(b"k%d" % n, b"w" * 50) for n in range(20)])
    assert log.cleanable_ratio(NOW) == 0
    fill(store, log, [(b"k%d" % n, b"w" * 50) for n in range(60)])
    assert 0.5 < log.cleanable_ratio(NOW) < 1


def test_young_records_wait_for_min_compaction_lag(store: LogStore) -> None:
    log = store.partition(topic_in(store, configs=TABLE | {"min.compaction.lag.ms": "1000"}), 0)
    fill(store, log, [(b"k", b"v" * 50) for _ in range(50)])
    assert log.cleanable_ratio(NOW + 500) == 0
    compact(store, log, NOW + 500)
    assert len(records(log)) == 52
    assert log.cleanable_ratio(NOW + 2000) == 1
    compact(store, log, NOW + 2000)
    assert len(records(log)) == 3


def test_max_compaction_lag_passes_over_the_ratio_and_rolls(store: LogStore) -> None:
    configs = TABLE | {"min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": "1000", "segment.bytes": "100000"}
    log = store.partition(topic_in(store, configs=configs), 0)
    put(log, (b"k", b"1"), time=NOW)
    put(log, (b"k", b"2"), time=NOW + 900)
    put(log, (b"k", b"3"), time=NOW + 1100)
    flush(store)
    assert log.cleanable_ratio(NOW + 900) == 0
    assert log.cleanable_ratio(NOW + 1100) == 1
    compact(store, log, NOW + 1100)
    assert [record.value for record in records(log)] == [b"2", b"3"]


def test_too_many_keys_for_its_memory_take_several_passes(store: LogStore, log: PartitionLog) -> None:
    fill(store, log, [(b"k%d" % (n % 50), b"v%d" % n) for n in range(300)])
    before = table(records(log))
    sizes = [len(records(log))]
    while log.cleanable_ratio(NOW):
        compact(store, log, max_map_bytes=4000)
        sizes.append(len(records(log)))
        assert table(records(log)) == before
    assert len(sizes) > 5
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 52


def test_long_keys_count_by_their_digest(store: LogStore, log: PartitionLog) -> None:
    fill(store, log, [(b"k" * 200 + b"%d" % (n % 3), b"v%d" % n) for n in range(30)])
    before = table(records(log))
    compact(store, log)
    assert table(records(log)) == before
    assert len(records(log)) == 5


def test_a_record_without_a_key_has_no_place_in_a_table(store: LogStore, log: PartitionLog) -> None:
    log.append(encode_batch([Record(0, NOW, None, b"x"), Record(1, NOW, b"k", b"y")]), log.leader_epoch)
    fill(store, log, [])
    compact(store, log)
    assert next(record.value for record in records(log)) == b"y"


@pytest.mark.parametrize("codec", Codec)
def test_a_compressed_batch_stays_compressed(store: LogStore, log: PartitionLog, codec: Codec) -> None:
    put(log, *[(b"k%d" % n, b"v" * 50) for n in range(20)], codec=codec, time=NOW)
    put(log, *[(b"k%d" % n, b"w" * 50) for n in range(10)], codec=codec, time=NOW + 100)
    fill(store, log, [])
    expected = [record for record in records(log) if record.offset >= 10]
    compact(store, log)
    assert records(log) == expected
    first, second = [header for part in log.read(0, 1 << 20) for _, header in batches(part)][:2]
    assert (first.codec, second.codec) == (codec, codec)
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 19, 10)
    assert first.max_timestamp == NOW + 19


def test_headers_and_timestamps_survive_compaction(store: LogStore, log: PartitionLog) -> None:
    made = [Record(n, NOW + 7 * n, b"k%d" % n, b"v", [("h", b"%d" % n), ("none", None)]) for n in range(4)]
    log.append(encode_batch(made), log.leader_epoch)
    put(log, (b"k0", None), (b"k2", b"new"))
    fill(store, log, [])
    expected = [record for record in records(log) if record.offset not in (0, 2)]
    compact(store, log, NOW + DAY)
    assert records(log) == expected


def test_idempotent_producers_go_on_where_they_were(store: LogStore, log: PartitionLog) -> None:
    for number in range(8):
        put(log, (b"k", b"%d" % number), producer_id=5, producer_epoch=1, base_sequence=number)
    put(log, (b"k", b"other"), producer_id=6, producer_epoch=0, base_sequence=0)
    fill(store, log, [(b"k", b"last")])
    compact(store, log)
    assert next(record.value for record in records(log)) == b"last"
    left = {header.producer_id: header for part in log.read(0, 1 << 20) for _, header in batches(part)}
    assert (left[5].base_sequence, left[5].last_offset, left[5].record_count) == (7, 7, 0)
    assert (left[6].base_offset, left[6].record_count) == (8, 0)
    again = read_header(put_elsewhere(producer_id=5, producer_epoch=1, base_sequence=7))
    following = read_header(put_elsewhere(producer_id=5, producer_epoch=1, base_sequence=8))
    assert log.producers.check(again) == Duplicate(7, 7)
    assert log.producers.check(following) == Accepted()


def put_elsewhere(**producer: int) -> bytearray:
    return encode_batch([Record(0, NOW, b"k", b"v")], **producer)  # type: ignore[arg-type]


@pytest.mark.parametrize("sidecars", [True, False])
def test_producers_are_known_after_a_restart_too(tmp_path: Path, sidecars: bool) -> None:
    store = FileStore(tmp_path)
    log = store.partition(topic_in(store, configs=TABLE), 0)
    for number in range(8):
        put(log, (b"k", b"%d" % number), producer_id=5, producer_epoch=1, base_sequence=number)
    fill(store, log, [(b"k", b"last" * 40)] * 5)
    compact(store, log)
    expected = records(log)
    store.close()
    for sidecar in (tmp_path / "orders-0").glob("*.index"):
        if not sidecars:
            sidecar.unlink()
    store = FileStore(tmp_path)
    assert records(the_log(store)) == expected
    again = read_header(put_elsewhere(producer_id=5, producer_epoch=1, base_sequence=7))
    assert the_log(store).producers.check(again) == Duplicate(7, 7)
    store.close()


def test_several_small_segments_become_one(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    log = store.partition(topic_in(store, configs=TABLE), 0)
    fill(store, log, [(b"k%d" % (n % 4), b"v" * 100) for n in range(60)])
    before = len(list((tmp_path / "orders-0").glob("*.log")))
    compact(store, log)
    assert before > 10
    names = sorted(path.name for path in (tmp_path / "orders-0").iterdir())
    assert len([name for name in names if name.endswith(".log")]) <= 4
    assert not [name for name in names if name.endswith((".swap", ".cleaned", ".deleted", ".new"))]
    store.close()


def test_compaction_and_retention_together(store: LogStore) -> None:
    log = store.partition(topic_in(store, configs=TABLE | {"cleanup.policy": "compact,delete"}), 0)
    fill(store, log, [(b"k%d" % (n % 4), b"v" * 100) for n in range(40)])
    compaction = log.compact(NOW, MAP)
    for _ in compaction.work():
        # Retention would take the segments away from under it.
        assert log.delete_before(3) == 3
        assert log.apply_retention(at(NOW + 30 * DAY)) == 3
    assert compaction.swap()
    compaction.close()
    assert log.start_offset == 3
    assert {record.key for record in records(log)} == {b"k0", b"k1", b"k2", b"k3", b"filler"}
    assert log.apply_retention(at(NOW + 30 * DAY)) == log.end_offset
    assert records(log) == []


def test_an_emptied_segment_does_not_block_reads(store: LogStore) -> None:
    log = store.partition(topic_in(store, configs=TABLE | {"cleanup.policy": "compact,delete"}), 0)
    fill(store, log, [(b"k", b"v" * 500), (b"k", b"v" * 500)])
    fill(store, log, [(b"k", b"v" * 500), (b"k", b"v" * 500)])
    compact(store, log)
    assert next(record.offset for record in records(log)) > 3
    assert log.apply_retention(at(NOW + 30 * DAY)) == log.end_offset


def test_a_deleted_topic_is_let_go(tmp_path: Path) -> None:
    with_room = FileStore(tmp_path)
    topic_id = topic_in(with_room, configs=TABLE)
    log = with_room.partition(topic_id, 0)
    fill(with_room, log, [(b"k%d" % (n % 4), b"v" * 100) for n in range(40)])
    compaction = log.compact(NOW, MAP)
    for _ in compaction.work():
        pass
    with_room.delete_topic(topic_id)
    flush(with_room)
    again = with_room.partition(topic_in(with_room, configs=TABLE), 0)
    fill(with_room, again, [(b"new", b"v")])
    assert not compaction.swap()
    compaction.close()
    assert next(record.key for record in records(again)) == b"new"
    with_room.close()


def test_a_damaged_batch_stops_compaction_and_nothing_is_lost(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    log = store.partition(topic_in(store, configs=TABLE), 0)
    fill(store, log, [(b"k%d" % (n % 4), b"v" * 100) for n in range(40)])
    first = min((tmp_path / "orders-0").glob("*.log"))
    content = bytearray(first.read_bytes())
    content[100] ^= 1
    first.write_bytes(content)
    compaction = log.compact(NOW, MAP)
    with pytest.raises(Exception, match="checksum of the batch at offset 0 is wrong"):
        for _ in compaction.work():
            pass
    compaction.close()
    assert first.read_bytes() == content
    assert not list((tmp_path / "orders-0").glob("*.cleaned"))
    store.close()


changes = st.lists(
    st.tuples(st.sampled_from([b"a", b"b", b"c", b"d" * 70]), st.one_of(st.none(), st.binary(max_size=60))),
    min_size=1,
    max_size=5,
)
steady = settings(deadline=None, derandomize=True, database=None)


@given(st.lists(changes, min_size=1, max_size=25), st.lists(st.integers(0, 60), max_size=4), st.integers(1, 400))
@settings(steady, max_examples=60)
def test_a_reader_ends_up_with_the_same_table_however_often_it_is_compacted(
    history: list[list[Change]], pauses: list[int], map_keys: int
) -> None:
    store = MemoryStore()
    log = store.partition(topic_in(store, configs=TABLE | {"delete.retention.ms": "50"}), 0)
    now, sequence = NOW, 0
    for number, batch in enumerate(history):
        put(log, *batch, time=now, producer_id=1, producer_epoch=0, base_sequence=sequence)
        sequence += len(batch)
        flush(store)
        before, first = records(log), table(records(log))
        if number < len(pauses):
            now += pauses[number]
            compact(store, log, now, map_keys * 200)
        after = records(log)
        assert table(after) == first
        assert [(record.offset, record.key, record.value, record.timestamp) for record in after] == [
            (record.offset, record.key, record.value, record.timestamp) for record in before if record in after
        ]
        known = log.producers.get(1)
        assert known is not None and known.batches[-1].last_sequence == sequence - 1
    store.close()


@given(st.data())
@settings(steady, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_killed_at_any_step_nothing_is_lost(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    root = tmp_path_factory.mktemp("steps")
    store = FileStore(root / "data")
    log = store.partition(topic_in(store, configs=TABLE | {"segment.bytes": "1500"}), 0)
    keys = data.draw(st.integers(2, 30))
    fill(store, log, [(b"k%d" % (n % keys), b"v%d" % n * 8) for n in range(80)])
    expected = table(records(log))
    stop_at, copies = data.draw(st.integers(0, 120)), 0

    def crashed() -> None:
        nonlocal copies
        copies += 1
        shutil.copytree(root / "data", root / str(copies))
        again = FileStore(root / str(copies))
        found = records(the_log(again))
        assert [record.offset for record in found] == sorted({record.offset for record in found})
        assert (table(found), again.recovered) == (expected, [])
        fill(again, the_log(again), [(b"later", b"1")])
        compact(again, the_log(again))
        assert table(records(the_log(again))) == table([*found, *records(the_log(again), log.end_offset)])
        again.close()

    compaction, step, going = log.compact(NOW, MAP), 0, True
    while going:
        for _ in compaction.work():
            step += 1
            if step == stop_at:
                crashed()
        crashed()  # committed and not in place
        going = compaction.swap()
    crashed()
    store.close()
    shutil.rmtree(root)


@pytest.mark.parametrize("renamed", range(6))
def test_killed_in_the_middle_of_a_swap_it_is_finished(tmp_path: Path, renamed: int) -> None:
    store = FileStore(tmp_path / "data")
    log = store.partition(topic_in(store, configs=TABLE), 0)
    fill(store, log, [(b"k%d" % (n % 4), b"v%d" % n * 30) for n in range(40)])
    expected = table(records(log))
    compaction = log.compact(NOW, MAP)
    for _ in compaction.work():
        pass
    directory = shutil.copytree(tmp_path / "data", tmp_path / "crash") / "orders-0"
    store.abandon()
    (swap,) = directory.glob("*.swap")
    base, end = (int(part) for part in swap.stem.split("-"))
    inside = [path for path in sorted(directory.glob("*.log")) if base < int(path.stem) < end]
    cleaned = next(directory.glob("*.cleaned"))
    if renamed:
        cleaned.replace(cleaned.with_suffix(""))
    for path in inside[: renamed * len(inside) // 5]:
        path.replace(path.with_name(path.name + ".deleted"))
    again = FileStore(tmp_path / "crash")
    assert table(records(the_log(again))) == expected
    left = {path.suffix for path in directory.iterdir()}
    assert left <= {".log", ".index"}
    assert not set(inside) & set(directory.iterdir())
    again.close()


def tombstones(tmp_path: Path) -> tuple[FileStore, PartitionLog, Path]:
    """A store whose first segment is full of them: its first compaction makes it larger, for it notes when they go."""
    store = FileStore(tmp_path / "data")
    log = store.partition(topic_in(store, configs=TABLE), 0)
    put(log, *((b"gone %d" % number, None) for number in range(30)))
    put(log, (b"filler", b"x" * 600))
    pending = store.take()
    assert pending is not None
    store.sync(pending)
    store.settle(pending)
    return store, log, tmp_path / "data" / "orders-0" / f"{0:020}.log"


def test_a_pending_sidecar_does_not_describe_the_compacted_segment(tmp_path: Path) -> None:
    store, log, segment = tombstones(tmp_path)
    expected, size = records(log), segment.stat().st_size
    compact(store, log, NOW + DAY)
    assert segment.stat().st_size > size
    sidecar = segment.with_suffix(".index")
    told = decode_sidecar(sidecar.read_bytes(), 0, segment.stat().st_size) if sidecar.exists() else None
    assert told is None or told.size == segment.stat().st_size
    store.abandon()
    again = FileStore(tmp_path / "data")
    assert records(the_log(again)) == expected
    again.close()


def test_a_sidecar_of_the_segment_that_compaction_replaced_is_not_believed(tmp_path: Path) -> None:
    store, log, segment = tombstones(tmp_path)
    flush(store)
    sidecar = segment.with_suffix(".index")
    stale, expected = sidecar.read_bytes(), records(log)
    compact(store, log, NOW + DAY)
    store.abandon()
    sidecar.write_bytes(stale)
    again = FileStore(tmp_path / "data")
    assert records(the_log(again)) == expected
    assert not again.recovered
    again.close()


@pytest.mark.parametrize("placed", [True, False])
def test_an_unfinished_compaction_is_finished_by_the_next_one(tmp_path: Path, placed: bool) -> None:
    store = FileStore(tmp_path / "data")
    log = store.partition(topic_in(store, configs=TABLE), 0)
    directory = tmp_path / "data" / "orders-0"
    fill(store, log, [(b"k%d" % (n % 4), b"v%d" % n * 30) for n in range(40)])
    compact(store, log)
    # As if its last steps had met a disk that took no changes.
    (directory / f"{0:020}-{30:020}.swap").touch()
    left = directory / (f"{10:020}.log" if placed else f"{0:020}.log.cleaned")
    left.write_bytes(b"old")
    fill(store, log, [(b"k%d" % (n % 4), b"w%d" % n * 30) for n in range(40)])
    expected = table(records(log))
    compaction = log.compact(NOW, MAP)
    steps = compaction.work()
    for _ in range(45):
        next(steps)
    assert (directory / f"{0:020}.log.cleaned").stat().st_size == 0  # begun
    shutil.copytree(tmp_path / "data", tmp_path / "crash")
    steps.close()  # type: ignore[attr-defined]
    compaction.close()
    again = FileStore(tmp_path / "crash")
    assert table(records(the_log(again))) == expected
    again.close()
    assert not left.exists() and not list(directory.glob("*.swap"))
    store.close()


def test_records_of_a_compacted_log_decode_like_any_other(store: LogStore, log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"b", None), (b"a", b"2"), time=NOW)
    fill(store, log, [])
    compact(store, log, NOW + 3)
    part, *_ = log.read(0, 1 << 20)
    first = read_header(part)
    assert first.delete_horizon == NOW + 3 + DAY
    assert [(record.offset, record.timestamp, record.value) for record in decode_records(part)] == [
        (1, NOW + 1, None),
        (2, NOW + 2, b"2"),
    ]


def end(log: PartitionLog, *, commit: bool, producer_id: int = 1) -> None:
    log.append(encode_marker(producer_id, 0, Marker(commit, 5), NOW), log.leader_epoch)


def in_transaction(log: PartitionLog, *pairs: tuple[bytes, bytes | None], sequence: int = 0) -> None:
    put(log, *pairs, transactional=True, producer_id=1, producer_epoch=0, base_sequence=sequence)


def markers(log: PartitionLog) -> list[tuple[int, Marker | None]]:
    found = []
    for part in log.read(log.start_offset, 1 << 20):
        for position, header in batches(part):
            if header.is_control:
                found.append((header.base_offset, read_marker(memoryview(part)[position:])))
    return found


def test_records_of_a_committed_transaction_are_compacted_like_any_other(store: LogStore, log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    in_transaction(log, (b"a", b"2"), (b"c", b"2"))
    end(log, commit=True)
    put(log, (b"c", b"3"))
    fill(store, log, [])
    compact(store, log)
    assert [(record.key, record.value) for record in records(log) if record.value in (b"1", b"2", b"3")] == [
        (b"b", b"1"),
        (b"a", b"2"),
        (b"c", b"3"),
    ]
    assert markers(log) == [(4, Marker(True, 5))]


def test_records_of_an_aborted_transaction_replace_nothing_and_are_removed(store: LogStore, log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"a", b"2"))
    in_transaction(log, (b"a", b"3"), (b"b", b"3"))
    end(log, commit=False)
    in_transaction(log, (b"c", b"4"), sequence=2)
    end(log, commit=True)
    fill(store, log, [])
    compact(store, log)
    assert [record.value for record in records(log) if record.value in (b"1", b"2", b"3", b"4")] == [b"2", b"4"]
    # A reader that knows of the abort skips the records of the producer up to the marker, and no further.
    assert markers(log) == [(4, Marker(False, 5)), (6, Marker(True, 5))]
    assert [(one.first_offset, one.last_offset) for one in log.aborted(0, 10)] == [(2, 4)]
    compact(store, log)
    assert markers(log) == [(4, Marker(False, 5)), (6, Marker(True, 5))]


def test_an_abort_counts_although_its_marker_is_not_compacted_yet(store: LogStore, log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    in_transaction(log, (b"a", b"2"))
    fill(store, log, [(b"z", b"5")])
    end(log, commit=False)
    flush(store)
    compact(store, log)
    assert [record.value for record in records(log) if record.value in (b"1", b"2")] == [b"1"]


def test_the_last_batch_of_a_producer_keeps_its_numbers_although_it_was_aborted(
    store: LogStore, log: PartitionLog
) -> None:
    in_transaction(log, (b"a", b"2"), (b"b", b"2"))
    end(log, commit=False)
    fill(store, log, [])
    compact(store, log)
    first = read_header(log.read(log.start_offset, 1 << 20)[0])
    assert (first.producer_id, first.last_sequence, first.record_count) == (1, 1, 0)


def test_nothing_from_an_open_transaction_on_is_touched(store: LogStore, log: PartitionLog) -> None:
    # Whether it will be aborted is not known, so its records must replace nothing.
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    put(log, (b"a", b"3"), transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    fill(store, log, [(b"a", b"4"), (b"a", b"5")])
    compact(store, log)
    assert [record.value for record in records(log)][:4] == [b"2", b"3", b"4", b"5"]
    compaction = log.compact(NOW, MAP)
    for _ in compaction.work():
        pass
    assert not compaction.swap()
    assert (compaction.bytes_before, len(records(log))) == (0, 6)
