"""Stores to write to."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.spark.sinks import stores
from tests.spark.sinks.stores import Store


@pytest.fixture(params=["parquet", "postgres", "delta", "iceberg"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    match request.param:
        case "parquet":
            return stores.parquet(tmp_path)
        case "delta":
            return stores.delta(tmp_path)
        case "iceberg":
            return stores.iceberg(tmp_path)
    return stores.postgres(request.getfixturevalue("dsn"), f"t{uuid.uuid4().hex}")
