"""A schema registry of this test, and the clients of both libraries."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient as ConfluentClient

from kohort.schema_registry import SchemaRegistryClient
from tests.schema_registry.registry_server import Registry, Served, serve


@pytest.fixture
def served() -> Iterator[Served]:
    with serve(Registry()) as made:
        yield made


@pytest.fixture
def registry(served: Served) -> SchemaRegistryClient:
    return SchemaRegistryClient(served.url, retries_wait_ms=1)


@pytest.fixture
def confluent(served: Served) -> Iterator[ConfluentClient]:
    with ConfluentClient({"url": served.url, "max.retries": 0}) as made:
        yield made


@pytest.fixture
def fresh() -> str:
    """A name that no topic of this run has."""
    return f"schemas-{uuid.uuid4().hex[:8]}"
