"""Waits for a transaction: records of their own, which are no rebalances."""

import pytest

from kohort.group_events import HoldUpEnd, OffsetsHeldUp
from kohort.model import TopicPartition
from kohort.recorder import Journal, MalformedRecord, RebalanceRecord
from kohort.recorder.views.printing import headline, rebalances_table, summary, why

SEVEN = tuple(TopicPartition("orders", number) for number in range(7))


def record(
    transactional_id: str | None = "copier-1", end: HoldUpEnd | None = None, log_partition: int | None = 12
) -> RebalanceRecord:
    event = OffsetsHeldUp("g", 7, transactional_id, SEVEN, 500, 1_000, end, log_partition)
    [made] = Journal().observe(event, 13_500)
    return made


@pytest.mark.parametrize("end", [None, HoldUpEnd.ABORTED])
@pytest.mark.parametrize("transactional_id", [None, "copier-1"])
def test_the_record_survives_json(transactional_id: str | None, end: HoldUpEnd | None) -> None:
    made = record(transactional_id, end)
    assert RebalanceRecord.from_json(made.to_json()) == made
    assert (made.group_id, made.is_rebalance, made.ended_at) == ("g", False, 13_500)


@pytest.mark.parametrize(
    "broken", ['{"partitions": [["orders"]]}', '{"partitions": 1}', "[]", '{"producer_id": "x", "partitions": []}']
)
def test_a_malformed_record_is_refused(broken: str) -> None:
    with pytest.raises(MalformedRecord):
        RebalanceRecord.from_json(f'{{"group_id": "g", "generation": 0, "ended_at": 1, "held_offsets": {broken}}}')


def test_a_wait_is_printed_with_what_ends_it() -> None:
    made = record()
    text = why(made, {})
    assert text.startswith(
        "members wait 12.50 s for the offsets of orders-0, orders-1, orders-2, orders-3, orders-4 and 2 more"
        " in the transaction of copier-1 (producer 7), pending since "
    )
    assert text.endswith(
        "kohort transactions fence copier-1 ends it and fences its producer; if kohort transactions find-hanging"
        " --topic __consumer_offsets lists it, kohort transactions abort __consumer_offsets 12 --producer-id 7 does"
    )
    assert rebalances_table([made]).row_count == 1
    assert "generation" not in headline(made, {}).plain


def test_the_transactional_id_is_looked_up_if_it_is_not_known() -> None:
    text = why(record(None), {})
    assert "in the transaction of producer 7, pending" in text
    assert "kohort transactions list --producer-id 7 shows its transactional ID" in text


def test_the_end_of_a_wait_needs_no_advice() -> None:
    text = why(record(end=HoldUpEnd.ABORTED), {})
    assert text.endswith("in the transaction of copier-1 (producer 7): aborted")


def test_waits_are_counted_once_and_not_as_rebalances() -> None:
    assert summary([record(), record(end=HoldUpEnd.COMMITTED)]) == (
        "No rebalance is recorded. Members waited for 1 transaction."
    )
