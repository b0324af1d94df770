"""One secured broker, Apache Kafka or ours, for all tests that need it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.client.security.secured_kafka import (
    SecuredKafka,
    add_scram_users,
    running_secured_kafka,
    running_secured_kohort,
)
from tests.cluster.conftest import start_cluster
from tests.conftest import need_jars

__all__ = ["start_cluster"]


@pytest.fixture(scope="module", params=["kohort", pytest.param("kafka", marks=pytest.mark.kafka)])
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A broker with users and certificates."""
    if request.param == "kafka":
        need_jars(request.config)
    running = running_secured_kafka if request.param == "kafka" else running_secured_kohort
    with running(tmp_path_factory.mktemp("secured")) as broker:
        asyncio.run(add_scram_users(broker))
        yield broker
