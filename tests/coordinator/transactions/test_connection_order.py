"""The order of a producer's connections: which requests are late, and how much of it is remembered."""

from __future__ import annotations

import pytest

from kohort.coordinator.transactions import ConnectionOrder, LateRequest, Verdict, producer_of
from kohort.coordinator.transactions.connection_order import Producer
from kohort.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kohort.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kohort.wire.messages.end_txn import EndTxnRequest

CURRENT, FIRST_LATE, LATE = Verdict.CURRENT, Verdict.FIRST_LATE, Verdict.LATE
A, B, C = (Producer(name, 7, 0) for name in "abc")


def test_a_request_is_late_if_its_producer_has_spoken_on_a_newer_connection() -> None:
    order = ConnectionOrder()
    verdicts = [order.verdict(A, connection) for connection in (1, 1, 2, 2, 1, 2, 3, 1, 2, 3)]
    assert verdicts == [CURRENT, CURRENT, CURRENT, CURRENT, FIRST_LATE, CURRENT, CURRENT, LATE, LATE, CURRENT]


def test_producers_and_epochs_are_independent_of_each_other() -> None:
    order = ConnectionOrder()
    others = [B, Producer("a", 7, 1), Producer("a", 8, 0)]
    assert order.verdict(A, 2) is CURRENT
    assert [order.verdict(other, 1) for other in others] == [CURRENT] * 3
    assert order.verdict(A, 1) is FIRST_LATE


def test_producers_that_were_quiet_the_longest_are_forgotten() -> None:
    order = ConnectionOrder(most=2)
    for producer in (A, B):
        assert order.verdict(producer, 2) is CURRENT
    assert order.verdict(A, 1) is FIRST_LATE  # a late request shows that it may be needed again
    assert order.verdict(C, 2) is CURRENT
    assert len(order) == 2
    assert (order.verdict(A, 1), order.verdict(B, 1)) == (LATE, CURRENT)


def test_a_forgotten_producer_that_returns_is_warned_of_again() -> None:
    order = ConnectionOrder(most=1)
    for producer in (A, B, A):
        assert (order.verdict(producer, 2), order.verdict(producer, 1)) == (CURRENT, FIRST_LATE)


@pytest.mark.parametrize(
    ("request_", "version", "judged"),
    [
        (EndTxnRequest(transactional_id="a", producer_id=7), 4, True),
        (EndTxnRequest(transactional_id="a", producer_id=7), 5, False),  # transaction version 2
        (AddOffsetsToTxnRequest(transactional_id="a", producer_id=7, group_id="g"), 4, True),
        (AddPartitionsToTxnRequest(v3_and_below_transactional_id="a", v3_and_below_producer_id=7), 3, True),
        (AddPartitionsToTxnRequest(), 4, False),  # from a broker, about producers of other connections
    ],
)
def test_the_requests_that_can_be_late_name_their_producer(request_: LateRequest, version: int, judged: bool) -> None:
    assert producer_of(request_, version) == (A if judged else None)
