"""Guarantees of every sink, for any order of writers."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping

import pyarrow as pa
import pytest

from kohort.errors import KohortError
from kohort.model import TopicPartition
from pyspark_kohort.sinks.fence import Fence, QueryClaim, Writers, admitted
from tests.spark.sinks.stores import SCHEMA, A, B, Store, counted, rows

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def ones(*ranges: tuple[TopicPartition, int, int]) -> Mapping[tuple[int, int], int]:
    """Each record of the ranges, once."""
    return dict.fromkeys(counted(rows(*ranges)), 1)


US, THEM = "group delays (a1)", "group delays (b2)"
ID, OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


def by(
    numbers: Mapping[TopicPartition, int], owner: str = US, topic_id: str | None = None, *, take_over: bool = False
) -> Writers:
    """One owner writes the partitions, each under the number of its claim."""
    return {tp: QueryClaim(owner, number, topic_id, take_over) for tp, number in numbers.items()}


def test_a_batch_that_comes_again_is_written_once(store: Store) -> None:
    batch = rows((A, 0, 10), (B, 5, 8))
    assert store.make().write(batch, by({A: 1, B: 1})) == 13
    assert store.make().write(batch, by({A: 1, B: 1})) == 0
    assert store.read() == ones((A, 0, 10), (B, 5, 8))


def test_an_overlapping_batch_is_written_after_the_existing_rows(store: Store) -> None:
    sink = store.make()
    sink.write(rows((A, 0, 10)), by({A: 1}))
    assert sink.write(rows((A, 5, 15)), by({A: 2})) == 5
    assert store.read() == ones((A, 0, 15))


def test_a_writer_that_lost_a_partition_writes_nothing_of_it(store: Store) -> None:
    old, new = store.make(), store.make()
    old.write(rows((A, 0, 5), (B, 0, 5)), by({A: 3, B: 3}))
    new.write(rows((A, 5, 7)), by({A: 4}))
    # The old one does not know yet. What it still has of B is its own.
    assert old.write(rows((A, 5, 9), (B, 5, 9)), by({A: 3, B: 3})) == 4
    assert store.read() == ones((A, 0, 7), (B, 0, 9))
    new.write(rows((A, 7, 9)), by({A: 4}))
    assert store.read() == ones((A, 0, 9), (B, 0, 9))


def test_writers_at_once_write_each_record_once(store: Store) -> None:
    failures: list[BaseException] = []

    def replay(seed: int) -> None:
        try:
            sink, dice = store.make(), random.Random(seed)
            first = 0
            while first < 30:
                until = first + dice.randint(1, 12)
                sink.write(rows((A, first, until), (B, first, until)), by({A: 0, B: 0}))
                first = until
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=replay, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    found = store.read()
    assert found.keys() >= ones((A, 0, 30), (B, 0, 30)).keys()
    assert set(found.values()) == {1}


def test_a_group_whose_epochs_restarted_loses_nothing_silently(store: Store) -> None:
    sink = store.make()
    sink.write(rows((A, 0, 10), (B, 0, 10)), by({A: 3, B: 3}, US, ID))
    # The group was deleted: its claims begin anew. Whether the sink has the rows before 10 is not known.
    with pytest.raises(KohortError, match=r"The sink has rows of flights-0 before offset 10, by .*take_over=True"):
        sink.write(rows((A, 5, 15), (B, 10, 12)), by({A: 1, B: 1}, THEM, ID))
    assert store.read() == ones((A, 0, 10), (B, 0, 10)), "nothing is written of a batch that is refused"
    assert sink.write(rows((B, 10, 12)), by({B: 1}, THEM, ID)) == 2, "what follows the fence is new for certain"
    assert sink.write(rows((A, 5, 15)), by({A: 1}, THEM, ID, take_over=True)) == 5
    assert sink.write(rows((A, 5, 17)), by({A: 1}, THEM, ID)) == 2, "it is theirs from here on"
    with pytest.raises(KohortError, match="may or may not have them"):
        sink.write(rows((A, 15, 20)), by({A: 3}, US, ID))
    assert store.read() == ones((A, 0, 17), (B, 0, 12))


def test_a_recreated_topic_is_written_from_its_start(store: Store) -> None:
    sink = store.make()
    sink.write(rows((A, 0, 10)), by({A: 3}, US, ID))
    with pytest.raises(KohortError, match="of another topic of that name"):
        sink.write(rows((A, 20, 25)), by({A: 4}, THEM, OTHER_ID))
    assert sink.write(rows((A, 0, 4)), by({A: 4}, US, OTHER_ID)) == 4
    assert sink.write(rows((A, 0, 6)), by({A: 4}, US, OTHER_ID)) == 2
    assert store.make().write(rows((A, 4, 30)), by({A: 4}, US, OTHER_ID)) == 24
    # It lost the partition and still reads the old topic, or the numbers began anew: ids do not tell the order.
    with pytest.raises(KohortError, match="of another topic of that name"):
        sink.write(rows((A, 5, 10)), by({A: 3}, US, ID))
    assert store.read() == {(0, offset): 1 + (offset < 10) for offset in range(30)}


def test_fences_of_kohort_0_1_are_read_where_they_prove_enough(store: Store) -> None:
    store.fence_of_0_1(A, 10, 3)
    sink = store.make()
    with pytest.raises(KohortError, match=r"before offset 10, by a writer that Kohort 0\.1 did not name"):
        sink.write(rows((A, 8, 15)), by({A: 1}, US, ID))
    assert sink.write(rows((A, 10, 15)), by({A: 1}, US, ID)) == 5
    assert sink.write(rows((A, 8, 17)), by({A: 1}, US, ID)) == 2
    assert store.read() == ones((A, 10, 17))


def test_rows_of_partitions_that_the_batch_does_not_read_are_refused(store: Store) -> None:
    with pytest.raises(KohortError, match="There are rows of flights-1, which this micro-batch does not read"):
        store.make().write(rows((A, 0, 2), (B, 0, 2)), by({A: 1}))
    assert not store.read()


def test_rows_without_their_names_are_refused() -> None:
    with pytest.raises(KohortError, match="needs the column offset as the source gives it"):
        admitted(rows((A, 0, 1)).drop_columns(["offset"]), {}, {})
    with pytest.raises(KohortError, match="column offset in each row, and there are rows where it is null"):
        admitted(rows((A, 0, 1)).set_column(3, "offset", pa.array([None], pa.int64())), by({A: 1}), {})
    text = rows((A, 0, 1)).set_column(2, "partition", pa.array(["0"]))
    with pytest.raises(KohortError, match="needs the column partition"):
        admitted(text, {}, {})


def test_rows_of_many_topics_and_pieces_meet_their_own_fences() -> None:
    other = TopicPartition("trains", 1)
    table = pa.concat_tables([rows((B, 0, 3)), rows((other, 0, 3), (A, 0, 3)), rows((B, 3, 6))])
    new, after = admitted(
        table,
        by({B: 2, other: 1, A: 0}),
        {B: Fence(2, 1, US), other: Fence(0, 2, US), A: Fence(1, 0, US)},
    )
    found = sorted(zip(new["topic"].to_pylist(), new["partition"].to_pylist(), new["offset"].to_pylist(), strict=True))
    assert found == [("flights", 0, 1), ("flights", 0, 2), *(("flights", 1, offset) for offset in (2, 3, 4, 5))]
    assert after == {A: Fence(3, 0, US), B: Fence(6, 2, US)}


def test_no_rows_move_no_fence() -> None:
    new, after = admitted(SCHEMA.empty_table(), {}, {A: Fence(5, 1)})
    assert (new.num_rows, after) == (0, {})
