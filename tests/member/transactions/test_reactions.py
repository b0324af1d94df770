"""The producer does what the table says for every error code, in every request that can have it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kohort.errors import ErrorCode
from kohort.member.transactions import FatalTransactionError, ProducerFencedError, TransactionAbortableError
from kohort.member.transactions.reactions import REACTIONS, Reaction, Request, decisive, reaction
from tests.member.transactions.producing import (
    T0,
    T1,
    E,
    Producing,
    S,
    aborting,
    committing,
    in_transaction,
)

CODES = [code for code in ErrorCode if code is not E.NONE]


def begun() -> Producing:
    return Producing(1).initialize()


def adding() -> Producing:
    return in_transaction(1).add(T1)


def sending() -> Producing:
    return in_transaction(1).send_offsets()


def committing_offsets() -> Producing:
    return sending().group_added().found()


PLACES: dict[Request, Callable[[ErrorCode], Producing]] = {
    Request.FIND_TRANSACTION_COORDINATOR: lambda code: begun().not_found(code),
    Request.FIND_GROUP_COORDINATOR: lambda code: sending().group_added().not_found(code),
    Request.INIT_PRODUCER_ID: lambda code: begun().found().initialized(code=code),
    Request.ADD_PARTITIONS: lambda code: adding().added(code),
    Request.ADD_OFFSETS: lambda code: sending().group_added(code),
    Request.OFFSET_COMMIT: lambda code: committing_offsets().offsets_committed(code, code),
    Request.END: lambda code: committing(1).ended(code),
    Request.PRODUCE: lambda code: in_transaction(1).lose(code),
}
"""By request: a producer that got the code as its answer."""


def what_happened(producing: Producing) -> Reaction | None:
    machine = producing.machine
    if producing.state is S.UNINITIALIZED:
        return Reaction.AGAIN
    if isinstance(machine.error, ProducerFencedError):
        return Reaction.FENCED
    if isinstance(machine.error, FatalTransactionError):
        return Reaction.FATAL
    if isinstance(machine.error, TransactionAbortableError):
        return Reaction.ABORT
    if producing.retry_at is not None:
        producing.pause()
        return Reaction.FIND if producing.find is not None else Reaction.RETRY
    return None


def test_the_table_names_every_code_for_every_request() -> None:
    assert set(REACTIONS) == set(Request) == set(PLACES)
    for request, reactions in REACTIONS.items():
        assert set(reactions) == set(CODES), request


@pytest.mark.parametrize("request_", PLACES, ids=lambda request: request.name)
def test_each_code_has_the_effect_that_the_table_says(request_: Request) -> None:
    for code in CODES:
        expected = reaction(request_, code)
        if expected is Reaction.NEW_EPOCH:
            expected = Reaction.ABORT  # this coordinator raises epochs
        producing = PLACES[request_](code)
        found = what_happened(producing)
        if request_ in (Request.FIND_TRANSACTION_COORDINATOR, Request.FIND_GROUP_COORDINATOR):
            found = Reaction.RETRY if found is Reaction.FIND else found
        assert found is expected, code.name
        error = producing.machine.error
        if error is not None:
            assert error.code is (E.PRODUCER_FENCED if expected is Reaction.FENCED else code)
            assert "tx" in str(error) and not error.retriable


def test_no_produce_error_is_retried_here() -> None:
    # The sender has retried until delivery_timeout_ms.
    assert not {Reaction.RETRY, Reaction.FIND} & set(REACTIONS[Request.PRODUCE].values())


def test_old_coordinators_that_do_not_know_producers_apart_fence_by_another_code() -> None:
    assert reaction(Request.END, E.INVALID_PRODUCER_EPOCH) is Reaction.FENCED
    # To a partition it may be the epoch of an abort by the coordinator (KIP-588).
    assert reaction(Request.PRODUCE, E.INVALID_PRODUCER_EPOCH) is Reaction.NEW_EPOCH


def test_the_error_that_decides_is_not_that_of_the_partitions_that_were_not_tried() -> None:
    adding, committed = Request.ADD_PARTITIONS, Request.OFFSET_COMMIT
    assert decisive(adding, [E.OPERATION_NOT_ATTEMPTED, E.UNKNOWN_TOPIC_OR_PARTITION]) is E.UNKNOWN_TOPIC_OR_PARTITION
    assert decisive(adding, [E.OPERATION_NOT_ATTEMPTED, E.PRODUCER_FENCED]) is E.PRODUCER_FENCED
    assert decisive(committed, [E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR]) is E.NOT_COORDINATOR
    producing = in_transaction(1, started=False).add(T0, T1)
    producing.added(E.OPERATION_NOT_ATTEMPTED, E.TOPIC_AUTHORIZATION_FAILED)
    assert producing.machine.error is not None and producing.machine.error.code is E.TOPIC_AUTHORIZATION_FAILED


def test_an_answer_that_lacks_partitions_is_no_success() -> None:
    producing = in_transaction(1, started=False).add(T0, T1)
    assert producing.sent is not None
    from kohort.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
    from kohort.wire.messages.txn_offset_commit import TxnOffsetCommitResponse

    assert producing.answer(AddPartitionsToTxnResponse()).state is S.ABORTABLE_ERROR
    assert committing_offsets().answer(TxnOffsetCommitResponse()).state is S.FATAL_ERROR


@pytest.mark.parametrize("version", [1, 2])
def test_an_abort_that_the_coordinator_does_not_know_is_done(version: int) -> None:
    producing = aborting(version).ended(E.UNKNOWN_PRODUCER_ID)
    assert producing.state is (S.INITIALIZING if version == 1 else S.READY)


def test_an_abort_that_is_answered_by_the_advice_to_abort_is_fatal() -> None:
    assert aborting().ended(E.TRANSACTION_ABORTABLE).state is S.FATAL_ERROR


def test_a_refused_group_is_not_asked_for_again_by_the_abort() -> None:
    producing = sending().group_added(E.GROUP_AUTHORIZATION_FAILED).abort().all_written()
    assert not producing.ended().find
    assert producing.state is S.INITIALIZING


def test_errors_of_batches_during_an_abort_only_cost_an_epoch() -> None:
    producing = in_transaction(1).abort().lose(E.REQUEST_TIMED_OUT)
    assert producing.state is S.ABORTING
    assert producing.all_written().ended().state is S.INITIALIZING


def test_errors_of_batches_without_a_transaction_are_of_no_interest() -> None:
    producing = begun()
    assert producing.lose().state is S.INITIALIZING and producing.machine.error is None
