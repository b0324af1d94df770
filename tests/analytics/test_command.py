"""`kohort analyse` as users run it, on the groups of a running broker: ours, or Apache Kafka's with `--broker both`."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyspark
import pytest

from kohort.recorder import RebalanceRecord
from tests.analytics.generate.history import Scale, write
from tests.analytics.lives import PARTITIONS, RECORDS, live_twice
from tests.cli.conftest import Ran, Run
from tests.interop.broker import Broker
from tests.interop.kohort import KohortBroker, kohort

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17, and there is no java on the PATH"),
]


def as_a_process(*arguments: str) -> Ran:
    """The command with a process and a JVM of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    command = kohort("analyse", "--master", "local[2]", *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, env=environment)
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def analyse(run: Run, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command in this process, in the JVM of the other tests: one of its own takes twenty seconds of two cores."""

    @contextlib.contextmanager
    def shared(master: str | None, name: str, *, small: bool) -> Iterator[SparkSession]:
        assert small, "the histories of these tests have a few dozen records"
        yield request.getfixturevalue("spark")

    monkeypatch.setattr("kohort.cli.analyse.running_spark", shared)
    return lambda *arguments: run("analyse", *arguments)


def rows(table: Path, group: str) -> list[dict[str, Any]]:
    found = pq.read_table(table, filters=[("group_id", "=", group)])
    return found.to_pylist()


@pytest.mark.interop
def test_a_running_brokers_groups_are_analysed(any_broker: Broker, analyse: Run, run: Run, tmp_path: Path) -> None:
    every_table_has_its_rows(any_broker, analyse, run, tmp_path / "analysis")


@pytest.mark.interop
@pytest.mark.long("starts Spark once more")
def test_the_command_does_so_in_a_process_of_its_own(any_broker: Broker, run: Run, tmp_path: Path) -> None:
    every_table_has_its_rows(any_broker, as_a_process, run, tmp_path / "analysis")


def every_table_has_its_rows(broker: Broker, analyse: Run, run: Run, out: Path) -> None:
    lived = {protocol: live_twice(broker.bootstrap, protocol) for protocol in ("classic", "consumer")}
    done = analyse("--bootstrap", broker.bootstrap, "--out", str(out), "--window-minutes", "1")
    assert done.code == 0, done.err
    assert f"written: {out}/report.html" in done.out
    page = (out / "report.html").read_text()
    for protocol, history in lived.items():
        assert history.group in page
        members = rows(out / "memberships", history.group)
        assert [row["group_type"] for row in members] == [protocol] * 2
        assert all(row["left_at"] >= row["joined_at"] for row in members)
        assert sum(row["commits"] for row in rows(out / "commit_rate", history.group)) == RECORDS
        moved = rows(out / "moves", history.group)
        assert {row["partition"] for row in moved} == set(range(PARTITIONS))
        assert {row["topic"] for row in moved} == {history.topic}
        # The group had no members between its two lives, and nobody waited.
        returned = [row for row in rows(out / "rebalances", history.group) if row["cause"] == "first member"]
        assert [(row["excess_ms"], row["longest_dark_ms"]) for row in returned] == [(0, None)] * 2
        behind = rows(out / "lag", history.group)
        assert {row["lag"] for row in behind} == {0}
        assert {row["end_offset"] for row in behind} == {RECORDS // PARTITIONS}
        if isinstance(broker, KohortBroker):
            # It keeps a journal of rebalances, and Apache Kafka does not.
            recorded = rows(out / "journal", history.group)
            assert len(recorded) == 4, "two members joined and left"
            assert {row["dark_ms"] for row in recorded} == {0}
            assert _counts_of_page(page, history.group) == _counts_of_journal(run, broker, history.group)


def _counts_of_page(page: str, group: str) -> tuple[int, int]:
    """Rebalances and moves in the group's row of the first table; further ones have its rebalances."""
    row, *_ = re.findall(rf"<tr><td>{group}</td>(.*?)</tr>", page)
    _, _, rebalances, moves, *_ = re.findall(r"<td>(.*?)</td>", row)
    return int(rebalances), int(moves)


def _counts_of_journal(run: Run, broker: Broker, group: str) -> tuple[int, int]:
    """The same as `kohort rebalances` has them."""
    lines = run("rebalances", group, "--json", bootstrap=broker.bootstrap).lines
    records = [RebalanceRecord.from_json(line) for line in lines]
    return len(records), sum(len(record.moved) for record in records)


def test_a_broker_that_does_not_answer_is_a_sentence(run: Run, tmp_path: Path) -> None:
    done = run("analyse", "--bootstrap", "127.0.0.1:1", "--out", str(tmp_path / "analysis"))
    assert done.code == 2, done.err
    assert "Traceback" not in done.err
    assert "127.0.0.1:1" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--segments", "a", "--raw", "b"), "Specify either --segments or --raw, not both"),
        (("--raw", "b", "--journal-only"), "--raw is an archive of __consumer_offsets"),
        (("--segments", "a", "--journal-only"), "a has no journal: no topic __kohort_rebalances"),
        (("--format", "csv"), "--format csv is unknown"),
        (("--out", "s3a://nobody/x", "--segments", "a"), "--out s3a://nobody/x: Spark cannot write there: "),
        (("--out", "s3a://nobody/x", "--format", "delta"), "--format delta cannot list files there"),
        (("--out", "s3a://nobody/x", "--format", "iceberg"), "--format iceberg keeps its catalog in a file"),
        (("--out", "/proc/analysis"), "--out /proc/analysis cannot be made: "),
    ],
)
def test_contradicting_options_are_rejected_with_a_sentence(
    analyse: Run, arguments: tuple[str, ...], said: str
) -> None:
    done = analyse(*arguments)
    assert done.code == 2, done.err
    assert "Traceback" not in done.err
    assert said in done.err


@pytest.mark.long("starts a cluster of Spark")
def test_spark_submit_runs_the_same_job_with_its_own_master(tmp_path: Path) -> None:
    write(tmp_path / "made", Scale(commits=3_000, groups=3, days=1, window_ms=3_600_000, shards=2), lambda line: None)
    script = tmp_path / "analyse.py"
    arguments = [
        "analyse",
        "--segments",
        f"{tmp_path}/made",
        "--ends",
        f"{tmp_path}/made/ends",
        "--out",
        f"{tmp_path}/out",
    ]
    script.write_text(f"from kohort.cli import main\n\nmain({arguments})\n")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    options = ("--master", "local-cluster[2,1,1024]", "--driver-java-options", "-XX:TieredStopAtLevel=1")
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.host": "127.0.0.1"}
    given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    done = subprocess.run(
        [submit, *options, *given, script],
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert (tmp_path / "out" / "report.html").is_file()
    counted, truth = (
        pc.sum(pq.read_table(path, columns=["commits"])["commits"]).as_py()
        for path in (tmp_path / "out" / "commit_rate", tmp_path / "made" / "truth" / "commits.parquet")
    )
    assert truth is not None
    assert counted == truth > 2_500
