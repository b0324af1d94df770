"""Clients that a test can use on this machine."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from tests.interop.kafka import Unavailable
from tests.interop.mixed.kinds import KINDS, Kind

ALL_KINDS = tuple(kind.name for kind in KINDS)


def need(kind: Kind, request: pytest.FixtureRequest) -> None:
    """Skip where it cannot run; Java never, once Apache Kafka itself takes part."""
    if kind.name == "java":
        request.getfixturevalue("kafka_tools")
    try:
        kind.need()
    except Unavailable as missing:
        pytest.skip(f"{kind.name}: {missing}")


def kinds_here(remark: Callable[[str], None], names: Collection[str] = ALL_KINDS) -> list[Kind]:
    """Return those of the named kinds that can run on this machine; the run's last lines say which cannot, and why."""
    found = []
    for kind in KINDS:
        if kind.name not in names:
            continue
        try:
            kind.need()
        except Unavailable as missing:
            remark(f"without {kind.name}: {missing}")
        else:
            found.append(kind)
    if len(found) < 2:
        pytest.skip(f"a mixed group needs clients of two kinds; here: {[kind.name for kind in found]}")
    return found
