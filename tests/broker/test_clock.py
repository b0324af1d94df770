"""The broker's clock without a test kit: one time for all."""

from kohort.broker import Broker, BrokerOptions, Clock
from kohort.broker.clock import now_ms


def test_without_a_kit_timers_and_records_read_the_same_function() -> None:
    # A call of the clock costs what a call of the function costs.
    clock = Clock()
    assert clock.now is clock.wall is now_ms
    broker = Broker(BrokerOptions())
    assert broker.now is broker.wall is now_ms


def test_a_deadline_is_as_far_away_as_it_is_later() -> None:
    clock = Clock(lambda: 10_000)
    assert clock.seconds_until(12_500) == 2.5
    assert clock.seconds_until(9_000) == 0
    assert clock.written_before(4_000) == 6_000
