"""The broker logs how disk errors affect requests, because a client may not show the error code."""

import errno

import pytest

from kohort.broker import Broker
from kohort.broker.logs.disk_errors import DiskErrors
from kohort.errors import ErrorCode
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.broker.apis.test_topics import create, look_up, topic
from tests.broker.peer import Peer


def fails(*_: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


def logged_failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith("cannot ")]


async def test_a_topic_that_cannot_be_made(
    broker: Broker, peer: Peer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(broker.topics, "make", fails)
    for _ in range(2):
        (made,) = await create(peer, topic("orders"))
        assert made.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await look_up(peer, "orders", create=True)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    reason = "[Errno 5] Input/output error; clients get KAFKA_STORAGE_ERROR"
    assert logged_failures(caplog) == [f"cannot create the topic orders: {reason}"]


async def test_a_partition_that_cannot_be_read(
    broker: Broker, peer: Peer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker.topics.create("orders", 1)
    monkeypatch.setattr(type(broker.partition("orders", 0)), "send", fails)
    wanted = FetchTopic(topic="orders", partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])
    for _ in range(2):
        answer = await peer.ask(FetchRequest(topics=[wanted]), 4, FetchResponse)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert logged_failures(caplog) == [
        "cannot read orders-0: [Errno 5] Input/output error; clients get KAFKA_STORAGE_ERROR",
    ]


def test_a_trouble_that_lasts_is_logged_again_and_what_is_remembered_is_bounded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = [0]
    troubles = DiskErrors(lambda: clock[0])
    error = OSError(errno.ENOSPC, "No space left on device")
    for clock[0] in (0, 1, 599_999, 600_000, 600_001):
        troubles.note("read a-0", error)
    assert len(logged_failures(caplog)) == 2
    for number in range(1_500):
        troubles.note(f"read b-{number}", error)
    caplog.clear()
    troubles.note("read b-1499", error)
    assert logged_failures(caplog) == []
    troubles.note("read b-0", error)
    assert len(logged_failures(caplog)) == 1
