"""A few of the kills under transactions that `make copies` does by the hundred."""

from pathlib import Path

import pytest

from tests.chaos import copies

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


@pytest.mark.long("two JVMs copy, and reconnect after each kill")
@pytest.mark.parametrize(
    "world",
    [
        copies.World(version=1),
        copies.World(version=2),
        copies.World(group=True),
        copies.World(version=1, brokers=3),
        copies.World(brokers=3, group=True),
    ],
    ids=["version 1", "version 2", "group", "cluster, version 1", "cluster and group"],
)
def test_javas_copier_copies_exactly_once_while_a_broker_is_killed(
    kafka_tools: None, tmp_path: Path, world: copies.World
) -> None:
    lines: list[str] = []
    assert copies.run(tmp_path, 10, 7, world, lines.append) >= 4_000
