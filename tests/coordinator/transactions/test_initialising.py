"""InitProducerId: epochs, fencing, and the end of what the last producer left open (KIP-98, KIP-360)."""

import pytest

from kohort.coordinator.transactions import TransactionConfig, TransactionState
from kohort.errors import ErrorCode
from kohort.wire.messages.init_producer_id import InitProducerIdRequest
from tests.coordinator.transactions.shell import A, Shell


def test_a_new_transactional_id_gets_epoch_0_and_each_restart_the_next() -> None:
    shell = Shell()
    producer_id, epoch = shell.started()
    assert epoch == 0
    assert [shell.started() for _ in range(2)] == [(producer_id, 1), (producer_id, 2)]
    assert shell.started("other")[0] != producer_id


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
        ({"transaction_timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transaction_timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"enable_2pc": True}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"keep_prepared_txn": True}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_an_invalid_request_is_rejected_and_changes_nothing(fields: dict[str, object], code: ErrorCode) -> None:
    shell = Shell()
    valid: dict[str, object] = {"transactional_id": "t", "transaction_timeout_ms": 900_000}
    request = InitProducerIdRequest(**(valid | fields))  # type: ignore[arg-type]
    answer = shell.send(request, 6)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)
    assert shell.log == []


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_open_transaction_of_the_last_producer_is_aborted_before_the_next_epoch_is_given(version: int) -> None:
    shell = Shell(version=version)
    old = shell.started()
    shell.add(old, A)
    assert shell.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert shell.state() is TransactionState.PREPARE_ABORT
    # The old producer is fenced from now on: its epoch is over before the markers are written.
    [marker] = shell.markers
    assert (marker.committed, marker.epoch, set(marker.partitions)) == (False, 1, {A})
    assert shell.add(old, A) is ErrorCode.PRODUCER_FENCED
    assert shell.end(old, commit=True, api_version=4) is ErrorCode.PRODUCER_FENCED
    assert shell.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    shell.mark()
    assert shell.init() == (old[0], 2)


def test_the_producer_that_was_fenced_by_a_new_one_cannot_continue() -> None:
    shell = Shell()
    old = shell.started()
    new = shell.started()
    assert shell.init(producer=old) is ErrorCode.PRODUCER_FENCED
    assert shell.init(producer=old, api_version=3) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert shell.init(producer=new) == (new[0], 2)


def test_a_producer_that_continues_gets_the_same_answer_to_a_repeated_request() -> None:
    # KIP-360: the answer to the first may have been lost.
    shell = Shell()
    first = shell.started()
    second = shell.started(producer=first)
    assert second == (first[0], 1)
    assert shell.started(producer=first) == second
    third = shell.started(producer=second)
    assert third == (first[0], 2)
    assert shell.init(producer=first) is ErrorCode.PRODUCER_FENCED
    # Another producer in between: the first one's repeated request must not get the epoch of the new one.
    shell.started()
    assert shell.init(producer=third) is ErrorCode.PRODUCER_FENCED


def test_a_repeated_request_is_fenced_after_a_failover() -> None:
    # The last epoch is not in the log, as in Kafka. The producer fails, and nobody gets an epoch twice.
    shell = Shell()
    first = shell.started()
    second = shell.started(producer=first)
    shell.fail_over()
    assert shell.init(producer=first) is ErrorCode.PRODUCER_FENCED
    assert shell.init(producer=second) == (first[0], 2)


def test_another_producer_id_is_fenced() -> None:
    shell = Shell()
    producer_id, epoch = shell.started()
    assert shell.init(producer=(producer_id + 1, epoch)) is ErrorCode.PRODUCER_FENCED
    assert shell.init(producer=(producer_id + 1, 32_766)) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(("api_version", "code"), [(3, 47), (4, 90), (5, 90)])
def test_clients_before_version_4_do_not_know_that_they_are_fenced(api_version: int, code: int) -> None:
    shell = Shell()
    old = shell.started()
    shell.started()
    assert shell.init(producer=old, api_version=api_version) == code
    assert shell.init(timeout_ms=0, api_version=api_version) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_producer_id_0_is_an_id() -> None:
    shell = Shell(first_producer_id=0)
    first = shell.started()
    assert first == (0, 0)
    assert shell.started(producer=first) == (0, 1)
    assert shell.started(producer=first) == (0, 1)
    shell.started()
    assert shell.init(producer=(0, 0)) is ErrorCode.PRODUCER_FENCED


def test_a_timeout_of_one_millisecond_is_valid() -> None:
    assert not isinstance(Shell().init(timeout_ms=1), ErrorCode)


def test_a_producer_whose_id_has_expired_may_continue_with_a_new_one() -> None:
    shell = Shell(TransactionConfig(id_expiration_ms=1_000, id_expiration_check_interval_ms=1_000))
    old = shell.started()
    shell.advance(10_000)
    assert shell.log[-1][1] is None
    new = shell.started(producer=old)
    assert new[0] != old[0]
    assert new[1] == 0
    # What was known of the expired one does not count any more.
    first = shell.started("x")
    assert shell.started("x", producer=first)[1] == 1
    shell.advance(10_000)
    assert shell.started("x")[1] == 0
    second = shell.started("x")
    assert shell.init("x", producer=(second[0], 0)) is ErrorCode.PRODUCER_FENCED


def exhausted(shell: Shell) -> tuple[int, int]:
    """Return a producer with the last epoch of its ID."""
    producer = shell.started()
    while producer[1] < 32_766:
        producer = shell.started()
    return producer


def test_an_id_whose_epochs_are_used_up_is_replaced() -> None:
    shell = Shell()
    old = exhausted(shell)
    new = shell.started(producer=old)
    assert new[0] != old[0]
    assert new[1] == 0
    assert shell.started(producer=old) == new  # repeated
    assert shell.init(producer=(old[0], 32_765)) is ErrorCode.PRODUCER_FENCED
    # The old ID with the new one's epoch: a producer of long ago.
    assert shell.init(producer=(old[0], new[1])) is ErrorCode.PRODUCER_FENCED
    assert shell.started() == (new[0], 1)
    assert shell.init(producer=old) is ErrorCode.PRODUCER_FENCED


def test_an_id_whose_epochs_are_used_up_is_replaced_for_a_new_producer() -> None:
    shell = Shell()
    old = exhausted(shell)
    new = shell.started()
    assert new[0] != old[0]
    # Its producer did not ask, so it is not the one that gets the new ID.
    assert shell.init(producer=old) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("version", [0, 2])
def test_an_exhausted_producer_can_still_be_fenced(version: int) -> None:
    shell = Shell(version=version)
    old = exhausted(shell)
    shell.add(old, A)
    assert shell.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    [marker] = shell.markers
    assert (marker.producer_id, marker.epoch) == (old[0], 32_767)
    shell.mark()
    new = shell.started()
    assert new[0] != old[0]
    # With transaction.version 2 the abort has used epoch 0 of the new ID.
    assert new[1] == (1 if version else 0)


def test_the_timeout_of_a_transaction_is_that_of_its_producer() -> None:
    shell = Shell()
    shell.started(timeout_ms=60_000)
    producer = shell.started(timeout_ms=10_000)
    shell.add(producer, A)
    shell.advance(9_999)
    assert shell.state() is TransactionState.ONGOING
    shell.advance(1)
    assert shell.state() is TransactionState.PREPARE_ABORT
