"""A shard is loaded in slices and without what is replaced anyway, and is the same as if replayed record by record."""

import asyncio
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.broker.groups import loading
from kohort.broker.groups.group_contents import GroupContents
from kohort.coordinator import GroupConfig, GroupShard
from kohort.log import CorruptBatch, FileStore, MemoryStore, PartitionLog
from kohort.wire.batches import encode_pairs
from kohort.wire.batches.scanning import Pair
from kohort.wire.codec import Buffer, DecodeError, Message
from kohort.wire.group_log import decode_group_records, group_record
from kohort.wire.group_log.group_bytes import encode_records
from kohort.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from tests.coordinator.shell import durable
from tests.coordinator.test_replay import COMMITS, GENERATIONS, shard_of
from tests.log.logs import NOW, flush, topic_in


def log_of(*batches: list[tuple[Message, Message | None]]) -> PartitionLog:
    store = MemoryStore()
    log = store.partition(topic_in(store), 0)
    for records in batches:
        log.append(encode_pairs(encode_records([group_record(*record) for record in records]), NOW), log.leader_epoch)
    flush(store)
    return log


class Replayed:
    """Keeps what it is passed, in place of a shard."""

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self.others: list[tuple[int, object]] = []
        """Transactional batches and markers, by producer."""

    @property
    def records(self) -> list[tuple[Message, Message | None]]:
        def unreadable(error: DecodeError) -> None:
            raise error

        return [(record.key, record.value) for record in decode_group_records(self.pairs, unreadable)]

    def replay(self, pairs: Sequence[Pair]) -> None:
        self.pairs += pairs

    def replay_pending(self, pairs: Sequence[Pair], producer_id: int) -> None:
        self.others.append((producer_id, list(pairs)))

    def replay_end(self, producer_id: int, *, committed: bool) -> None:
        self.others.append((producer_id, committed))


def load(log: PartitionLog) -> tuple[int, GroupShard]:
    shard = GroupShard(GroupConfig(), lambda: "id")
    return asyncio.run(loading.load("__consumer_offsets-0", log, GroupContents(shard, "__consumer_offsets-0"))), shard


@pytest.mark.parametrize("window", [1, 3, 100_000])
@given(batches=st.lists(st.lists(COMMITS | GENERATIONS, min_size=1, max_size=6), max_size=8))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_loaded_shard_equals_the_shard_that_never_stopped(
    window: int, batches: list[list[tuple[Message, Message | None]]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "_WINDOW_KEYS", window)
        count, loaded = load(log_of(*batches))
    records = [record for batch in batches for record in batch]
    assert count == len(records)
    assert durable(loaded) == durable(shard_of(*records))


def test_a_log_that_ends_in_a_gap_is_loaded_to_its_end() -> None:
    log = log_of([(OffsetCommitKey(group="g", topic="t"), OffsetCommitValue(offset=5))])

    class Gap:
        start_offset, stable_offset = 0, 9

        def read(self, offset: int, max_bytes: int) -> Sequence[Buffer]:
            return log.read(0, max_bytes) if offset == 0 else []

    count, loaded = load(Gap())  # type: ignore[arg-type]
    assert (count, list(loaded.groups)) == (1, ["g"])


def test_a_damaged_batch_costs_its_own_records_only(caplog: pytest.LogCaptureFixture) -> None:
    def commit(partition: int) -> tuple[Message, Message | None]:
        return OffsetCommitKey(group="g", topic="t", partition=partition), OffsetCommitValue(offset=5)

    log = log_of([commit(0)], [commit(1)], [commit(2)])
    damaged = bytearray(log.read(0, 1 << 20)[0])
    second = len(damaged) // 3
    damaged[second + 70] ^= 1

    class Damaged:
        start_offset, stable_offset = log.start_offset, log.stable_offset

        def read(self, offset: int, max_bytes: int) -> list[bytearray]:
            return [damaged]

    _, loaded = load(Damaged())  # type: ignore[arg-type]
    assert set(loaded.groups["g"].offsets["t"]) == {0, 2}
    assert "skipped a batch of __consumer_offsets-0" in caplog.text
    assert "the checksum of the batch at offset 1 is wrong" in caplog.text


def test_a_batch_that_lies_about_where_it_begins_takes_nothing_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No checksum covers a batch's base offset; one that a flipped bit made huge looks like the log's end.
    monkeypatch.setattr(loading, "_READ_BYTES", 1)
    store = FileStore(tmp_path)
    log = store.partition(topic_in(store), 0)
    for partition in range(3):
        record = group_record(OffsetCommitKey(group="g", topic="t", partition=partition), OffsetCommitValue(offset=5))
        log.append(encode_pairs(encode_records([record]), NOW), log.leader_epoch)
    flush(store)
    store.close()
    (path,) = tmp_path.glob("*/*.log")
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0x40
    path.write_bytes(data)

    again = FileStore(tmp_path)
    _, loaded = load(again.partition(next(iter(again.topics().values())).topic_id, 0))
    again.close()
    assert {0, 2} <= set(loaded.groups["g"].offsets["t"])


def commit(partition: int, offset: int = 5) -> tuple[Message, Message | None]:
    return OffsetCommitKey(group="g", topic="t", partition=partition), OffsetCommitValue(offset=offset)


@pytest.mark.parametrize("said", [(1, 2), (1 << 40, 2 << 40)], ids=["its offset is right", "its offset is damaged"])
def test_records_behind_an_unserved_batch_are_loaded(said: tuple[int, int], caplog: pytest.LogCaptureFixture) -> None:
    log = log_of([commit(0)], [commit(1)], [commit(2)])

    class Damaged:
        start_offset, stable_offset = log.start_offset, log.stable_offset

        def read(self, offset: int, max_bytes: int) -> Sequence[Buffer]:
            if offset == 1:
                raise CorruptBatch(*said, 0)
            return log.read(offset, 1)  # the batch at that offset alone

    count, loaded = load(Damaged())  # type: ignore[arg-type]
    assert count == 2
    assert durable(loaded) == durable(shard_of(commit(0), commit(2)))
    assert "skipped a batch of __consumer_offsets-0" in caplog.text


def test_a_key_that_repeats_is_replayed_where_its_last_record_is() -> None:
    replayed = Replayed()
    log = log_of([commit(0, 1), commit(1, 2)], [commit(0, 3)])
    assert asyncio.run(loading.load("__consumer_offsets-0", log, replayed)) == 3
    assert replayed.records == [commit(1, 2), commit(0, 3)]


def test_a_window_is_replayed_when_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    # Memory for all keys of the log might not suffice.
    monkeypatch.setattr(loading, "_WINDOW_KEYS", 2)
    monkeypatch.setattr(loading, "_READ_BYTES", 1)
    replayed = Replayed()
    log = log_of([commit(0, 1)], [commit(1, 2)], [commit(0, 3)])
    assert asyncio.run(loading.load("__consumer_offsets-0", log, replayed)) == 3
    assert replayed.records == [commit(0, 1), commit(1, 2), commit(0, 3)]


def test_other_work_runs_between_the_slices_of_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_SLICE_KEYS", 2)
    log = log_of([commit(partition) for partition in range(10)])
    seen: list[int] = []
    replayed = Replayed()

    async def play() -> None:
        load = asyncio.create_task(loading.load("__consumer_offsets-0", log, replayed))
        while not load.done():
            await asyncio.sleep(0)
            seen.append(len(replayed.pairs))

    asyncio.run(play())
    assert sorted(set(seen)) == [0, 2, 4, 6, 8, 10]


def test_a_gap_between_two_batches_is_skipped_at_once() -> None:
    log = log_of([commit(0)], [commit(1)])
    first, second = bytes(log.read(0, 1)[0]), bytearray(log.read(1, 1)[0])
    struct.pack_into(">q", second, 0, 7)  # compaction has removed the records between

    class Compacted:
        start_offset, stable_offset = 0, 8

        def read(self, offset: int, max_bytes: int) -> Sequence[Buffer]:
            return [first if offset == 0 else second]

    count, _ = load(Compacted())  # type: ignore[arg-type]
    assert count == 2
