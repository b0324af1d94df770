"""Times that options take."""

from __future__ import annotations

import pytest

from kohort import ConfigError
from kohort.cli.times import read_time

DAY = 1_795_219_200_000  # 2026-11-21T00:00:00Z


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("0", 0),
        ("1700000000000", 1_700_000_000_000),
        ("20261121", DAY),  # eight digits are a date; nine are milliseconds
        ("202611211", 202_611_211),
        ("2026-11-21", DAY),
        ("2026-11-21T09:30:00", DAY + 34_200_000),
        ("2026-11-21T09:30:00.250+01:00", DAY + 30_600_250),
    ],
)
def test_a_time_is_a_number_of_milliseconds_or_a_date(text: str, at: int) -> None:
    assert read_time("--timestamp", text) == at


@pytest.mark.parametrize("text", ["", "-5", "20269999", "yesterday", "9:30"])
def test_other_texts_are_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="--timestamp takes a time such as"):
        read_time("--timestamp", text)
