"""Some of what `make chaos` does for ten: brokers of a cluster die under load, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.behind_gateway import behind_gateway
from tests.chaos.load import TIDY
from tests.chaos.storm import Group, over_files, run

pytestmark = [pytest.mark.timeout(240), pytest.mark.long("a storm of half a minute over a cluster")]

GROUPS = (
    Group("eager", "range", ("librdkafka", "kohort")),
    Group("newer", "uniform", ("kohort", "librdkafka"), protocol="consumer"),
)


def test_nothing_is_lost_or_owned_twice_when_brokers_of_a_cluster_fail(tmp_path: Path) -> None:
    lines: list[str] = []
    outcome = run(tmp_path, 30.0, 4, 11, lines.append, GROUPS, TIDY)
    assert outcome.problems == []
    assert outcome.failovers >= 3


def test_nothing_is_lost_or_owned_twice_when_a_gateway_and_the_brokers_behind_it_fail(tmp_path: Path) -> None:
    lines: list[str] = []
    outcome = run(tmp_path, 30.0, 4, 12, lines.append, GROUPS, TIDY, behind_gateway(over_files))
    assert outcome.problems == []
    assert outcome.failovers >= 3
