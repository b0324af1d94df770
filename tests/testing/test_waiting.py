"""Waits for something at the brokers: they end at once, and leave nothing behind."""

import pytest

from kohort.testing import Broker, WaitTimeoutError


def test_waits_leave_no_observers_behind() -> None:
    with Broker(topics={"orders": 1}) as broker:
        before = broker._run(lambda: len(broker.node.observers))
        broker.topic("orders").produce("a")
        broker.topic("orders").wait_records(1)
        for _ in range(3):
            with pytest.raises(WaitTimeoutError):
                broker.group("g").wait(members=1, timeout_s=0.01)
        assert broker._run(lambda: len(broker.node.observers)) == before
