"""Each test of a client runs against every broker that `--broker` names."""

from __future__ import annotations

import itertools
import uuid
from typing import Protocol

import pytest


class Broker(Protocol):
    """What the tests need of a broker, ours or Apache Kafka."""

    @property
    def bootstrap(self) -> str: ...


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "broker" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--broker")
        kohort = pytest.param("kohort_broker", id="kohort")
        kafka = pytest.param("apache_kafka", id="kafka", marks=pytest.mark.kafka)
        brokers = {"kohort": [kohort], "kafka": [kafka], "both": [kohort, kafka]}[chosen]
        metafunc.parametrize("broker", brokers, indirect=True, scope="session")


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Broker:
    found: Broker = request.getfixturevalue(request.param)
    return found


_numbers = itertools.count()


@pytest.fixture
def fresh(request: pytest.FixtureRequest) -> str:
    """A name that no topic and no group of this run has."""
    return f"t{next(_numbers)}-{uuid.uuid4().hex[:8]}"
