"""Users of SCRAM in a store that several brokers share."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.cluster.conftest import StartCluster
from tests.cluster.postgres import PostgresServer
from tests.interop.kohort import kohort
from tests.interop.process import until


def ran(*arguments: str, stdin: str = "") -> str:
    """Run `kohort user`; return what it printed."""
    told = subprocess.run(kohort("user", *arguments), input=stdin, capture_output=True, text=True, timeout=60)
    assert told.returncode == 0, told.stderr
    return told.stdout


def users(*where: str) -> set[str]:
    return {user["user"] for user in json.loads(ran("list", "--json", *where))}


def test_users_are_added_before_the_cluster_starts_and_while_it_runs(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    data = str(tmp_path / "data")
    ran("add", "alice", "--password-stdin", "--data", data, stdin="secret")
    with start_cluster() as cluster:
        brokers = [cluster.address(node_id) for node_id in (1, 2, 3)]
        assert users("--bootstrap", brokers[0]) == {"alice"}
        ran("add", "bob", "--password-stdin", "--bootstrap", brokers[1], stdin="secret")
        ran("add", "carol", "--password-stdin", "--data", data, stdin="secret")
        everybody = {"alice", "bob", "carol"}
        until(20, "all know all", lambda: all(users("--bootstrap", at) == everybody for at in brokers))
        ran("delete", "bob", "--bootstrap", brokers[2])
    assert users("--data", data) == {"alice", "carol"}


def test_users_are_added_to_a_database(postgres: PostgresServer) -> None:
    dsn = postgres.fresh_database()
    ran("add", "alice", "--password-stdin", "--postgres", dsn, stdin="secret")
    assert users("--postgres", dsn) == {"alice"}
