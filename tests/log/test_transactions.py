"""Transactions in a partition: the last stable offset, aborted transactions, markers, and restarts (KIP-98)."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kohort.log import AbortedTransaction, Accepted, CoordinatorFenced, Fenced, FileStore, LogStore, PartitionLog
from kohort.log.memory import MemoryMedium
from kohort.log.producers import NotTransactional, ProducerStates
from kohort.log.segment import Segment
from kohort.log.sidecar import decode_sidecar, encode_sidecar
from kohort.wire.batches import Marker, encode_marker, read_header, read_marker
from tests.log.logs import NOW, append, at, batch, flush, topic_in, values

ONE, OTHER = 1, 2
"""Producer IDs."""


def write(log: PartitionLog, producer_id: int, sequence: int, *contents: bytes, epoch: int = 0) -> int:
    return append(
        log,
        *contents,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )


def end(log: PartitionLog, producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 5) -> int:
    marker = encode_marker(producer_id, epoch, Marker(commit, coordinator_epoch), NOW)
    return log.append(marker, log.leader_epoch)


def test_a_marker_is_a_control_batch_of_kafka() -> None:
    written = encode_marker(7, 3, Marker(True, 5), NOW)
    header = read_header(written)
    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)
    assert (header.producer_id, header.producer_epoch, header.record_count) == (7, 3, 1)
    assert read_marker(written) == Marker(True, 5)
    assert read_marker(encode_marker(7, 3, Marker(False, 6), NOW)) == Marker(False, 6)
    # Attributes, deltas of time and offset, key of 4 bytes: version 0 and type 1; value of 6 bytes: version 0 and 5.
    assert written[61:].hex() == "20" + "000000" + "0800000001" + "0c000000000005" + "00"
    assert read_marker(batch(b"no marker")) is None


def test_the_last_stable_offset_is_the_start_of_the_oldest_open_transaction(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    append(log, b"plain")
    flush(store)
    assert log.last_stable_offset == 1
    write(log, ONE, 0, b"a", b"b")
    write(log, OTHER, 0, b"c")
    write(log, ONE, 2, b"d")
    flush(store)
    assert (log.last_stable_offset, log.stable_offset) == (1, 5)
    end(log, ONE, commit=True)
    # It is not durable, so a reader that saw the records could read what is aborted after a crash.
    assert log.last_stable_offset == 1
    flush(store)
    assert log.last_stable_offset == 3
    end(log, OTHER, commit=False)
    flush(store)
    assert log.last_stable_offset == log.stable_offset == 7


def test_the_last_stable_offset_is_not_less_than_the_start_of_the_log(store: LogStore) -> None:
    # Else a consumer with read_committed that begins at the end would be out of range, again and again.
    log = store.partition(topic_in(store), 0)
    write(log, ONE, 0, b"a")
    write(log, ONE, 1, b"b")
    write(log, ONE, 2, b"c")
    flush(store)
    assert log.delete_before(2) == 2
    assert log.last_stable_offset == 2
    assert log.send_committed(2, 1000) == ([], [])
    end(log, ONE, commit=True)
    flush(store)
    assert log.last_stable_offset == log.stable_offset == 4


def test_aborted_transactions_are_those_that_overlap_what_is_read(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    write(log, ONE, 0, b"a")  # 0
    write(log, OTHER, 0, b"b")  # 1
    end(log, OTHER, commit=False)  # 2
    end(log, ONE, commit=False)  # 3
    write(log, ONE, 1, b"c")  # 4
    end(log, ONE, commit=True)  # 5
    write(log, OTHER, 1, b"d")  # 6
    assert log.aborted(0, 100) == []
    flush(store)
    first, second = AbortedTransaction(ONE, 0, 3), AbortedTransaction(OTHER, 1, 2)
    assert log.aborted(0, 100) == [first, second]
    assert log.aborted(0, 1) == [first]
    assert log.aborted(3, 100) == [first]
    assert log.aborted(4, 100) == []
    end(log, OTHER, commit=False)  # 7
    flush(store)
    assert log.aborted(4, 6) == []
    assert log.aborted(4, 7) == log.aborted(7, 100) == [AbortedTransaction(OTHER, 6, 7)]


def test_a_transaction_that_was_only_queued_is_taken_back_with_its_appends(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    write(log, ONE, 0, b"a")
    flush(store)
    end(log, ONE, commit=False)
    write(log, OTHER, 0, b"b")
    pending = store.take()
    assert pending is not None
    store.fail(pending, OSError(28, "no space left"))
    assert (log.last_stable_offset, log.aborted(0, 9)) == (0, [])
    state = log.producers.get(ONE)
    assert state is not None
    assert (state.transaction_start, state.coordinator_epoch) == (0, None)
    assert log.producers.get(OTHER) is None
    end(log, ONE, commit=True)
    flush(store)
    assert (log.last_stable_offset, log.aborted(0, 9)) == (2, [])


Restart = Callable[[Path, FileStore], FileStore]


def _cleanly(directory: Path, store: FileStore) -> FileStore:
    store.close()
    return FileStore(directory)


def _without_sidecars(directory: Path, store: FileStore) -> FileStore:
    store.close()
    for file in directory.rglob("*.index"):
        file.unlink()
    return FileStore(directory)


@pytest.mark.parametrize("restart", [_cleanly, _without_sidecars])
@pytest.mark.parametrize("segment_bytes", ["1000000", "200"])
def test_transactions_survive_a_restart(tmp_path: Path, restart: Restart, segment_bytes: str) -> None:
    store = FileStore(tmp_path)
    topic_id = topic_in(store, configs={"segment.bytes": segment_bytes})
    log = store.partition(topic_id, 0)
    write(log, ONE, 0, b"a" * 50)
    flush(store)
    write(log, OTHER, 0, b"b" * 50)
    flush(store)
    end(log, ONE, commit=False, coordinator_epoch=9)
    flush(store)
    write(log, ONE, 1, b"c" * 50)
    end(log, ONE, commit=True, coordinator_epoch=9)
    flush(store)
    before = log.last_stable_offset, log.aborted(0, 99), log.producers.snapshot(), values(log)
    assert before[:2] == (1, [AbortedTransaction(ONE, 0, 2)])
    for _ in range(2):
        store = restart(tmp_path, store)
        log = store.partition(topic_id, 0)
        assert (log.last_stable_offset, log.aborted(0, 99), log.producers.snapshot(), values(log)) == before
    end(log, OTHER, commit=False)
    flush(store)
    assert log.last_stable_offset == 6
    assert log.aborted(0, 99) == [AbortedTransaction(ONE, 0, 2), AbortedTransaction(OTHER, 1, 5)]
    store.close()


def test_after_a_crash_what_an_older_sidecar_knows_counts_with_what_follows_it(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    topic_id = topic_in(store)
    log = store.partition(topic_id, 0)
    write(log, ONE, 0, b"a")
    write(log, OTHER, 0, b"b")
    end(log, ONE, commit=False)
    flush(store)
    store.close()
    store = FileStore(tmp_path)
    log = store.partition(topic_id, 0)
    end(log, OTHER, commit=False)
    write(log, ONE, 1, b"c")
    flush(store)
    store.abandon()
    store = FileStore(tmp_path)
    log = store.partition(topic_id, 0)
    assert log.aborted(0, 9) == [AbortedTransaction(ONE, 0, 2), AbortedTransaction(OTHER, 1, 3)]
    assert log.last_stable_offset == 4
    store.close()


def test_a_sidecar_of_another_file_tells_nothing_about_transactions(tmp_path: Path) -> None:
    # Compaction has replaced the file. The sidecar ends where no batch begins, and with an open transaction.
    store = FileStore(tmp_path)
    topic_id = topic_in(store, configs={"segment.bytes": "400"})
    log = store.partition(topic_id, 0)
    write(log, ONE, 0, b"a")
    end(log, ONE, commit=False)
    write(log, ONE, 1, b"b" * 40)
    end(log, ONE, commit=True)
    flush(store)
    write(log, OTHER, 0, b"c" * 40)
    flush(store)
    before = log.last_stable_offset, log.aborted(0, 9), log.producers.snapshot(), values(log)
    store.close()
    (first, _) = sorted(tmp_path.glob("orders-0/*.log"))
    sidecar = first.with_suffix(".index")
    told = decode_sidecar(sidecar.read_bytes(), 0, first.stat().st_size)
    assert told is not None
    open_at_2 = told.producers[ONE]._replace(transaction_start=2)
    segment = Segment(0, MemoryMedium())
    replace(told, size=told.size - 10, max_timestamp_at=0).apply(segment)
    sidecar.write_bytes(encode_sidecar(segment, {ONE: open_at_2}))
    store = FileStore(tmp_path)
    log = store.partition(topic_id, 0)
    assert (log.last_stable_offset, log.aborted(0, 9), log.producers.snapshot(), values(log)) == before
    store.close()


def test_a_truncation_removes_the_end_of_a_transaction(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    log = store.partition(topic_in(store), 0)
    write(log, ONE, 0, b"a")
    marker = end(log, ONE, commit=False)
    write(log, OTHER, 0, b"b")
    flush(store)
    log.truncate(marker)
    assert (log.last_stable_offset, log.stable_offset, log.aborted(0, 9)) == (0, 1, [])
    end(log, ONE, commit=True)
    flush(store)
    assert (log.last_stable_offset, log.aborted(0, 9)) == (2, [])
    store.close()


def test_an_open_transaction_outlives_the_expiry_of_its_producer(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    write(log, ONE, 0, b"a")
    write(log, OTHER, 0, b"b")
    end(log, OTHER, commit=True)
    flush(store)
    log.apply_retention(at(NOW + 10 * 86_400_000))
    assert log.last_stable_offset == log.start_offset == 3
    append(log, b"plain")
    flush(store)
    assert (log.last_stable_offset, log.stable_offset) == (3, 4)
    assert set(log.producers.snapshot()) == {ONE}


# What is accepted


def known(*, commit: bool = True, epoch: int = 1) -> ProducerStates:
    """A producer with epoch 0 whose transaction was ended by a marker."""
    producers = ProducerStates()
    sent = batch(b"a", producer_id=ONE, producer_epoch=0, base_sequence=0, transactional=True)
    producers.update(read_header(sent))
    marker = encode_marker(ONE, epoch, Marker(commit, 5), NOW)
    producers.update(read_header(marker), read_marker(marker))
    return producers


def test_with_an_open_transaction_a_producer_writes_nothing_else() -> None:
    producers = ProducerStates()
    sent = batch(b"a", producer_id=ONE, producer_epoch=0, base_sequence=0, transactional=True)
    producers.update(read_header(sent))
    plain = read_header(batch(b"b", producer_id=ONE, producer_epoch=0, base_sequence=1))
    assert isinstance(producers.check(plain), NotTransactional)


def test_a_late_batch_of_an_ended_transaction_is_fenced() -> None:
    # KIP-890: else it would be part of the next one.
    producers = known()
    late = read_header(batch(b"b", producer_id=ONE, producer_epoch=0, base_sequence=1, transactional=True))
    assert isinstance(producers.check(late), Fenced)


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "version", "verdict"),
    [
        (1, 5, 2, Accepted),  # the same again
        (2, 5, 2, Accepted),
        (0, 5, 2, Fenced),
        (2, 4, 2, CoordinatorFenced),
        (2, 6, 2, Accepted),
        (1, 5, 0, Accepted),
        (0, 5, 0, Fenced),
        (1, 4, 0, CoordinatorFenced),
    ],
)
def test_markers_of_old_producers_and_coordinators_are_fenced(
    epoch: int, coordinator_epoch: int, version: int, verdict: type
) -> None:
    assert type(known().check_marker(ONE, epoch, coordinator_epoch, version)) is verdict


def test_with_an_epoch_for_each_transaction_a_late_marker_does_not_end_the_next_one() -> None:
    producers = known()
    sent = batch(b"b", producer_id=ONE, producer_epoch=1, base_sequence=0, transactional=True)
    producers.update(read_header(sent))
    assert isinstance(producers.check_marker(ONE, 1, 5, 2), Fenced)
    assert producers.check_marker(ONE, 2, 5, 2) == Accepted()
    assert producers.check_marker(OTHER, 0, 5, 2) == Accepted()
