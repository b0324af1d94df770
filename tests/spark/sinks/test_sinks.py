"""What every sink promises, whatever order writers come in."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping

import pyarrow as pa
import pytest

from kohort.errors import KohortError
from kohort.model import TopicPartition
from pyspark_kohort.sinks.fence import Fence, admitted
from tests.spark.sinks.stores import SCHEMA, A, B, Store, counted, rows

pytestmark = [
    pytest.mark.xdist_group("spark"),  # for its PostgreSQL, which is one per test process
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def ones(*ranges: tuple[TopicPartition, int, int]) -> Mapping[tuple[int, int], int]:
    """Each record of the ranges, once."""
    return dict.fromkeys(counted(rows(*ranges)), 1)


def test_a_batch_that_comes_again_is_written_once(store: Store) -> None:
    batch = rows((A, 0, 10), (B, 5, 8))
    assert store.make().write(batch, {A: 1, B: 1}) == 13
    assert store.make().write(batch, {A: 1, B: 1}) == 0
    assert store.read() == ones((A, 0, 10), (B, 5, 8))


def test_a_batch_that_overlaps_is_written_behind_what_is_there(store: Store) -> None:
    sink = store.make()
    sink.write(rows((A, 0, 10)), {A: 1})
    assert sink.write(rows((A, 5, 15)), {A: 2}) == 5
    assert store.read() == ones((A, 0, 15))


def test_a_writer_that_lost_a_partition_writes_nothing_of_it(store: Store) -> None:
    old, new = store.make(), store.make()
    old.write(rows((A, 0, 5), (B, 0, 5)), {A: 3, B: 3})
    new.write(rows((A, 5, 7)), {A: 4})
    # The old one does not know yet. What it still has of B is its own.
    assert old.write(rows((A, 5, 9), (B, 5, 9)), {A: 3, B: 3}) == 4
    assert store.read() == ones((A, 0, 7), (B, 0, 9))
    new.write(rows((A, 7, 9)), {A: 4})
    assert store.read() == ones((A, 0, 9), (B, 0, 9))


def test_writers_at_once_write_each_record_once(store: Store) -> None:
    failures: list[BaseException] = []

    def replay(seed: int) -> None:
        try:
            sink, dice = store.make(), random.Random(seed)
            first = 0
            while first < 30:
                until = first + dice.randint(1, 12)
                sink.write(rows((A, first, until), (B, first, until)), {})
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


def test_rows_without_their_names_are_refused() -> None:
    with pytest.raises(KohortError, match="needs the column offset as the source gives it"):
        admitted(rows((A, 0, 1)).drop_columns(["offset"]), {}, {})
    text = rows((A, 0, 1)).set_column(2, "partition", pa.array(["0"]))
    with pytest.raises(KohortError, match="needs the column partition"):
        admitted(text, {}, {})


def test_rows_of_many_topics_and_pieces_meet_their_own_fences() -> None:
    other = TopicPartition("trains", 1)
    table = pa.concat_tables([rows((B, 0, 3)), rows((other, 0, 3), (A, 0, 3)), rows((B, 3, 6))])
    new, after = admitted(table, {B: 2, other: 1}, {B: Fence(2, 1), other: Fence(0, 2), A: Fence(1, 0)})
    found = sorted(zip(new["topic"].to_pylist(), new["partition"].to_pylist(), new["offset"].to_pylist(), strict=True))
    assert found == [("flights", 0, 1), ("flights", 0, 2), *(("flights", 1, offset) for offset in (2, 3, 4, 5))]
    assert after == {A: Fence(3, 0), B: Fence(6, 2)}


def test_no_rows_move_no_fence() -> None:
    new, after = admitted(SCHEMA.empty_table(), {}, {A: Fence(5, 1)})
    assert (new.num_rows, after) == (0, {})
