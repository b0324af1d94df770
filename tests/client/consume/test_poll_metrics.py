"""Metrics of polls at times that the test gives."""

from __future__ import annotations

from math import isnan

from kohort.client.consume.poll_metrics import PollMetrics
from kohort.client.metrics import Report, Sampling

NOW = 5_000.0


def read(metrics: PollMetrics, after: float) -> dict[str, float]:
    report = Report("c", NOW + after)
    metrics.report(report)
    return {name.name: float(value) for name, value in report.values.items()}


def test_the_time_between_polls_is_that_between_their_beginnings() -> None:
    metrics = PollMetrics(Sampling())
    for at in (0.0, 1.0, 4.0):
        metrics.began(NOW + at)
    found = read(metrics, 9.5)
    # As in Java, the first poll counts as if there was one just before.
    assert found["time-between-poll-avg"] == 4_000 / 3
    assert (found["time-between-poll-max"], found["last-poll-seconds-ago"]) == (3_000, 5)


def test_the_idle_ratio_is_the_part_of_the_time_inside_polls_that_waited() -> None:
    metrics = PollMetrics(Sampling())
    metrics.began(NOW)
    metrics.began(NOW + 6.0)
    metrics.waited(NOW + 7.0)
    metrics.waited(NOW + 8.0)  # the first wait brought nothing
    assert read(metrics, 8.0)["poll-idle-ratio-avg"] == (0.0 + 2.0 / (2.0 + 6.0)) / 2


def test_a_thousand_polls_for_one_record_each_count_like_a_thousand() -> None:
    metrics = PollMetrics(Sampling())
    for number in range(1_001):
        metrics.began(NOW + number / 1_000)
    found = read(metrics, 1.0)
    assert abs(found["time-between-poll-avg"] - 1_000 / 1_001) < 1e-6
    assert abs(found["time-between-poll-max"] - 1.0) < 1e-6
    assert found["poll-idle-ratio-avg"] == 0.0


def test_before_the_first_poll_there_is_nothing() -> None:
    found = read(PollMetrics(Sampling()), 0.0)
    assert isnan(found["time-between-poll-avg"]) and isnan(found["poll-idle-ratio-avg"])
    assert found["last-poll-seconds-ago"] == -1
