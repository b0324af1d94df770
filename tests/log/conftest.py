"""Every test that takes `store` runs over memory and over files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.log import FileStore, LogStore, MemoryStore


@pytest.fixture(params=["memory", "files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogStore]:
    opened: LogStore = MemoryStore() if request.param == "memory" else FileStore(tmp_path / "data")
    yield opened
    opened.close()
