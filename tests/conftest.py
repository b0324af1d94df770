"""Fixtures that several packages' tests use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.kafka import ApacheKafka, Unavailable, jars, running_kafka


@pytest.fixture(scope="session")
def apache_kafka() -> Iterator[ApacheKafka]:
    """An Apache Kafka broker, one per test process; skips where it cannot run. Mark its tests `kafka`."""
    try:
        jars()
    except Unavailable as missing:
        pytest.skip(str(missing))
    with running_kafka() as kafka:
        yield kafka
