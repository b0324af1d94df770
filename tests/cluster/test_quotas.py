"""Quotas in a store that several brokers share."""

from __future__ import annotations

import json
import subprocess

from tests.cluster.conftest import StartCluster
from tests.interop.kohort import kohort
from tests.interop.process import until


def ran(*arguments: str) -> str:
    """Run `kohort quota`; return what it printed."""
    told = subprocess.run(kohort("quota", *arguments), capture_output=True, text=True, timeout=60)
    assert told.returncode == 0, told.stderr
    return told.stdout


def test_a_quota_is_known_to_all_brokers(start_cluster: StartCluster) -> None:
    expected = [{"entity": {"user": "alice"}, "quotas": {"producer_byte_rate": 5.0}}]
    with start_cluster() as cluster:
        brokers = [cluster.address(node_id) for node_id in (1, 2, 3)]
        ran("set", "producer_byte_rate=5", "--user", "alice", "--bootstrap", brokers[0])

        def is_known(address: str) -> bool:
            return bool(json.loads(ran("show", "--json", "--bootstrap", address)) == expected)

        until(20, "all know it", lambda: all(map(is_known, brokers)))
