"""A few of the kills under transactions that `make copies` does by the hundred."""

from pathlib import Path

import pytest

from tests.chaos import copies

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


@pytest.mark.long("two JVMs copy, and reconnect after each kill")
@pytest.mark.parametrize("version", [1, 2])
def test_javas_copier_copies_exactly_once_while_the_broker_is_killed(
    kafka_tools: None, tmp_path: Path, version: int
) -> None:
    lines: list[str] = []
    assert copies.run(tmp_path, 10, 7, version, lines.append) >= 4_000
