"""Unique names, and secured brokers."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator

import pytest

from tests.conftest import QUICK_CONSUMER_GROUPS
from tests.interop.secured import SecuredBroker, running_secured_broker

_numbers = itertools.count()


@pytest.fixture
def fresh() -> str:
    """A name that no topic and no group of this run has."""
    return f"t{next(_numbers)}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module", params=["kohort", pytest.param("kafka", marks=pytest.mark.kafka)])
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, kafka_tools: None
) -> Iterator[SecuredBroker]:
    """Each broker with listeners that want a login. Its tests share users, but no topic and no group."""
    with running_secured_broker(request.param, tmp_path_factory.mktemp("secured"), QUICK_CONSUMER_GROUPS) as broker:
        yield broker
