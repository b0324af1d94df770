"""One secured Apache Kafka for all tests that need one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.security.authorities import Certificates, certificates
from tests.client.security.secured_kafka import (
    SecuredKafka,
    add_scram_users,
    running_secured_kafka,
    running_secured_kohort,
)
from tests.conftest import need_jars


@pytest.fixture(scope="session")
def secured_kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """Apache Kafka with users and certificates. Mark its tests `kafka`."""
    need_jars(request.config)
    with running_secured_kafka(tmp_path_factory.mktemp("secured")) as kafka:
        asyncio.run(add_scram_users(kafka))
        yield kafka


@pytest.fixture(scope="session", params=["kohort", pytest.param("kafka", marks=pytest.mark.kafka)])
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """Our broker with users and certificates, and Apache Kafka if the command line asks for it."""
    if request.param == "kafka":
        yield request.getfixturevalue("secured_kafka")
        return
    with running_secured_kohort(tmp_path_factory.mktemp("secured")) as broker:
        asyncio.run(add_scram_users(broker))
        yield broker


@pytest.fixture(scope="session")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Files with an authority, and with a client's certificate and key."""
    made = certificates(Path(tmp_path_factory.mktemp("pem")))
    made.issue("client", "client.example.com")
    return made
