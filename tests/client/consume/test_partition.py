"""What was fetched of a partition comes out in order, once, and without what an application must not see.

Each test runs twice: with records unpacked by plain Python, and by way of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

import pytest
from crc32c import crc32c

from kohort import ErrorCode, KafkaError, OffsetSpec, TopicPartition
from kohort.client.consume import TimestampType
from kohort.client.consume.compiled import ColumnChunk
from kohort.client.consume.partition import PartitionState
from kohort.client.consume.unpacking import Chunk, PlainChunk
from kohort.columns.page import BufferPool
from kohort.columns.schema import SCHEMA
from kohort.wire.batches import BatchError, Codec, Record, encode_batch
from kohort.wire.messages.fetch import AbortedTransaction

HERE = TopicPartition("t", 0)
ID, OTHER_ID = UUID(int=1), UUID(int=2)

MakeChunk = Callable[[bytes, Sequence[AbortedTransaction]], Chunk]


def plain(data: bytes, aborted: Sequence[AbortedTransaction], *, check_crc: bool = True) -> Chunk:
    return PlainChunk(HERE, data, aborted, check_crc=check_crc)


def by_columns(data: bytes, aborted: Sequence[AbortedTransaction], *, check_crc: bool = True) -> Chunk:
    return ColumnChunk(HERE, data, aborted, check_crc=check_crc, pages=BufferPool())


both = pytest.mark.parametrize("chunk", [plain, by_columns])


def state_at(position: int) -> PartitionState:
    state = PartitionState(HERE)
    state.move(position)
    return state


def batch(*offsets: int, **more: object) -> bytes:
    records = [Record(offset, 1000 + offset, b"k", b"%d" % offset, [("h", b"x")]) for offset in offsets]
    return bytes(encode_batch(records, **more))  # type: ignore[arg-type]


@both
@pytest.mark.parametrize("codec", list(Codec))
def test_records_come_with_all_they_have(chunk: MakeChunk, codec: Codec) -> None:
    state = state_at(0)
    state.add(chunk(batch(0, 1, codec=codec), ()))
    expected = ("t", 0, 1, 1001, b"k", b"1", [("h", b"x")], TimestampType.CREATE_TIME, None)
    assert tuple(state.take(10)[1]) == expected
    assert (state.position, state.fetch_at) == (2, 2)
    assert state.take(10) == []
    assert (state.buffered, state.has_records) == (0, False)


@both
def test_a_batch_that_begins_before_the_position_is_cut(chunk: MakeChunk) -> None:
    state = state_at(3)
    state.add(chunk(batch(0, 1, 2, 3, 4), ()))
    assert [record.offset for record in state.take(10)] == [3, 4]


@both
def test_as_many_as_asked_for_and_the_rest_later(chunk: MakeChunk) -> None:
    state = state_at(0)
    state.add(chunk(batch(0, 1, 2) + batch(3, 4, 5), ()))
    assert [[record.offset for record in state.take(2)] for _ in range(4)] == [[0, 1], [2, 3], [4, 5], []]


@both
def test_offsets_removed_by_compaction_are_skipped(chunk: MakeChunk) -> None:
    state = state_at(0)
    state.add(chunk(batch(2, 7) + batch(9), ()))
    assert [record.offset for record in state.take(10)] == [2, 7, 9]
    assert state.position == 10


@both
def test_a_batch_that_compaction_emptied_is_passed_over(chunk: MakeChunk) -> None:
    # Kafka keeps such a batch for the sequence number of its idempotent producer.
    empty = bytearray(batch(1, 2))[:61]
    empty[8:12], empty[57:61] = (49).to_bytes(4, "big"), bytes(4)
    empty[17:21] = crc32c(empty[21:]).to_bytes(4, "big")
    state = state_at(0)
    state.add(chunk(batch(0) + bytes(empty) + batch(3), ()))
    assert [record.offset for record in state.take(10)] == [0, 3]


@both
def test_batches_before_the_position_are_not_decoded(chunk: MakeChunk) -> None:
    damaged = bytearray(batch(2, 3))
    damaged[-1] ^= 1
    state = state_at(4)
    state.add(chunk(bytes(damaged) + batch(4), ()))
    assert [record.offset for record in state.take(10)] == [4]


@both
def test_an_answer_that_ends_before_the_position_does_not_move_it_back(chunk: MakeChunk) -> None:
    state = state_at(5)
    state.add(chunk(batch(1, 2), ()))
    assert (state.take(10), state.position, state.fetch_at) == ([], 5, 5)


@both
def test_a_torn_batch_at_the_end_is_fetched_again(chunk: MakeChunk) -> None:
    state = state_at(0)
    state.add(chunk(batch(0) + batch(1)[:-3], ()))
    assert (state.fetch_at, [record.offset for record in state.take(10)]) == (1, [0])


@both
def test_a_seek_forgets_what_was_fetched(chunk: MakeChunk) -> None:
    state = state_at(0)
    state.add(chunk(batch(0, 1, 2), ()))
    state.take(1)
    turn = state.turn
    state.move(7)
    assert (state.take(10), state.position, state.fetch_at, state.buffered) == ([], 7, 7, 0)
    assert state.turn != turn
    state.lose(OffsetSpec.EARLIEST)
    assert (state.position, state.reset) == (None, OffsetSpec.EARLIEST)


def test_a_seek_keeps_the_topic_unless_it_names_another_one() -> None:
    # A commit names the topic to which the position belongs.
    state = PartitionState(HERE)
    state.move(0, None, ID)
    state.move(7)
    assert state.topic_id == ID
    state.unfetch()
    assert state.topic_id == ID
    state.move(7, None, OTHER_ID)
    assert state.topic_id == OTHER_ID


def test_a_granted_partition_belongs_to_the_topic_that_the_coordinator_assigned() -> None:
    state = PartitionState(HERE, granted=ID)
    state.move(7, None, OTHER_ID)
    assert state.topic_id == ID
    state.lose(None)
    assert state.topic_id == ID


def test_a_seek_is_not_held_up_by_a_failure_before_it() -> None:
    state = state_at(0)
    state.retry_at = 60.0
    state.move(7)
    assert state.retry_at == 0.0


@both
def test_markers_are_not_records(chunk: MakeChunk) -> None:
    state = state_at(0)
    state.add(chunk(batch(0) + batch(1, control=True, producer_id=5, producer_epoch=0) + batch(2), ()))
    assert [record.offset for record in state.take(10)] == [0, 2]


@both
def test_the_position_moves_past_a_marker_at_the_end(chunk: MakeChunk) -> None:
    # Otherwise the lag would never reach 0.
    state = state_at(0)
    state.add(chunk(batch(0) + batch(1, control=True, producer_id=5, producer_epoch=0), ()))
    assert [record.offset for record in state.take(10)] == [0]
    assert (state.take(10), state.position) == ([], 2)


@both
def test_aborted_transactions_are_passed_over(chunk: MakeChunk) -> None:
    def transactional(offset: int, producer_id: int, *, control: bool = False) -> bytes:
        return batch(offset, producer_id=producer_id, producer_epoch=0, transactional=True, control=control)

    data = (
        transactional(0, 1) + transactional(1, 2) + transactional(2, 1, control=True) + transactional(3, 1) + batch(4)
    )
    state = state_at(0)
    state.add(chunk(data, [AbortedTransaction(producer_id=1, first_offset=0)]))
    assert [record.offset for record in state.take(10)] == [1, 3, 4]


@both
def test_what_a_producer_committed_before_an_aborted_transaction_is_returned(chunk: MakeChunk) -> None:
    def transactional(offset: int, *, control: bool = False) -> bytes:
        return batch(offset, producer_id=1, producer_epoch=0, transactional=True, control=control)

    data = transactional(0) + transactional(1, control=True) + transactional(2) + transactional(3, control=True)
    state = state_at(0)
    state.add(chunk(data, [AbortedTransaction(producer_id=1, first_offset=2)]))
    assert [record.offset for record in state.take(10)] == [0]


@both
def test_only_transactional_batches_are_aborted(chunk: MakeChunk) -> None:
    data = batch(0, producer_id=1, producer_epoch=0, transactional=True) + batch(1, producer_id=1, producer_epoch=0)
    state = state_at(0)
    state.add(chunk(data, [AbortedTransaction(producer_id=1, first_offset=0)]))
    assert [record.offset for record in state.take(10)] == [1]


@both
def test_bytes_that_changed_on_the_way_are_refused(chunk: MakeChunk) -> None:
    data = bytearray(batch(0))
    data[-1] ^= 1
    state = state_at(0)
    state.add(chunk(bytes(data), ()))
    with pytest.raises(KafkaError) as raised:
        state.take(10)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


@both
def test_records_before_a_damaged_batch_are_returned_and_none_is_skipped(chunk: MakeChunk) -> None:
    # If the damaged batch were skipped when its error is raised, a loop that logs errors would lose records.
    damaged = bytearray(batch(2, 3))
    damaged[-1] ^= 1
    state = state_at(0)
    state.add(chunk(batch(0, 1) + bytes(damaged) + batch(4), ()))
    assert [record.offset for record in state.take(10)] == [0, 1]
    for _ in range(2):
        with pytest.raises(BatchError, match="seek past it"):
            state.take(10)
        with pytest.raises(BatchError, match="seek past it"):
            state.take_columns(10)
    assert state.position == 2
    state.move(4)
    state.add(chunk(batch(4), ()))
    assert [record.offset for record in state.take(10)] == [4]


@both
def test_the_rows_of_a_malformed_batch_do_not_come_with_those_before_it(chunk: MakeChunk) -> None:
    # Its checksum is right: a producer wrote it so. Its first record is sound, its second says that it is longer.
    malformed = bytearray(batch(2, 3))
    first = malformed[61] >> 1
    malformed[62 + first] += 2
    malformed[17:21] = crc32c(malformed[21:]).to_bytes(4, "big")
    state = state_at(0)
    state.add(chunk(batch(0, 1) + bytes(malformed), ()))
    assert [record.offset for record in state.take(10)] == [0, 1]
    with pytest.raises(BatchError):
        state.take(10)
    assert state.position == 2


@pytest.mark.parametrize("chunk", [plain, by_columns])
def test_checksums_are_looked_at_unless_check_crcs_is_off(chunk: Callable[..., Chunk]) -> None:
    data = bytearray(batch(0))
    data[17] ^= 1
    state = state_at(0)
    state.add(chunk(bytes(data), (), check_crc=False))
    assert [record.offset for record in state.take(10)] == [0]


@both
def test_the_epoch_of_the_last_record_handed_out_is_known(chunk: MakeChunk) -> None:
    def led(epoch: int, *offsets: int) -> bytes:
        data = bytearray(batch(*offsets))
        data[12:16] = epoch.to_bytes(4, "big", signed=True)
        return bytes(data)

    state = state_at(0)
    state.add(chunk(led(0, 0, 1) + led(0, 2) + led(9, 3) + led(-1, 4), ()))
    epochs = []
    for _ in range(5):
        state.take(1)
        epochs.append(state.leader_epoch)
    assert epochs == [0, 0, 0, 9, None]


@both
def test_columns_and_records_have_the_same_content(chunk: MakeChunk) -> None:
    rows = [
        Record(5, 1_700_000_000_123, b"k", b"v", [("h", b"x"), ("h", None)]),
        Record(6, 1_700_000_000_124, None, None, ()),
        Record(9, 1_700_000_000_125, b"", b"", [("ü", b"")]),
    ]
    data = bytes(encode_batch(rows))
    one, other = state_at(5), state_at(5)
    one.add(chunk(data, ()))
    other.add(chunk(data, ()))
    records = one.take(10)
    assert [tuple(record[2:7]) for record in records] == [tuple(row) for row in rows]
    batches = [*other.take_columns(2), *other.take_columns(10)]
    assert [found.num_rows for found in batches] == [2, 1]
    assert {found.schema for found in batches} == {SCHEMA}
    found = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["topic"], row["partition"], row["offset"], row["key"], row["value"]) for row in found] == [
        (record.topic, record.partition, record.offset, record.key, record.value) for record in records
    ]
    assert [round(row["timestamp"].timestamp() * 1000) for row in found] == [row.timestamp for row in rows]
    assert [row["headers"] for row in found] == [
        [{"key": "h", "value": b"x"}, {"key": "h", "value": None}],
        None,
        [{"key": "ü", "value": b""}],
    ]
    assert (one.position, other.position) == (10, 10)


@both
def test_records_and_columns_may_be_taken_in_turns(chunk: MakeChunk) -> None:
    state = state_at(0)
    state.add(chunk(batch(0, 1, 2, 3, 4), ()))
    assert [record.offset for record in state.take(1)] == [0]
    assert [found["offset"].to_pylist() for found in state.take_columns(2)] == [[1, 2]]
    assert [record.offset for record in state.take(1)] == [3]
    assert [found["offset"].to_pylist() for found in state.take_columns(1)] == [[4]]


@both
def test_a_chunk_larger_than_a_page_comes_whole(chunk: MakeChunk) -> None:
    data = b"".join(batch(*range(at, at + 5_000)) for at in range(0, 40_000, 5_000))
    state = state_at(17)
    state.add(chunk(data, ()))
    taken: list[int] = []
    while records := state.take(7_777):
        taken += [record.offset for record in records]
    assert taken == list(range(17, 40_000))
