"""Transactions step by step: what is asked for in which order, in both versions of the protocol."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kohort.errors import KafkaError, KohortError
from kohort.member.transactions import (
    Coordinator,
    FatalTransactionError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionState,
    TransactionStateError,
)
from kohort.member.transactions.states import PREDECESSORS
from kohort.requests import ProducerId
from kohort.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kohort.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kohort.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kohort.wire.messages.init_producer_id import InitProducerIdRequest
from kohort.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.member.transactions.producing import (
    ABORT,
    COMMIT,
    INITIALIZE,
    SEND_OFFSETS,
    T0,
    T1,
    E,
    Producing,
    S,
    aborting,
    committing,
    in_transaction,
    ready,
)


def test_the_first_request_asks_the_coordinator_of_the_transactional_id_for_an_epoch() -> None:
    producing = Producing().initialize()
    assert producing.find == Coordinator(1, "tx") and producing.state is S.INITIALIZING
    request = producing.found().request(InitProducerIdRequest)
    assert (request.transactional_id, request.transaction_timeout_ms) == ("tx", 30_000)
    assert (request.producer_id, request.producer_epoch) == (-1, -1)
    assert producing.initialized(epoch=4).state is S.READY and producing.settled == {INITIALIZE: None}
    assert producing.machine.producer_id == ProducerId(9, 4)


def test_version_2_adds_partitions_without_a_request() -> None:
    producing = in_transaction(started=False)
    assert not producing.machine.may_send(T0)
    producing.add(T0)
    assert producing.sent is None and producing.machine.may_send(T0) and not producing.machine.may_send(T1)


def test_version_1_adds_partitions_before_their_first_batch() -> None:
    producing = in_transaction(1, started=False).add(T0, T1)
    request = producing.request(AddPartitionsToTxnRequest)
    assert request.v3_and_below_transactional_id == "tx"
    assert [(topic.name, topic.partitions) for topic in request.v3_and_below_topics] == [("t", [0, 1])]
    assert not producing.machine.may_send(T0)
    before = producing.wakes
    producing.added()
    assert producing.machine.may_send(T0) and producing.machine.may_send(T1)
    assert producing.wakes == before + 1
    assert producing.add(T0, T1).sent is None  # they are in the transaction


def test_partitions_that_come_while_others_are_added_are_added_next() -> None:
    producing = in_transaction(1, started=False).add(T0).add(T0, T1).added()
    assert [topic.partitions for topic in producing.request(AddPartitionsToTxnRequest).v3_and_below_topics] == [[1]]


def test_version_2_sends_offsets_to_the_coordinator_of_the_group_at_once() -> None:
    producing = in_transaction(started=False).send_offsets()
    assert producing.find == Coordinator(0, "g")
    request = producing.found().request(TxnOffsetCommitRequest)
    assert producing.sent is not None and producing.sent.newest is None
    assert (request.generation_id, request.member_id, request.group_instance_id) == (3, "member", "instance")
    offsets = [(p.partition_index, p.committed_offset, p.committed_metadata) for p in request.topics[0].partitions]
    assert offsets == [(0, 5, ""), (1, 7, "note")]
    assert producing.offsets_committed().settled[SEND_OFFSETS] is None


def test_version_1_adds_the_group_to_the_transaction_before_its_offsets() -> None:
    producing = in_transaction(1, started=False).send_offsets()
    assert producing.request(AddOffsetsToTxnRequest).group_id == "g"
    producing.group_added().found()
    producing.request(TxnOffsetCommitRequest)
    assert producing.sent is not None and producing.sent.newest == 4
    assert producing.offsets_committed().settled[SEND_OFFSETS] is None


def test_only_the_offsets_that_are_not_written_are_sent_again() -> None:
    producing = in_transaction().send_offsets().found().offsets_committed(E.NONE, E.COORDINATOR_LOAD_IN_PROGRESS)
    assert SEND_OFFSETS not in producing.settled
    assert producing.pause() == 100
    [topic] = producing.request(TxnOffsetCommitRequest).topics
    assert [partition.partition_index for partition in topic.partitions] == [1]
    assert producing.offsets_committed().settled[SEND_OFFSETS] is None


def test_a_call_without_offsets_ends_at_once() -> None:
    producing = in_transaction(started=False)
    producing.do(producing.machine.send_offsets(SEND_OFFSETS, {}, "g", 0))  # type: ignore[arg-type]
    assert producing.settled[SEND_OFFSETS] is None and producing.find is None


@pytest.mark.parametrize(("version", "newest"), [(1, 4), (2, None)])
def test_a_commit_is_sent_when_all_is_written(version: int, newest: int | None) -> None:
    producing = in_transaction(version).commit()
    assert producing.state is S.COMMITTING and producing.sent is None and producing.wakes
    producing.all_written()
    assert producing.request(EndTxnRequest).committed
    assert producing.sent is not None and producing.sent.newest == newest
    producing.ended()
    assert producing.state is S.READY and producing.settled[COMMIT] is None
    assert not producing.machine.may_send(T0)


def test_offsets_go_before_the_commit() -> None:
    producing = in_transaction().send_offsets().commit().all_written().found()
    producing.request(TxnOffsetCommitRequest)
    producing.offsets_committed().request(EndTxnRequest)


def test_partitions_of_batches_that_linger_are_added_during_the_commit() -> None:
    producing = in_transaction(1).commit().add(T1)
    producing.request(AddPartitionsToTxnRequest)
    producing.added().all_written().request(EndTxnRequest)


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_without_contents_ends_without_a_request(version: int) -> None:
    for end in (Producing.commit, Producing.abort):
        producing = end(in_transaction(version, started=False)).all_written()
        assert producing.state is S.READY and producing.sent is None
        assert producing.settled[COMMIT if end is Producing.commit else ABORT] is None


def test_version_2_takes_the_next_epoch_from_the_end_of_the_transaction() -> None:
    producing = committing().ended(producer_id=9, producer_epoch=1)
    assert producing.machine.producer_id == ProducerId(9, 1)
    producing.machine.begin()
    producing.add(T0).commit().all_written()
    assert producing.request(EndTxnRequest).producer_epoch == 1
    producing.ended(producer_id=12, producer_epoch=0)  # the epochs of 9 are exhausted
    assert producing.machine.producer_id == ProducerId(12, 0)


def test_an_abort_discards_what_was_not_sent_and_waits_for_what_is_under_way() -> None:
    producing = in_transaction().abort()
    assert isinstance(producing.discarded, TransactionAbortableError) and not producing.retries_discarded
    assert producing.state is S.ABORTING and producing.sent is None
    assert producing.machine.may_send(T0)  # batches that are under way are sent until they have an answer
    producing.all_written()
    assert not producing.request(EndTxnRequest).committed
    assert producing.ended().state is S.READY and producing.settled[ABORT] is None


def test_a_lost_batch_fails_the_commit_and_an_abort_helps() -> None:
    producing = in_transaction().commit().lose()
    error = producing.settled[COMMIT]
    assert isinstance(error, TransactionAbortableError) and error.code is E.MESSAGE_TOO_LARGE
    assert producing.state is S.ABORTABLE_ERROR and producing.discarded is error
    with pytest.raises(TransactionAbortableError, match="MESSAGE_TOO_LARGE"):
        producing.machine.check_open()
    with pytest.raises(TransactionAbortableError):
        producing.commit()
    with pytest.raises(TransactionAbortableError):
        producing.send_offsets()
    producing.abort().all_written()
    assert producing.ended(producer_id=9, producer_epoch=1).state is S.READY
    assert producing.machine.error is None


def test_after_an_error_version_1_asks_for_another_epoch() -> None:
    # KIP-360: a batch of the failed transaction that arrives late has an old epoch then.
    producing = in_transaction(1).lose().abort().all_written().ended()
    assert producing.state is S.INITIALIZING and ABORT not in producing.settled
    request = producing.request(InitProducerIdRequest)
    assert (request.producer_id, request.producer_epoch) == (9, 0)
    assert producing.initialized(epoch=1).state is S.READY and producing.settled[ABORT] is None


def test_an_abort_without_an_error_keeps_the_epoch_in_version_1() -> None:
    assert aborting(1).ended().state is S.READY


def test_a_coordinator_that_cannot_raise_epochs_keeps_the_epoch() -> None:
    assert in_transaction(1, bumps_epochs=False).lose().abort().all_written().ended().state is S.READY


def test_an_unknown_outcome_is_fatal_where_no_epoch_can_be_raised() -> None:
    producing = in_transaction(1, bumps_epochs=False).lose(E.REQUEST_TIMED_OUT)
    assert producing.state is S.FATAL_ERROR
    assert in_transaction(1).lose(E.REQUEST_TIMED_OUT).state is S.ABORTABLE_ERROR


def test_the_first_transaction_of_version_2_gets_an_epoch_of_its_own() -> None:
    producing = in_transaction(1)
    producing.machine.features(2)
    assert producing.machine.version == 1  # this transaction stays as it began
    producing.commit().all_written().ended()
    assert producing.state is S.INITIALIZING and producing.machine.version == 2
    assert producing.initialized(epoch=1).state is S.READY and producing.settled[COMMIT] is None


def test_a_downgrade_applies_from_the_next_transaction_on() -> None:
    producing = in_transaction(2)
    producing.machine.features(1)
    assert producing.machine.version == 2
    assert producing.commit().all_written().ended(producer_id=9, producer_epoch=1).machine.version == 1
    assert producing.state is S.READY


def test_partitions_that_may_have_been_added_are_asked_for_again_before_an_abort() -> None:
    # Were the transaction taken for one that never began, its partitions would be in the next one.
    producing = in_transaction(1, started=False).add(T0).no_answer().lose().abort().all_written()
    producing.pause()
    producing.found().request(AddPartitionsToTxnRequest)
    assert not producing.added().request(EndTxnRequest).committed


def test_partitions_that_were_never_asked_for_are_not_added_by_an_abort() -> None:
    producing = in_transaction(1).send_offsets()
    producing.add(T1).abort().all_written()
    producing.request(AddOffsetsToTxnRequest)
    producing.group_added().request(EndTxnRequest)


def test_a_group_that_may_have_been_added_is_asked_for_again_before_an_abort() -> None:
    producing = in_transaction(1, started=False).send_offsets().no_answer().abort().all_written()
    assert isinstance(producing.settled[SEND_OFFSETS], TransactionAbortableError)
    producing.pause()
    producing.found().request(AddOffsetsToTxnRequest)
    producing.group_added().request(EndTxnRequest)


def test_an_abort_waits_for_the_answer_to_offsets_and_sends_them_no_more() -> None:
    producing = in_transaction().send_offsets().found().abort().all_written()
    producing.request(TxnOffsetCommitRequest)
    producing.offsets_committed(E.NONE, E.COORDINATOR_LOAD_IN_PROGRESS).request(EndTxnRequest)


def test_offsets_that_may_arrive_after_an_abort_cost_version_1_an_epoch() -> None:
    producing = in_transaction(1).send_offsets().group_added().found().abort().all_written().no_answer()
    assert producing.ended().state is S.INITIALIZING


def test_the_end_is_sent_again_until_it_has_an_answer() -> None:
    producing = committing().no_answer()
    assert producing.retry_at == 100
    producing.pause()
    producing.found().request(EndTxnRequest)
    producing.ended(E.CONCURRENT_TRANSACTIONS)
    assert producing.pause() == 200
    assert producing.ended().settled[COMMIT] is None


def test_pauses_double_up_to_their_limit_and_begin_again_after_a_success() -> None:
    producing = ready()
    producing.machine.begin()
    producing.send_offsets().found()
    passed = []
    for _ in range(6):
        producing.offsets_committed(E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_LOAD_IN_PROGRESS)
        passed.append(producing.pause())
    assert passed == [100, 200, 400, 800, 1_000, 1_000]
    problem = producing.machine.problem
    assert problem is not None and problem.code is E.COORDINATOR_LOAD_IN_PROGRESS
    producing.offsets_committed().send_offsets(5)
    assert producing.machine.problem is None
    assert producing.offsets_committed(E.NONE, E.COORDINATOR_LOAD_IN_PROGRESS).pause() == 100


def test_what_begins_a_transaction_is_sent_again_soon_while_the_one_before_ends() -> None:
    busy = E.CONCURRENT_TRANSACTIONS
    producing, passed = in_transaction(1, started=False).add(T0), []
    for _ in range(4):
        producing.added(busy)
        passed.append(producing.pause())
    assert passed == [5, 10, 20, 20]
    producing.added().send_offsets().group_added(busy)
    assert producing.pause() == 5
    producing = in_transaction(started=False).send_offsets().found().offsets_committed(busy, busy)
    assert producing.pause() == 5
    # An epoch takes as long as the abort of the transaction before.
    assert Producing().initialize().found().initialized(code=busy).pause() == 100


def test_an_event_of_another_kind_does_not_end_a_pause() -> None:
    producing = in_transaction().send_offsets().found()
    producing.offsets_committed(E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS)
    assert producing.add(T0).retry_at == 5 and producing.sent is None
    producing.do(producing.machine.responded(99, EndTxnResponse(), 1))
    assert producing.retry_at == 5


def test_late_answers_change_nothing() -> None:
    producing = committing()
    assert producing.sent is not None
    sent = producing.sent
    producing.no_answer().pause()
    producing.found().request(EndTxnRequest)
    producing.do(producing.machine.responded(sent.request, EndTxnResponse(), producing.now))
    assert producing.state is S.COMMITTING
    producing.do(producing.machine.coordinator_found(Coordinator(0, "other"), producing.now))
    assert producing.state is S.COMMITTING
    fenced = in_transaction(1).send_offsets()
    asked = fenced.sent
    assert asked is not None
    fenced.lose(E.PRODUCER_FENCED)
    fenced.do(fenced.machine.request_failed(asked.request, KafkaError(E.NETWORK_EXCEPTION), 0))
    assert fenced.state is S.FATAL_ERROR and fenced.retry_at is None


def test_a_second_initialization_is_refused() -> None:
    with pytest.raises(TransactionStateError, match="once"):
        ready().initialize()


def test_an_initialization_that_is_not_allowed_may_be_repeated() -> None:
    producing = Producing().initialize().found().initialized(code=E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    error = producing.settled[INITIALIZE]
    assert error is not None and error.code is E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert producing.state is S.UNINITIALIZED
    assert producing.initialize().initialized().state is S.READY


REFUSED: dict[str, tuple[Callable[[Producing], object], frozenset[TransactionState]]] = {
    "begin": (lambda p: p.machine.begin(), frozenset({S.READY})),
    "send": (lambda p: p.machine.check_open(), frozenset({S.IN_TRANSACTION})),
    "offsets": (Producing.send_offsets, frozenset({S.IN_TRANSACTION})),
    "commit": (Producing.commit, frozenset({S.IN_TRANSACTION})),
    "abort": (Producing.abort, frozenset({S.IN_TRANSACTION, S.ABORTABLE_ERROR})),
}

STATES: dict[TransactionState, Callable[[], Producing]] = {
    S.UNINITIALIZED: Producing,
    S.INITIALIZING: lambda: Producing().initialize(),
    S.READY: ready,
    S.IN_TRANSACTION: in_transaction,
    S.COMMITTING: committing,
    S.ABORTING: aborting,
    S.ABORTABLE_ERROR: lambda: in_transaction().lose(),
    S.FATAL_ERROR: lambda: in_transaction().lose(E.PRODUCER_FENCED),
}


def test_the_producers_of_this_test_are_in_all_states() -> None:
    assert {state: made().state for state, made in STATES.items()} == {state: state for state in TransactionState}


@pytest.mark.parametrize("call", REFUSED)
@pytest.mark.parametrize("state", STATES)
def test_each_call_is_taken_in_its_states_and_refused_in_others(state: TransactionState, call: str) -> None:
    make, (do, taken_in) = STATES[state], REFUSED[call]
    producing = make()
    if state in taken_in:
        do(producing)
        return
    expected: type[KohortError] = TransactionStateError
    if state is S.ABORTABLE_ERROR:
        expected = TransactionAbortableError
    elif state is S.FATAL_ERROR:
        expected = ProducerFencedError
    with pytest.raises(expected):
        do(producing)
    assert producing.state is state


def test_a_fatal_error_ends_everything() -> None:
    producing = in_transaction(1).send_offsets().lose(E.CLUSTER_AUTHORIZATION_FAILED)
    assert isinstance(producing.settled[SEND_OFFSETS], FatalTransactionError)
    assert producing.retries_discarded and not producing.machine.may_send(T0)
    assert producing.lose().state is S.FATAL_ERROR
    for call in (Producing.initialize, Producing.abort):
        with pytest.raises(FatalTransactionError):
            call(producing)


def test_every_transition_is_one_of_the_table() -> None:
    assert set(PREDECESSORS) == set(TransactionState)
    assert all(S.FATAL_ERROR not in before for before in PREDECESSORS.values())
