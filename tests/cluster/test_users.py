"""Users of SCRAM in a store that several brokers share."""

from __future__ import annotations

import json
from pathlib import Path

from kohort.testing import Cluster
from tests.cli.conftest import Run, succeeded
from tests.cluster.postgres import PostgresServer
from tests.interop.process import until


def add(run: Run, user: str, *where: str) -> None:
    succeeded(run("user", "add", user, "--password-stdin", *where, stdin="secret"))


def users(run: Run, *where: str) -> set[str]:
    return {user["user"] for user in json.loads(succeeded(run("user", "list", "--json", *where)).out)}


def test_users_are_added_before_the_cluster_starts_and_while_it_runs(run: Run, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    add(run, "alice", "--data", data)
    with Cluster(data=tmp_path / "data") as cluster:
        brokers = cluster.bootstrap_servers.split(",")
        assert users(run, "--bootstrap", brokers[0]) == {"alice"}
        add(run, "bob", "--bootstrap", brokers[1])
        add(run, "carol", "--data", data)
        everybody = {"alice", "bob", "carol"}
        until(20, "all know all", lambda: all(users(run, "--bootstrap", at) == everybody for at in brokers))
        succeeded(run("user", "delete", "bob", "--bootstrap", brokers[2]))
    assert users(run, "--data", data) == {"alice", "carol"}


def test_users_are_added_to_a_database(run: Run, postgres: PostgresServer) -> None:
    dsn = postgres.fresh_database()
    add(run, "alice", "--postgres", dsn)
    assert users(run, "--postgres", dsn) == {"alice"}
