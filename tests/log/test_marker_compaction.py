"""Markers of transactions in compacted logs: they stay until nobody needs them; consumers see no difference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.log import FileStore, LogStore, MemoryStore, PartitionLog
from kohort.wire.batches import BatchHeader, Marker, batches, decode_records, encode_marker, read_marker
from tests.log.logs import NOW, flush, topic_in
from tests.log.test_compaction import DAY, TABLE, compact, fill, put, the_log


@pytest.fixture
def log(store: LogStore) -> PartitionLog:
    return store.partition(topic_in(store, configs=TABLE), 0)


def write(log: PartitionLog, key: bytes, value: bytes | None, producer: int = 1, epoch: int = 0, at: int = 0) -> None:
    put(log, (key, value), transactional=True, producer_id=producer, producer_epoch=epoch, base_sequence=at)


def end(log: PartitionLog, *, commit: bool, producer: int = 1, epoch: int = 0) -> int:
    return log.append(encode_marker(producer, epoch, Marker(commit, 5), NOW), log.leader_epoch)


def contents(log: PartitionLog) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Yield every batch, piece by piece as a consumer reads."""
    offset = log.start_offset
    while parts := log.read(offset, 1 << 20):
        for part in parts:
            for position, header in batches(part):
                yield memoryview(part)[position:], header
                offset = header.next_offset


def markers(log: PartitionLog) -> dict[int, int | None]:
    """Return the delete horizons of the markers by offset."""
    found = {}
    for batch, header in contents(log):
        if header.is_control:
            assert read_marker(batch) is not None
            found[header.base_offset] = header.delete_horizon
    return found


def committed(log: PartitionLog) -> dict[bytes, bytes]:
    """Return the table as a consumer with read_committed reads it, by the rules of the Java client."""
    found: dict[bytes, bytes] = {}
    aborted = sorted(log.aborted(log.start_offset, log.last_stable_offset), key=lambda one: one.first_offset)
    left_out: set[int] = set()
    for batch, header in contents(log):
        if header.base_offset >= log.last_stable_offset:
            break
        while aborted and aborted[0].first_offset <= header.last_offset:
            left_out.add(aborted.pop(0).producer_id)
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None and not marker.committed:
                left_out.discard(header.producer_id)
        elif header.producer_id not in left_out:
            for record in decode_records(batch):
                assert record.key is not None
                found.pop(record.key, None)
                if record.value is not None:
                    found[record.key] = record.value
    return found


def compacted(store: LogStore, log: PartitionLog, now: int) -> dict[int, int | None]:
    """Give compaction a reason, run it, and return the markers."""
    fill(store, log, [])
    compact(store, log, now)
    return markers(log)


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_stays_for_delete_retention_after_its_transaction_is_empty(
    store: LogStore, log: PartitionLog, commit: bool
) -> None:
    write(log, b"a", b"1")
    first = end(log, commit=commit)
    write(log, b"a", b"2", at=1)
    last = end(log, commit=True)
    assert compacted(store, log, NOW) == {first: None, last: None}, "the pass removes its batch, so it is not empty yet"
    later = NOW + 1_000
    assert compacted(store, log, later) == {first: later + DAY, last: None}
    assert compacted(store, log, later + DAY - 1) == {first: later + DAY, last: None}
    assert compacted(store, log, later + DAY) == {last: None}, "the last batch of the producer stays, and its marker"
    assert committed(log)[b"a"] == b"2"
    assert log.aborted(0, log.end_offset) == []


def test_what_an_aborted_producer_writes_later_is_read_at_every_step(store: LogStore, log: PartitionLog) -> None:
    write(log, b"a", b"1")
    end(log, commit=False)
    write(log, b"a", b"2", at=1)
    write(log, b"b", b"2", at=2)
    end(log, commit=True)
    for step in range(6):
        compacted(store, log, NOW + step * DAY)
        assert {key: committed(log)[key] for key in (b"a", b"b")} == {b"a": b"2", b"b": b"2"}
    assert len(markers(log)) == 1


def test_the_marker_that_alone_holds_the_producer_s_epoch_stays(store: LogStore, log: PartitionLog) -> None:
    # With transaction.version 2, a marker has the next epoch; without it, late batches would be accepted.
    write(log, b"a", b"1", epoch=0)
    first = end(log, commit=True, epoch=1)
    write(log, b"a", b"2", epoch=1)
    last = end(log, commit=True, epoch=2)
    put(log, (b"a", b"3"))
    for step in range(6):
        found = compacted(store, log, NOW + step * DAY)
    assert found.keys() == {last}
    assert first not in found
    log.producers.expire(NOW * 2)
    for step in range(6, 9):
        found = compacted(store, log, NOW + step * DAY)
    assert found == {}


@pytest.mark.parametrize("sidecars", [True, False])
def test_the_same_is_read_after_a_restart(tmp_path: Path, sidecars: bool) -> None:
    store = FileStore(tmp_path)
    log = store.partition(topic_in(store, configs=TABLE), 0)
    write(log, b"a", b"1")
    end(log, commit=False)
    write(log, b"a", b"2", at=1)
    end(log, commit=True)
    for step in range(4):
        compacted(store, log, NOW + step * DAY)
    found = markers(log)
    assert len(found) == 1
    store.close()
    if not sidecars:
        for path in (tmp_path / "orders-0").glob("*.index"):
            path.unlink()
    store = FileStore(tmp_path)
    again = the_log(store)
    assert markers(again) == found
    assert committed(again)[b"a"] == b"2"
    assert again.producers.open_transactions() == {}
    store.close()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([1, 2]), st.sampled_from([b"a", b"b", b"c"]), st.booleans()),
        st.tuples(st.sampled_from([1, 2]), st.booleans()),
        st.integers(0, 2 * DAY),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_consumers_read_the_same_however_often_the_log_is_compacted(steps: list[object]) -> None:
    store = MemoryStore()
    log = store.partition(topic_in(store, configs=TABLE), 0)
    plain_store = MemoryStore()
    plain = plain_store.partition(topic_in(plain_store, configs=TABLE), 0)
    sequences, now = {1: 0, 2: 0}, NOW
    for number, step in enumerate(steps):
        match step:
            case (int() as producer, bytes() as key, bool() as is_tombstone):
                value = None if is_tombstone else b"%d" % number
                for each in (log, plain):
                    write(each, key, value, producer, at=sequences[producer])
                sequences[producer] += 1
            case (int() as producer, bool() as commit):
                for each in (log, plain):
                    end(each, commit=commit, producer=producer)
            case int() as passed:
                now += passed
                fill(plain_store, plain, [])
                compacted(store, log, now)
        flush(store)
        flush(plain_store)
        assert committed(log) == committed(plain)
        assert log.producers.open_transactions() == plain.producers.open_transactions()
