"""A few of the kills that `make chaos` does by the hundred."""

from pathlib import Path

from tests.chaos import kills


async def test_records_that_a_killed_broker_acknowledged_survive(tmp_path: Path) -> None:
    lines: list[str] = []
    assert await kills.run(tmp_path, 3, 7, lines.append) > 50
