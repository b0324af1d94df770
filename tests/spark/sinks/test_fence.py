"""Rows that a fence admits: each row of the table in docs/spark-guarantees.md, without a store."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kohort.errors import KohortError
from kohort.model import TopicPartition
from pyspark_kohort.sinks.fence import Fence, QueryClaim, admitted, partitions_of
from tests.spark.sinks.stores import A, B, rows

US, THEM = "group delays (a1)", "group delays (b2)"
OLD, NEW = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


def offsets(table: pa.Table) -> list[int]:
    found: list[Any] = table["offset"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("fence", "writer", "taken"),
    [
        (None, QueryClaim(US, 1, OLD), range(5, 9)),
        # The same owner: by offset, whichever of its claims is the writer's, as long as it is no older one.
        (Fence(7, 2, US, OLD), QueryClaim(US, 2, OLD), range(7, 9)),
        (Fence(7, 2, US, OLD), QueryClaim(US, 3, OLD), range(7, 9)),
        (Fence(9, 2, US, OLD), QueryClaim(US, 3, OLD), range(0)),
        (Fence(5, 3, US, OLD), QueryClaim(US, 2, OLD), range(0)),
        # The same owner, another topic: all of it is new.
        (Fence(7, 2, US, OLD), QueryClaim(US, 2, NEW), range(5, 9)),
        # A broker that tells no ids.
        (Fence(7, 2, US, None), QueryClaim(US, 2, None), range(7, 9)),
        (Fence(7, 2, US, None), QueryClaim(US, 2, NEW), range(7, 9)),
        (Fence(7, 2, US, OLD), QueryClaim(US, 2, None), range(7, 9)),
        # Another owner: what follows the fence is new for certain.
        (Fence(5, 9, THEM, OLD), QueryClaim(US, 1, OLD), range(5, 9)),
        (Fence(3, 9, THEM, None), QueryClaim(US, 1, OLD), range(5, 9)),
        (Fence(5, 9, None, None), QueryClaim(US, 1, OLD), range(5, 9)),
        # The user says that they are the same records.
        (Fence(7, 9, THEM, OLD), QueryClaim(US, 1, OLD, take_over=True), range(7, 9)),
        (Fence(7, 9, None, None), QueryClaim(US, 1, OLD, take_over=True), range(7, 9)),
        # The claim does not affect its own fences.
        (Fence(5, 9, US, OLD), QueryClaim(US, 1, OLD, take_over=True), range(0)),
    ],
)
def test_rows_are_left_out_on_proof_alone(fence: Fence | None, writer: QueryClaim, taken: range) -> None:
    new, after = admitted(rows((A, 5, 9)), {A: writer}, {} if fence is None else {A: fence})
    assert offsets(new) == list(taken)
    assert after == ({A: Fence(9, writer.number, writer.owner, writer.topic_id)} if taken else {})


def test_the_first_record_of_a_topic_is_not_left_out() -> None:
    fences: tuple[dict[TopicPartition, Fence], ...] = (
        {},
        {A: Fence(7, 1, US, OLD)},
        {A: Fence(0, 0, None, None)},
        {A: Fence(0, 3, THEM, NEW)},
    )
    for fence in fences:
        new, _ = admitted(rows((A, 0, 2)), {A: QueryClaim(US, 1, NEW)}, fence)
        assert offsets(new) == [0, 1]


@pytest.mark.parametrize(
    ("fence", "said"),
    [
        (
            Fence(6, 1, THEM, OLD),
            "of flights-0 before offset 6, by group delays (b2), and this query, group delays (a1)",
        ),
        (Fence(6, 1, None, None), "of flights-0 before offset 6, by a writer that Kohort 0.1 did not name, and this"),
        (Fence(3, 1, THEM, NEW), "of flights-0 before offset 3, of another topic of that name, and this query"),
        # It lost the partition, and the topic with it; or the numbers of its owner began anew with the topic.
        (Fence(3, 9, US, NEW), "of flights-0 before offset 3, of another topic of that name, and this query"),
    ],
)
def test_the_query_ends_if_the_owner_of_rows_is_unknown(fence: Fence, said: str) -> None:
    with pytest.raises(KohortError) as refused:
        admitted(rows((B, 0, 2), (A, 5, 9)), {A: QueryClaim(US, 7, OLD), B: QueryClaim(US, 7, OLD)}, {A: fence})
    assert said in str(refused.value)
    assert "brings rows from offset 5 on" in str(refused.value)


def test_a_take_over_does_not_count_for_another_topic_of_that_name() -> None:
    # Left in a script for good, it would leave out the records of a topic that is made anew later.
    with pytest.raises(KohortError, match=r"of another topic of that name.*Give the sink another name") as refused:
        admitted(rows((A, 0, 5)), {A: QueryClaim(US, 1, NEW, take_over=True)}, {A: Fence(50, 1, THEM, OLD)})
    assert "take_over" not in str(refused.value)


def test_partitions_come_sorted_and_once() -> None:
    other = TopicPartition("airlines", 3)
    assert partitions_of(rows((B, 0, 2), (A, 0, 2), (other, 0, 1), (B, 2, 3))) == [other, A, B]
    with pytest.raises(KohortError, match="needs the column topic as the source gives it"):
        partitions_of(rows((A, 0, 1)).drop_columns(["topic"]))


@pytest.mark.parametrize(("name", "kind"), [("topic", pa.binary()), ("partition", pa.int64()), ("offset", pa.int32())])
def test_a_column_of_another_type_is_not_the_sources(name: str, kind: pa.DataType) -> None:
    table = rows((A, 0, 1))
    place = table.schema.get_field_index(name)
    other = table.set_column(place, name, table[name].cast(kind))
    with pytest.raises(KohortError, match=f"needs the column {name} as the source gives it"):
        partitions_of(other)


@pytest.mark.parametrize("name", ["topic", "partition", "offset"])
def test_a_row_without_topic_partition_and_offset_is_rejected(name: str) -> None:
    table = rows((A, 0, 2))
    column = table[name].to_pylist()
    place = table.schema.get_field_index(name)
    holes = table.set_column(place, name, pa.array([column[0], None], table.schema.field(name).type))
    with pytest.raises(KohortError, match=f"needs the column {name} in each row"):
        partitions_of(holes)


def test_rows_of_a_partition_that_the_batch_does_not_read_are_refused() -> None:
    with pytest.raises(KohortError, match="There are rows of flights-1, which this micro-batch does not read"):
        admitted(rows((A, 0, 2), (B, 0, 2)), {A: QueryClaim(US, 1, OLD)}, {})


def test_partitions_of_many_topics_are_distinguished_in_any_order() -> None:
    tps = [TopicPartition(topic, number) for topic in ("c", "a", "b") for number in (4, 0, 2)]
    table = rows(*((tp, 10, 12) for tp in tps), *((tp, 12, 14) for tp in reversed(tps)))
    fences = {tp: Fence(10 + place % 5, 1, US) for place, tp in enumerate(tps)}
    new, after = admitted(table, dict.fromkeys(tps, QueryClaim(US, 1)), fences)
    found: dict[TopicPartition, list[int]] = {}
    names: Any = zip(new["topic"].to_pylist(), new["partition"].to_pylist(), offsets(new), strict=True)
    for topic, number, offset in names:
        found.setdefault(TopicPartition(topic, number), []).append(offset)
    assert found == {tp: list(range(fence.next, 14)) for tp, fence in fences.items() if fence.next < 14}
    assert after == {tp: Fence(14, 1, US) for tp in found}
