"""The rate of a client's traffic, by hand and beside Apache Kafka's own classes."""

import random
import subprocess
from pathlib import Path

import pytest

from kohort.broker.quotas.rate import Rate, most_at_once
from tests.interop.kafka import jars

NOW = 1_000_000
WINDOWS, WINDOW_MS = 11, 1_000


def new_rate() -> Rate:
    return Rate(WINDOWS, WINDOW_MS, NOW)


def test_a_client_may_send_at_once_what_ten_seconds_allow() -> None:
    rate = new_rate()
    assert most_at_once(100, WINDOWS, WINDOW_MS) == 1_000
    rate.add(1_000, NOW)
    assert rate.pause_ms(100, NOW) == 0
    rate.add(1, NOW)
    assert rate.pause_ms(100, NOW) == 10  # 100.1 bytes/s over 10 s


def test_a_client_above_its_limit_pauses_until_its_rate_is_at_the_limit() -> None:
    rate = new_rate()
    rate.add(3_000, NOW)
    pause_ms = rate.pause_ms(100, NOW)
    assert pause_ms == 20_000
    assert rate.pause_ms(100, NOW + pause_ms) == 0


def test_traffic_counts_until_it_is_as_old_as_all_windows() -> None:
    rate = new_rate()
    rate.add(2_200, NOW)
    assert not rate.is_idle(NOW + 10_999)
    assert rate.is_idle(NOW + 11_000)
    assert rate.pause_ms(100, NOW + 10_999) > 0
    assert rate.pause_ms(100, NOW + 11_000) == 0


def test_what_was_taken_back_does_not_count() -> None:
    rate = new_rate()
    rate.add(900, NOW)
    rate.add(500, NOW)
    assert rate.pause_ms(100, NOW) > 0
    rate.add(-500, NOW)
    assert rate.pause_ms(100, NOW) == 0


def test_far_more_than_all_windows_allow_is_never_within_the_limit() -> None:
    # As in Kafka: a batch of that size cannot be fetched until the quota is larger.
    rate = new_rate()
    for now in range(NOW, NOW + 60_000, 700):
        rate.add(1_500, now)
        assert rate.pause_ms(100, now) > 0
        rate.add(-1_500, now)


@pytest.mark.java
@pytest.mark.usefixtures("kafka_tools")
def test_pauses_are_those_of_apache_kafka() -> None:
    random_numbers = random.Random(18)
    lines, ours = [], []
    for _ in range(40):
        windows, window_s = random_numbers.choice([(11, 1), (2, 1), (3, 5), (1, 1)])
        limit = random_numbers.choice([10, 1_000, 12_345, 0.75])
        now = NOW
        rate = Rate(windows, window_s * 1000, now)
        lines.append(f"new {windows} {window_s} {limit}")
        for step in range(100):
            # The first window begins with the first traffic.
            now += step and random_numbers.choice([0, 1, 37, 400, 999, 1_000, 1_001, 2_500, 11_000, 60_000])
            size = random_numbers.randrange(1, int(limit * 12) + 2)
            rate.add(size, now)
            lines.append(f"{size} {now}")
            ours.append(pause_ms := rate.pause_ms(limit, now))
            if pause_ms and random_numbers.random() < 0.5:
                rate.add(-size, now)
                lines.append(f"{-size} {now}")
    assert theirs("\n".join(lines)) == ours
    assert 0 < ours.count(0) < len(ours)


def theirs(script: str) -> list[int]:
    """The pauses that Apache Kafka computes for the same traffic."""
    source = Path(__file__).with_name("Throttle.java")
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*", str(source)]
    ran = subprocess.run(command, input=script, capture_output=True, text=True, check=False, timeout=100)
    assert ran.returncode == 0, ran.stderr
    return [int(line) for line in ran.stdout.split()]
