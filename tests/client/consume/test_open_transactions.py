"""What a consumer with read_committed says while an open transaction holds it up."""

from __future__ import annotations

import logging

import pytest

from kohort import Consumer, Producer, TopicPartition
from kohort.client.consume.open_transactions import LONG_S, OpenTransactionWaits
from tests.client.conftest import broker_with, eventually

ONE, TWO = TopicPartition("t", 1), TopicPartition("t", 2)


class Waiting:
    """Waits of a consumer, with a clock that the test moves."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.WARNING)
        self.now = 0.0
        self.waits = OpenTransactionWaits(lambda: self.now)
        self._caplog = caplog

    def after(self, seconds: float) -> list[str]:
        """Return what is logged when so much time has passed."""
        self.now += seconds
        self.waits.log_long()
        return self.logged()

    def logged(self) -> list[str]:
        """Return what was logged since the last call."""
        lines = [record.getMessage() for record in self._caplog.records]
        self._caplog.clear()
        return lines


def test_a_partition_held_up_for_long_is_named_once_and_again_when_it_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    here = Waiting(caplog)
    here.waits.empty(ONE, 5, 5, 8)
    assert here.after(LONG_S - 0.5) == []
    here.waits.empty(ONE, 5, 5, 9)  # another record of the same transaction, or of another one
    [line] = here.after(0.5)
    assert "t-1" in line and "open since offset 5;" in line and "describe-producers t 1" in line
    assert here.after(LONG_S) == []
    here.waits.continued(ONE)
    assert here.logged() == ["read again after 20.0 s: t-1"]


@pytest.mark.parametrize(
    ("offset", "stable", "high_watermark"),
    [(5, 5, 5), (5, 6, 8), (5, -1, 8)],
    ids=["at the end", "before the transaction", "an offset that the broker does not know"],
)
def test_a_partition_that_no_transaction_holds_up_is_not_named(
    caplog: pytest.LogCaptureFixture, offset: int, stable: int, high_watermark: int
) -> None:
    here = Waiting(caplog)
    here.waits.empty(ONE, 5, 5, 8)
    here.waits.empty(ONE, offset, stable, high_watermark)
    assert here.after(LONG_S) == []


def test_one_transaction_after_the_other_is_no_long_wait(caplog: pytest.LogCaptureFixture) -> None:
    here = Waiting(caplog)
    for offset in (5, 8, 11):
        here.waits.empty(ONE, offset, offset, offset + 2)
        assert here.after(LONG_S - 1) == []


def test_partitions_are_named_together(caplog: pytest.LogCaptureFixture) -> None:
    here = Waiting(caplog)
    here.waits.empty(TWO, 3, 3, 8)
    here.waits.empty(ONE, 5, 5, 8)
    [line] = here.after(LONG_S)
    assert "t-1, t-2" in line and "open since offset 3 of t-2;" in line


def test_a_partition_that_is_not_read_now_is_not_named(caplog: pytest.LogCaptureFixture) -> None:
    here = Waiting(caplog)
    here.waits.empty(ONE, 5, 5, 8)
    here.waits.forget([ONE, TWO])
    assert here.after(LONG_S) == []


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
async def test_a_consumer_says_that_an_open_transaction_holds_it_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    monkeypatch.setattr("kohort.client.consume.open_transactions.LONG_S", 0.2)
    caplog.set_level(logging.WARNING)
    async with broker_with(0) as broker:
        at = broker.bootstrap_servers
        async with (
            Producer(bootstrap_servers=at, transactional_id="tx") as producer,
            Consumer(bootstrap_servers=at, isolation_level=level, fetch_max_wait_ms=50) as consumer,
        ):
            await producer.init_transactions()
            producer.begin_transaction()
            await (await producer.send("t", b"open", partition=0))
            consumer.assign([TopicPartition("t", 0)])
            consumer.seek_to_beginning()
            if level == "read_uncommitted":
                [record] = await consumer.poll(timeout=10)
                assert await consumer.poll(timeout=0.5) == []
                assert "nothing to read" not in caplog.text
                return
            assert await consumer.poll(timeout=0.5) == []
            await eventually(lambda: "t-0: there are records, but a transaction has been open since" in caplog.text)
            await producer.commit_transaction()
            [record] = await consumer.poll(timeout=10)
            assert record.value == b"open" and "read again after" in caplog.text
