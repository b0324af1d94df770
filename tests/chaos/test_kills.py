"""A few of the kills that `make chaos` does by the hundred."""

from pathlib import Path

from tests.chaos import kills


async def test_what_a_killed_broker_acknowledged_is_there_after_it(tmp_path: Path) -> None:
    lines: list[str] = []
    assert await kills.run(tmp_path, 3, 7, lines.append) > 50
