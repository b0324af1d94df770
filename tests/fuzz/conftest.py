"""Deliberate damage is not logged."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    logger = logging.getLogger("kohort.log")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)
