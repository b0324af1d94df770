"""Each library's members, under both protocols, while brokers of their cluster are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.load import TIDY
from tests.chaos.storm import Group, run
from tests.interop.mixed.kinds import CONSUMER_KINDS, KINDS, Kind
from tests.interop.mixed.needs import need

pytestmark = [
    pytest.mark.interop,
    pytest.mark.long("one case per client and protocol, with a cluster each"),
    pytest.mark.timeout(240),
]

CASES = [
    *(pytest.param(kind, "classic", id=f"{kind.name}-classic") for kind in KINDS),
    *(pytest.param(kind, "consumer", id=f"{kind.name}-consumer") for kind in KINDS if kind.name in CONSUMER_KINDS),
]


@pytest.mark.parametrize(("kind", "protocol"), CASES)
def test_a_librarys_members_lose_nothing_when_brokers_are_killed(
    kind: Kind, protocol: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    need(kind, request)
    strategy = "range" if protocol == "classic" else "uniform"
    group = Group("g", strategy, (kind.name,), protocol=protocol)
    outcome = run(tmp_path, 8.0, 2, 3, lambda line: None, [group], TIDY)
    assert outcome.problems == []
    assert outcome.failovers
