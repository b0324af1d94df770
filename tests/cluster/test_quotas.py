"""Quotas in a store that several brokers share."""

from __future__ import annotations

import json

from kohort.testing import Cluster
from tests.cli.conftest import Run, succeeded
from tests.interop.process import until


def test_a_quota_is_known_to_all_brokers(run: Run) -> None:
    expected = [{"entity": {"user": "alice"}, "quotas": {"producer_byte_rate": 5.0}}]
    with Cluster() as cluster:
        brokers = cluster.bootstrap_servers.split(",")
        succeeded(run("quota", "set", "producer_byte_rate=5", "--user", "alice", bootstrap=brokers[0]))

        def is_known(address: str) -> bool:
            return bool(json.loads(succeeded(run("quota", "show", "--json", bootstrap=address)).out) == expected)

        until(20, "all know it", lambda: all(map(is_known, brokers)))
