"""Invalid directories and databases: one sentence, exit code 2, and no change; for both stores."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.cluster.postgres import PostgresServer
from tests.interop.kohort import kohort, running_kohort
from tests.interop.process import ServerProcess

pytestmark = pytest.mark.timeout(120)

OURS, THEIRS = "A" * 22, "B" * 22


class Store:
    """Where brokers are started, and what it holds."""

    def __init__(self, options: list[str], held: Callable[[], object], make_newer: Callable[[], None]) -> None:
        self.options = options
        self.held = held
        self.make_newer = make_newer


@pytest.fixture(params=["alone", "shared", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """One that a broker of cluster `OURS` has left."""
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        made = _in_database(server.fresh_database())
    else:
        made = _in_files(tmp_path / "data", ["--shared"] if request.param == "shared" else [])
    with running_kohort(*made.options, "--cluster-id", OURS):
        pass
    return made


def _in_files(data: Path, options: list[str]) -> Store:
    def held() -> object:
        return {path: path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file() and path.name != "lock"}

    def make_newer() -> None:
        meta = json.loads((data / "kohort.json").read_text())
        (data / "kohort.json").write_text(json.dumps({**meta, "format": 99}))

    return Store(["--data", str(data), *options], held, make_newer)


def _in_database(dsn: str) -> Store:
    def held() -> object:
        with psycopg.connect(dsn) as connection:
            tables = ("cluster", "brokers", "leases", "partitions", "batches")
            return [
                connection.execute(f"SELECT * FROM kohort.{table} ORDER BY 1".encode()).fetchall() for table in tables
            ]

    def make_newer() -> None:
        with psycopg.connect(dsn) as connection:
            connection.execute("UPDATE kohort.cluster SET format = 99")

    return Store(["--postgres", dsn], held, make_newer)


@contextmanager
def untouched(store: Store) -> Iterator[None]:
    before = store.held()
    yield
    assert store.held() == before


def refused(*command: str) -> str:
    """The one sentence."""
    process = ServerProcess(command)
    assert process.wait(60.0) == 2, process.output()
    (sentence,) = process.output().splitlines()
    return sentence


def test_a_store_of_another_cluster(store: Store) -> None:
    with untouched(store):
        sentence = refused(*kohort("broker", "--listen", "127.0.0.1:0", *store.options, "--cluster-id", THEIRS))
    assert f"belongs to cluster {OURS}, not {THEIRS}" in sentence


def test_a_store_of_a_newer_version(store: Store) -> None:
    store.make_newer()
    with untouched(store):
        sentence = refused(*kohort("broker", "--listen", "127.0.0.1:0", *store.options))
    assert "format 99, this version of kohort reads" in sentence and "use the version that made" in sentence


def test_a_second_broker_of_one_node_id(store: Store) -> None:
    with running_kohort(*store.options):
        sentence = refused(*kohort("broker", "--listen", "127.0.0.1:0", *store.options))
    assert "already has a broker with node id 1" in sentence or "is in use by" in sentence


@pytest.mark.parametrize("options", [[], ["--shared"]], ids=["alone", "shared"])
def test_a_file_system_without_locks(tmp_path: Path, options: list[str]) -> None:
    program = (
        "import errno, fcntl, sys\n"
        "def flock(descriptor, kind): raise OSError(errno.ENOLCK, 'No locks available')\n"
        "fcntl.flock = flock\n"
        "from kohort.cli import main\n"
        "sys.exit(main())"
    )
    data = tmp_path / "data"
    arguments = ["broker", "--listen", "127.0.0.1:0", "--data", str(data), *options]
    sentence = refused(sys.executable, "-c", program, *arguments)
    assert "no locks" in sentence.lower()
    assert not list(data.rglob("kohort.json"))


@pytest.mark.parametrize("given", ["short", "A" * 21 + "/"])
def test_invalid_cluster_ids(given: str) -> None:
    assert "--cluster-id takes 22 letters" in refused(*kohort("broker", "--memory", "--cluster-id", given))
