"""The delay before the next attempt: it doubles up to a limit, and varies."""

from __future__ import annotations

import pytest

from kohort.client.net import back_off
from kohort.client.options import ClientOptions


@pytest.mark.parametrize(
    ("failures", "expected"), [(1, 0.1), (2, 0.2), (3, 0.4), (4, 0.8), (5, 1.0), (6, 1.0), (10_000, 1.0)]
)
def test_the_delay_doubles_with_each_failure_up_to_its_limit_and_varies_by_a_fifth(
    failures: int, expected: float
) -> None:
    given = {"bootstrap_servers": "b:9092", "retry_backoff_ms": 100, "retry_backoff_max_ms": 1_000}
    options = ClientOptions.read(given)
    delays = [back_off(options, failures) for _ in range(300)]
    assert expected * 0.8 <= min(delays) < expected * 0.9
    assert expected * 1.1 < max(delays) <= expected * 1.2
