"""One secured Apache Kafka for all tests that need one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.security.authorities import Certificates, certificates
from tests.client.security.secured_kafka import SecuredKafka, add_scram_users, running_secured_kafka
from tests.conftest import need_jars


@pytest.fixture(scope="session")
def secured_kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """Apache Kafka with users and certificates. Mark its tests `kafka`."""
    need_jars(request.config)
    with running_secured_kafka(tmp_path_factory.mktemp("secured")) as kafka:
        asyncio.run(add_scram_users(kafka))
        yield kafka


@pytest.fixture(scope="session")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Files with an authority, and with a client's certificate and key."""
    made = certificates(Path(tmp_path_factory.mktemp("pem")))
    made.issue("client", "client.example.com")
    return made
