"""Which error codes of transactions fit which request (S14)."""

import pytest

from kohort.errors import ErrorCode as E
from kohort.sim.checks.answers import codes_of
from kohort.sim.checks.error_codes import is_allowed, unfitting
from kohort.wire.codec import Message
from kohort.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kohort.wire.messages.end_txn import EndTxnRequest
from kohort.wire.messages.init_producer_id import InitProducerIdRequest
from kohort.wire.messages.offset_fetch import OffsetFetchRequest
from kohort.wire.messages.produce import ProduceRequest


@pytest.mark.parametrize(
    ("request_", "version", "code"),
    [
        (EndTxnRequest(), 1, E.PRODUCER_FENCED),
        (EndTxnRequest(), 2, E.INVALID_PRODUCER_EPOCH),
        (InitProducerIdRequest(), 3, E.PRODUCER_FENCED),
        (ProduceRequest(), 10, E.TRANSACTION_ABORTABLE),
        (OffsetFetchRequest(require_stable=False), 9, E.UNSTABLE_OFFSET_COMMIT),
    ],
)
def test_a_code_that_the_version_of_a_request_does_not_have_does_not_fit(
    request_: Message, version: int, code: E
) -> None:
    assert unfitting(request_, version, code)


@pytest.mark.parametrize(
    ("request_", "version", "code"),
    [
        (EndTxnRequest(), 1, E.INVALID_PRODUCER_EPOCH),
        (EndTxnRequest(), 2, E.PRODUCER_FENCED),
        (InitProducerIdRequest(), 4, E.PRODUCER_FENCED),
        (ProduceRequest(), 11, E.TRANSACTION_ABORTABLE),
        (ProduceRequest(), 9, E.INVALID_PRODUCER_EPOCH),
        (OffsetFetchRequest(require_stable=True), 7, E.UNSTABLE_OFFSET_COMMIT),
    ],
)
def test_a_code_that_it_has_fits(request_: Message, version: int, code: E) -> None:
    assert unfitting(request_, version, code) == ""


def test_a_coordinator_does_not_tell_a_group_that_the_network_failed() -> None:
    # Apache Kafka answers COORDINATOR_LOAD_IN_PROGRESS if the transaction coordinator cannot be asked.
    assert not is_allowed("TxnOffsetCommit", E.NETWORK_EXCEPTION)
    assert is_allowed("TxnOffsetCommit", E.COORDINATOR_LOAD_IN_PROGRESS)


def test_the_codes_of_partitions_of_a_transaction_are_checked() -> None:
    result = AddPartitionsToTxnPartitionResult(partition_error_code=E.PRODUCER_FENCED)
    topic = AddPartitionsToTxnTopicResult(results_by_partition=[result])
    assert E.PRODUCER_FENCED in codes_of(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic]))
