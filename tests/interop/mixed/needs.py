"""Which clients a test can use here."""

from __future__ import annotations

import contextlib

import pytest

from tests.interop.kafka import Unavailable
from tests.interop.mixed.kinds import KINDS, Kind


def need(kind: Kind, request: pytest.FixtureRequest) -> None:
    """Skip where it cannot run; Java never, once Apache Kafka itself takes part."""
    if kind.name == "java":
        request.getfixturevalue("kafka_tools")
    try:
        kind.need()
    except Unavailable as missing:
        pytest.skip(f"{kind.name}: {missing}")


def kinds_here() -> list[Kind]:
    """Those that can run on this machine."""
    found = []
    for kind in KINDS:
        with contextlib.suppress(Unavailable):
            kind.need()
            found.append(kind)
    return found
