"""Partitions, ends, markers and timeouts of transactions."""

import pytest

from kohort.coordinator.transactions import (
    TransactionalIdExpiry,
    TransactionConfig,
    TransactionEffects,
    TransactionState,
    TransactionTimeout,
)
from kohort.errors import ErrorCode
from kohort.model import TopicPartition
from kohort.wire.group_log import Record
from kohort.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kohort.wire.messages.describe_transactions import DescribeTransactionsRequest
from kohort.wire.messages.list_transactions import ListTransactionsRequest
from kohort.wire.messages.transaction_records import TransactionLogKey, TransactionLogValue
from kohort.wire.transaction_log import decode_value
from tests.coordinator.transactions.shell import OFFSETS, A, B, Producer, Shell

OLD, NEW = 4, 5
"""Versions of EndTxn of producers without and with an epoch for each transaction."""


def test_a_transaction_commits_when_every_partition_has_its_marker() -> None:
    shell = Shell()
    producer = shell.started()
    assert shell.add(producer, A) is shell.add(producer, B) is ErrorCode.NONE
    assert shell.add_offsets(producer) is ErrorCode.NONE
    assert shell.end(producer, commit=True, api_version=OLD) == (-1, -1)
    [marker] = shell.markers
    assert (marker.committed, set(marker.partitions), marker.epoch) == (True, {A, B, OFFSETS}, 0)
    shell.mark(A, OFFSETS)
    assert shell.state() is TransactionState.PREPARE_COMMIT
    # Until then the next transaction must wait: its records could get in front of the marker.
    assert shell.add(producer, A) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert shell.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    shell.mark(B)
    assert (shell["t"].state, shell["t"].partitions) == (TransactionState.COMPLETE_COMMIT, frozenset())
    assert shell.add(producer, A) is ErrorCode.NONE


def test_partitions_that_are_in_the_transaction_need_no_record() -> None:
    shell = Shell()
    producer = shell.started()
    shell.add(producer, A, B)
    written = len(shell.log)
    assert shell.add(producer, B) is shell.add(producer, A, B) is ErrorCode.NONE
    assert len(shell.log) == written


@pytest.mark.parametrize(("api_version", "version"), [(3, 0), (4, 0), (5, 2)])
def test_the_version_of_the_producer_is_known_from_its_request(api_version: int, version: int) -> None:
    shell = Shell()
    producer = shell.started()
    shell.add(producer, A, api_version=api_version)
    assert shell["t"].version == version
    ended(shell, producer, OLD, commit=True)
    shell.add_offsets(producer)
    assert (shell["t"].version, set(shell["t"].partitions)) == (0, {OFFSETS})


def test_the_timeout_counts_from_the_first_partition() -> None:
    shell = Shell()
    producer = shell.started(timeout_ms=5_000)
    shell.add(producer, A)
    due = shell.now + 5_000
    shell.advance(1_000)
    shell.add(producer, B)
    assert shell.timers[TransactionTimeout("t")] == due
    shell.end(producer, commit=True)
    assert TransactionTimeout("t") not in shell.timers


@pytest.mark.parametrize(("api_version", "fenced"), [(0, 47), (1, 47), (2, 90), (3, 90), (4, 90), (5, 90)])
def test_only_the_current_producer_may_add_partitions(api_version: int, fenced: int) -> None:
    shell = Shell()
    producer_id, _ = shell.started()
    shell.started()
    assert shell.add((producer_id, 0), A, api_version=api_version) == fenced
    assert shell.add((producer_id, 2), A, api_version=api_version) == fenced
    unknown = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert shell.add((producer_id + 1, 1), A, api_version=api_version) is unknown
    assert shell.add((producer_id, 1), A, transactional_id="other", api_version=api_version) is unknown
    assert shell.add((producer_id, 1), A, transactional_id="", api_version=api_version) is ErrorCode.INVALID_REQUEST


def test_brokers_add_partitions_to_several_transactions_at_once() -> None:
    shell = Shell()
    one, other = shell.started("one"), shell.started("other")
    topics = [AddPartitionsToTxnTopic(name="orders", partitions=[0, 1])]
    requests = [
        AddPartitionsToTxnTransaction(transactional_id=name, producer_id=id, producer_epoch=epoch, topics=topics)
        for name, id, epoch in [("one", *one), ("other", other[0], 9)]
    ]
    answer = shell.send(AddPartitionsToTxnRequest(transactions=requests), 5)
    assert [
        (one.transactional_id, [each.partition_error_code for each in one.topic_results[0].results_by_partition])
        for one in answer.results_by_transaction
    ] == [("one", [0, 0]), ("other", [ErrorCode.PRODUCER_FENCED] * 2)]
    assert shell["one"].partitions == {A, B}
    assert shell["one"].version == 2


def test_a_broker_verifies_that_partitions_are_in_the_transaction() -> None:
    shell = Shell()
    producer = shell.started()
    shell.add(producer, A)
    written = len(shell.log)
    assert shell.verify(producer, A, B) == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    assert shell.verify((producer[0], 9), A) == [ErrorCode.PRODUCER_FENCED]
    assert shell.verify((9, 0), A) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    shell.end(producer, commit=True, api_version=OLD)
    assert shell.verify(producer, A) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    shell.mark()
    assert shell.verify(producer, A) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert len(shell.log) == written + 2


# EndTxn without an epoch for each transaction


def ended(shell: Shell, producer: Producer, api_version: int, *, commit: bool) -> Producer:
    """Return the producer after a transaction that is complete."""
    assert shell.add(producer, A, api_version=5) is ErrorCode.NONE
    after = shell.end(producer, commit=commit, api_version=api_version)
    assert not isinstance(after, ErrorCode)
    shell.mark()
    return after


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_is_repeated_without_effect_and_cannot_be_turned_into_the_other(commit: bool) -> None:
    shell = Shell()
    producer = shell.started()
    assert shell.end(producer, commit=commit, api_version=OLD) is ErrorCode.INVALID_TXN_STATE
    shell.add(producer, A)
    assert shell.end(producer, commit=commit, api_version=OLD) == (-1, -1)
    assert shell.end(producer, commit=commit, api_version=OLD) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert shell.end(producer, commit=not commit, api_version=OLD) is ErrorCode.INVALID_TXN_STATE
    shell.mark()
    written = len(shell.log)
    assert shell.end(producer, commit=commit, api_version=OLD) == (-1, -1)
    assert shell.end(producer, commit=not commit, api_version=OLD) is ErrorCode.INVALID_TXN_STATE
    assert len(shell.log) == written


@pytest.mark.parametrize(("api_version", "fenced"), [(0, 47), (1, 47), (2, 90), (4, 90), (5, 90)])
def test_only_the_current_producer_may_end_a_transaction(api_version: int, fenced: int) -> None:
    shell = Shell()
    producer_id, epoch = shell.started()
    shell.add((producer_id, epoch), A)
    for wrong in (1, 5, 32_766):
        assert shell.end((producer_id, wrong), commit=True, api_version=api_version) == fenced
    unknown = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert shell.end((producer_id + 1, 0), commit=True, api_version=api_version) is unknown
    assert shell.end((producer_id, 0), commit=True, transactional_id="x", api_version=api_version) is unknown
    invalid = shell.end((producer_id, 0), commit=True, transactional_id="", api_version=api_version)
    assert invalid is ErrorCode.INVALID_REQUEST
    assert shell.state() is TransactionState.ONGOING


# EndTxn with an epoch for each transaction (KIP-890)


@pytest.mark.parametrize("commit", [True, False])
def test_every_transaction_has_its_own_epoch(commit: bool) -> None:
    shell = Shell()
    producer_id, _ = first = shell.started()
    shell.add(first, A)
    assert shell.end(first, commit=commit) == (producer_id, 1)
    [marker] = shell.markers
    # Partitions refuse batches of the old epoch as soon as they have the marker.
    assert (marker.epoch, marker.version) == (1, 2)
    shell.mark()
    second = (producer_id, 1)
    assert shell.add(first, A) is ErrorCode.PRODUCER_FENCED
    assert ended(shell, second, NEW, commit=commit) == (producer_id, 2)


@pytest.mark.parametrize("commit", [True, False])
def test_a_repeated_end_has_the_epoch_before(commit: bool) -> None:
    shell = Shell()
    first = shell.started()
    shell.add(first, A)
    second = shell.end(first, commit=commit)
    assert shell.end(first, commit=commit) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert shell.end(first, commit=not commit) is ErrorCode.INVALID_TXN_STATE
    assert not isinstance(second, ErrorCode)
    # An abort of the next transaction waits for the first one, as in Apache Kafka: its producer is not fenced.
    for next_commit in (True, False):
        assert shell.end(second, commit=next_commit) is ErrorCode.CONCURRENT_TRANSACTIONS
    shell.mark()
    written = len(shell.log)
    assert shell.end(first, commit=commit) == second
    assert shell.end(first, commit=not commit) is ErrorCode.INVALID_TXN_STATE
    assert shell.end(second, commit=True) is ErrorCode.INVALID_TXN_STATE
    assert len(shell.log) == written


def test_an_abort_without_partitions_bumps_the_epoch_at_once() -> None:
    # A producer whose writes failed does not know whether one of them has begun the transaction.
    shell = Shell()
    producer_id, _ = first = shell.started()
    assert shell.end(first, commit=True) is ErrorCode.INVALID_TXN_STATE
    assert shell.end(first, commit=False) == (producer_id, 1)
    assert shell.markers == []
    assert shell.state() is TransactionState.COMPLETE_ABORT
    assert shell.end((producer_id, 1), commit=False) == (producer_id, 2)
    third = ended(shell, (producer_id, 2), NEW, commit=True)
    assert shell.end(third, commit=False) == (producer_id, 4)
    assert shell.markers == []


def test_the_last_epoch_ends_with_a_new_producer_id() -> None:
    shell = Shell()
    producer = shell.started()
    while producer[1] < 32_766:
        producer = shell.started()
    shell.add(producer, A)
    new = shell.end(producer, commit=True)
    assert not isinstance(new, ErrorCode)
    assert new[0] != producer[0]
    assert new[1] == 0
    [marker] = shell.markers
    assert (marker.producer_id, marker.epoch) == (producer[0], 32_767)
    shell.fail_over()
    shell.mark()
    assert shell.end(producer, commit=True) == new  # repeated
    assert shell.end(producer, commit=False) is ErrorCode.INVALID_TXN_STATE
    assert ended(shell, new, NEW, commit=True) == (new[0], 1)
    assert shell.end(producer, commit=True) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_abort_in_the_last_epoch_is_not_taken_for_the_repeated_end_of_the_transaction_before() -> None:
    shell = Shell()
    producer = shell.started()
    while producer[1] < 32_765:
        producer = shell.started()
    last = ended(shell, producer, NEW, commit=True)
    assert last == (producer[0], 32_766)
    # Nothing was added to the next transaction, so its abort only gets the next epoch: that of a new ID.
    new = shell.end(last, commit=False)
    assert not isinstance(new, ErrorCode)
    assert new[0] != producer[0] and new[1] == 0
    assert shell.end(last, commit=False) == new  # repeated


def test_a_timeout_in_the_last_epoch_ends_with_a_new_producer_id() -> None:
    # KAFKA-20090: the abort of the producer, which arrives after that, must not leave the transaction open.
    shell = Shell()
    producer = shell.started(timeout_ms=5_000)
    while producer[1] < 32_766:
        producer = shell.started(timeout_ms=5_000)
    shell.add(producer, A)
    shell.advance(5_000)
    assert shell.end(producer, commit=False) is ErrorCode.CONCURRENT_TRANSACTIONS
    shell.mark()
    assert shell.state() is TransactionState.COMPLETE_ABORT
    new = shell.end(producer, commit=False)
    assert not isinstance(new, ErrorCode)
    assert new[0] != producer[0] and new[1] == 0
    assert ended(shell, new, NEW, commit=True) == (new[0], 1)


def test_a_producer_keeps_the_version_of_its_transaction_when_the_level_changes() -> None:
    shell = Shell()
    producer = shell.started()
    shell.add(producer, A)
    shell.version = 0
    after = shell.end(producer, commit=True)
    assert after == (producer[0], 1)
    shell.mark()
    shell.add(after, A, api_version=OLD)
    shell.version = 2
    assert shell.end(after, commit=True, api_version=OLD) == (-1, -1)
    shell.mark()
    assert (shell["t"].epoch, shell.state()) == (1, TransactionState.COMPLETE_COMMIT)


def test_a_producer_changes_its_version_between_two_transactions() -> None:
    shell = Shell(version=0)
    producer = shell.started()
    ended(shell, producer, OLD, commit=True)
    shell.version = 2
    after = ended(shell, producer, NEW, commit=True)
    assert after == (producer[0], 1)
    shell.version = 0
    assert ended(shell, after, OLD, commit=False) == (-1, -1)
    assert shell["t"].epoch == 1


# Time


@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_that_is_not_ended_is_aborted_after_its_timeout(version: int) -> None:
    shell = Shell(version=version)
    producer = shell.started(timeout_ms=5_000)
    shell.add(producer, A)
    shell.advance(4_000)
    shell.add(producer, B)  # this does not extend it
    shell.advance(999)
    assert shell.state() is TransactionState.ONGOING
    shell.advance(1)
    [marker] = shell.markers
    assert (marker.committed, marker.epoch, set(marker.partitions)) == (False, 1, {A, B})
    assert shell.end(producer, commit=True, api_version=OLD) is ErrorCode.PRODUCER_FENCED
    shell.mark()
    assert shell.state() is TransactionState.COMPLETE_ABORT


def test_a_producer_that_aborts_too_late_continues_with_the_epoch_of_the_timeout() -> None:
    shell = Shell()
    producer = shell.started(timeout_ms=5_000)
    shell.add(producer, A)
    shell.advance(5_000)
    shell.mark()
    assert shell.end(producer, commit=True) is ErrorCode.INVALID_TXN_STATE
    assert shell.end(producer, commit=False) == (producer[0], 1)


def test_a_timeout_survives_a_failover_and_ends_with_its_transaction() -> None:
    shell = Shell()
    producer = shell.started(timeout_ms=5_000)
    shell.add(producer, A)
    shell.advance(3_000)
    shell.fail_over()
    shell.advance(1_999)
    assert shell.end(producer, commit=True) == (producer[0], 1)
    shell.mark()
    shell.add((producer[0], 1), A)
    shell.advance(4_999)
    assert shell.state() is TransactionState.ONGOING
    assert {type(timer) for timer in shell.timers} > {TransactionalIdExpiry}


def test_a_timer_that_fires_early_or_late_ends_no_transaction() -> None:
    shell = Shell()
    producer = shell.started(timeout_ms=5_000)
    assert shell.shard.fire(TransactionTimeout("unknown"), shell.now) == TransactionEffects()
    assert shell.shard.fire(TransactionTimeout("t"), shell.now) == TransactionEffects()
    shell.add(producer, A)
    early = shell.shard.fire(TransactionTimeout("t"), shell.now + 4_999)
    assert early == TransactionEffects(timers={TransactionTimeout("t"): shell.now + 5_000})
    shell.end(producer, commit=True)
    assert shell.shard.fire(TransactionTimeout("t"), shell.now + 5_000) == TransactionEffects()


def test_markers_are_due_again_after_a_failover() -> None:
    shell = Shell()
    producer = shell.started()
    shell.add(producer, A, B)
    shell.end(producer, commit=True)
    shell.mark(A)
    shell.fail_over()
    [marker] = shell.markers
    assert (set(marker.partitions), marker.committed, marker.epoch) == ({A, B}, True, 1)
    shell.mark(B)
    assert shell.state() is TransactionState.PREPARE_COMMIT
    shell.mark(A)
    assert shell.state() is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("api_version", [OLD, NEW])
def test_the_next_transaction_waits_for_the_markers_of_either_end_also_after_a_failover(
    commit: bool, api_version: int
) -> None:
    shell = Shell()
    producer = shell.started()
    shell.add(producer, A)
    after = shell.end(producer, commit=commit, api_version=api_version)
    assert not isinstance(after, ErrorCode)
    following = after if api_version == NEW else producer
    written = len(shell.log)
    for _ in range(2):
        assert shell.add(following, B) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert shell.add_offsets(following) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert shell.init() is ErrorCode.CONCURRENT_TRANSACTIONS
        shell.fail_over()
    assert len(shell.log) == written
    shell.mark()
    assert shell.add(following, B) is ErrorCode.NONE
    assert shell["t"].partitions == {B}


def test_each_transaction_waits_for_its_own_markers() -> None:
    shell = Shell()
    producer = shell.started()
    for commit in (True, False, True):
        shell.add(producer, A, B)
        shell.end(producer, commit=commit, api_version=OLD)
        shell.mark(B)
        assert shell.state() in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
        shell.mark(A)
        assert shell.state() in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


def test_an_end_without_partitions_in_the_log_is_completed_after_a_failover() -> None:
    # Kafka writes it and the completion apart, and may stop in between.
    shell = Shell()
    producer = shell.started()
    shell.end(producer, commit=False)
    assert len(shell.log) == 3
    del shell.log[-1]
    shell.fail_over()
    assert (shell.state(), shell.markers, len(shell.log)) == (TransactionState.COMPLETE_ABORT, [], 3)


def test_a_late_report_about_markers_does_not_end_the_next_transaction() -> None:
    shell = Shell()
    producer = shell.started()
    second = ended(shell, producer, NEW, commit=True)
    shell.add(second, A)
    shell.end(second, commit=False)
    effects = shell.shard.marked("t", producer[0], 1, {A}, shell.now)
    assert effects.records == []
    assert shell.shard.marked("unknown", producer[0], 1, {A}, shell.now).records == []


def test_only_ids_without_a_transaction_expire() -> None:
    shell = Shell(TransactionConfig(id_expiration_ms=1_000, id_expiration_check_interval_ms=500))
    shell.started("idle")
    complete = shell.started("complete")
    shell.add(complete, A, transactional_id="complete")
    shell.end(complete, commit=True, transactional_id="complete")
    shell.mark()
    for name in ("open", "ending"):
        producer = shell.started(name, timeout_ms=900_000)
        shell.add(producer, A, transactional_id=name)
    shell.end(producer, commit=True, transactional_id="ending")
    shell.advance(999)
    assert len(shell.shard.transactions) == 4
    shell.advance(1)
    assert set(shell.shard.transactions) == {"open", "ending"}
    shell.fail_over()
    assert set(shell.shard.transactions) == {"open", "ending"}


def test_a_shard_that_moves_away_takes_no_more_requests() -> None:
    shell = Shell()
    shell.add(shell.started("one"), A, transactional_id="one")
    shell.started("two")
    effects = shell.shard.resign()
    assert effects.timers == dict.fromkeys(
        [TransactionTimeout("one"), TransactionTimeout("two"), TransactionalIdExpiry()]
    )
    with pytest.raises(AssertionError):
        shell.init("one")


def test_a_loaded_shard_sets_its_timers() -> None:
    shell = Shell(TransactionConfig(id_expiration_check_interval_ms=700))
    shell.add(shell.started(timeout_ms=5_000), A)
    began = shell.now
    shell.advance(300)
    shell.fail_over()
    assert shell.timers == {TransactionTimeout("t"): began + 5_000, TransactionalIdExpiry(): began + 1_000}


def test_a_clock_that_goes_back_does_not_make_a_state_older() -> None:
    shell = Shell()
    shell.started()
    before = shell["t"].updated_at
    shell.now -= 500
    shell.started()
    assert shell["t"].updated_at == before


def test_a_fence_without_epochs_forgets_the_epoch_before_it() -> None:
    shell = Shell(version=0)
    first = shell.started()
    second = shell.started(producer=first)
    shell.add(second, A)
    assert shell.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    shell.mark()
    # The first request must not be answered with the epoch of the producer that is to come.
    assert shell.init(producer=first) is ErrorCode.PRODUCER_FENCED
    assert shell.init(producer=second) is ErrorCode.PRODUCER_FENCED


def test_a_producer_may_continue_after_the_end_of_its_transaction() -> None:
    # KIP-360 beside KIP-890: the epoch that EndTxn gave is the answer to a request with the one before.
    shell = Shell()
    first = shell.started()
    second = ended(shell, first, NEW, commit=True)
    assert shell.init(producer=first) == second


# Operators


def test_transactions_are_described() -> None:
    shell = Shell()
    producer_id, epoch = shell.started("one", timeout_ms=7_000)
    shell.add((producer_id, epoch), B, A, OFFSETS, transactional_id="one")
    answer = shell.send(DescribeTransactionsRequest(transactional_ids=["one", "none", ""]), 0)
    shell.started("idle")
    [idle] = shell.send(DescribeTransactionsRequest(transactional_ids=["idle"]), 0).transaction_states
    assert (idle.transaction_state, idle.transaction_start_time_ms, idle.topics) == ("Empty", -1, [])
    one, none, empty = answer.transaction_states
    assert (one.error_code, one.transaction_state, one.transaction_timeout_ms) == (0, "Ongoing", 7_000)
    assert (one.producer_id, one.producer_epoch, one.transaction_start_time_ms) == (producer_id, 0, shell.now)
    assert {(topic.topic, *topic.partitions) for topic in one.topics} == {("orders", 0, 1), OFFSETS}
    assert (none.transactional_id, none.error_code) == ("none", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    assert (empty.transactional_id, empty.error_code) == ("", ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, {"one", "two"}),
        ({"state_filters": ["Ongoing"]}, {"one"}),
        ({"state_filters": ["Ongoing", "Empty"]}, {"one", "two"}),
        ({"state_filters": ["Dead"]}, set()),
        ({"state_filters": ["dead"]}, set()),
        ({"duration_filter": 2_999, "state_filters": ["Ongoing"]}, {"one"}),
        ({"duration_filter": 3_000, "state_filters": ["Ongoing"]}, set()),
        ({"duration_filter": 0}, {"one", "two"}),
        ({"duration_filter": 3_000}, {"two"}),  # without a transaction, the start is -1, as in Kafka
        ({"transactional_id_pattern": "t.*"}, {"two"}),
        ({"transactional_id_pattern": "t"}, set()),
        ({"transactional_id_pattern": ""}, {"one", "two"}),
        ({"producer_id_filters": [100]}, {"one"}),
        ({"producer_id_filters": [7]}, set()),
    ],
)
def test_transactions_are_listed_by_filters(filters: dict[str, object], names: set[str]) -> None:
    shell = Shell()
    shell.add(shell.started("one"), A, transactional_id="one")
    shell.started("two")
    shell.advance(3_000)
    answer = shell.send(ListTransactionsRequest(**filters), 2)  # type: ignore[arg-type]
    assert {each.transactional_id for each in answer.transaction_states} == names
    assert answer.unknown_state_filters == (["dead"] if filters.get("state_filters") == ["dead"] else [])


def test_a_pattern_that_is_no_expression_is_rejected() -> None:
    answer = Shell().send(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_record_with_an_unknown_state_is_an_error() -> None:
    shell = Shell()
    shell.started()
    value = TransactionLogValue(producer_id=1, transaction_status=6)
    with pytest.raises(ValueError, match="'t' has the unknown state 6"):
        shell.shard.replay(Record(TransactionLogKey(transactional_id="t"), value))


@pytest.mark.parametrize(("version", "flexible"), [(0, 0), (1, 1), (2, 1)])
def test_values_are_flexible_from_transaction_version_1_on(version: int, flexible: int) -> None:
    shell = Shell(version=version)
    first = shell.started()
    shell.add(first, A)
    shell.advance(10)
    shell.end(first, commit=True, api_version=OLD)
    began = shell.now - 10
    assert shell["t"].started_at == began
    values = [decode_value(value) for _, value in shell.log if value is not None]
    assert {value[:2] for _, value in shell.log if value is not None} == {bytes([0, flexible])}
    assert [value.transaction_start_timestamp_ms for value in values] == [-1, began, began]
    assert [value.previous_producer_id for value in values] == ([100] * 3 if flexible else [-1] * 3)


def test_the_records_are_those_of_kafka() -> None:
    shell = Shell()
    producer = shell.started(timeout_ms=60_000)
    shell.add(producer, TopicPartition("o", 3), api_version=5)
    key, first = shell.log[0]
    assert key == b"\0\0\0\1t"
    assert first is not None
    # Version 1, producer ID 100, epoch 0, 60 s, Empty, no partitions, two times, and one tagged field.
    times = shell.now.to_bytes(8, "big").hex() + "ff" * 8
    assert first.hex() == "0001" + "0000000000000064" + "0000" + "0000ea60" + "00" + "00" + times + "01" + "0008" + (
        "0000000000000064"
    )
