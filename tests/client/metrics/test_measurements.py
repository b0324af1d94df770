"""Rates, averages and extremes over windows of time, by hand and beside Apache Kafka's own classes."""

from __future__ import annotations

import random
import subprocess
from math import isnan
from pathlib import Path

import pytest

from kohort.client.metrics import Measurements, Sampling
from tests.interop.kafka import jars

NOW = 1_000.0
SAMPLING = Sampling(window_s=30.0, windows=2)
READ = (Measurements.rate, Measurements.count_rate, Measurements.average, Measurements.largest, Measurements.smallest)


def test_nothing_has_no_average_and_no_extremes_and_a_rate_of_zero() -> None:
    nothing = Measurements(SAMPLING)
    assert isnan(nothing.average(NOW)) and isnan(nothing.largest(NOW)) and isnan(nothing.smallest(NOW))
    assert (nothing.rate(NOW), nothing.count_rate(NOW), nothing.hourly_rate(NOW)) == (0.0, 0.0, 0.0)
    assert (nothing.count, nothing.total, nothing.last_at) == (0, 0.0, None)


def test_a_rate_covers_at_least_all_windows_but_one() -> None:
    values = Measurements(SAMPLING)
    values.add(60, NOW)
    assert values.rate(NOW) == 2.0  # not 60 in no time
    assert values.rate(NOW + 15) == 60 / 45
    assert values.rate(NOW + 29) == 60 / 59
    assert values.count_rate(NOW) == 1 / 30
    assert values.hourly_rate(NOW) == 120.0


def test_a_value_counts_until_it_is_as_old_as_all_windows() -> None:
    values = Measurements(SAMPLING)
    values.add(8, NOW)
    values.add(2, NOW + 40)
    assert (values.average(NOW + 59), values.largest(NOW + 59), values.smallest(NOW + 59)) == (5, 8, 2)
    assert (values.average(NOW + 60), values.largest(NOW + 60), values.smallest(NOW + 60)) == (2, 2, 2)
    assert isnan(values.average(NOW + 100))
    assert (values.count, values.total, values.last, values.last_at) == (2, 10, 2, NOW + 40)


def test_a_window_begins_with_the_first_value_after_the_end_of_the_one_before() -> None:
    values = Measurements(SAMPLING)
    values.add(1, NOW)
    values.add(1, NOW + 45)  # begins a window that ends at 75
    values.add(1, NOW + 74)
    assert values.window_count(NOW + 74) == 2  # the first is older than both windows
    assert values.rate(NOW + 74) == 2 / 59


def test_values_that_are_added_at_once_count_like_single_ones() -> None:
    values = Measurements(SAMPLING)
    values.add_many(4, 10.0, 7.0, NOW)
    assert (values.count, values.total, values.average(NOW), values.largest(NOW)) == (4, 10.0, 2.5, 7.0)


@pytest.mark.java
@pytest.mark.usefixtures("kafka_tools")
def test_the_arithmetic_is_that_of_apache_kafka() -> None:
    chance = random.Random(19)
    lines, expected = [], []
    for _ in range(40):
        windows, window_s = chance.choice([1, 2, 3, 5]), chance.choice([1.0, 30.0])
        lines.append(f"new {windows} {int(window_s * 1000)}")
        values = Measurements(Sampling(window_s, windows))
        now = NOW
        for number in range(60):
            # Eighths of a second are exact both as milliseconds and as a float.
            now += chance.choice([0, 0.125, 0.5, window_s / 2, window_s, chance.randrange(40) * window_s / 8])
            if number == 0 or chance.random() < 0.7:
                value = chance.randrange(-100, 1_000)
                values.add(value, now)
                lines.append(f"{value} {int(now * 1000)}")
            else:
                lines.append(f"read {int(now * 1000)}")
                expected.append([*(read(values, now) for read in READ), values.total, values.count])
    source = Path(__file__).with_name("Measure.java")
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*", str(source)]
    ran = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False, timeout=100)
    assert ran.returncode == 0, ran.stderr
    found = [[float(word) for word in line.split()] for line in ran.stdout.splitlines()]
    assert len(found) == len(expected) > 500
    for ours, theirs in zip(expected, found, strict=True):
        assert ours == pytest.approx(theirs, nan_ok=True)
