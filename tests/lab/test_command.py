"""`kohort lab` as a user starts it: our broker, our own members, a few seconds."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.interop.process import until

_COMMAND = (str(Path(sys.executable).with_name("kohort")), "lab")
_QUICK = ("--members", "2", "--partitions", "4", "--set", "tick-ms=50", "--set", "rest-ms=0")
_SETTINGS = (
    *("--set", "group.initial.rebalance.delay.ms=0"),
    *("--set", "group.consumer.heartbeat.interval.ms=300"),
    *("--set", "group.consumer.min.heartbeat.interval.ms=100"),
    *("--set", "group.consumer.assignment.interval.ms=0"),
)


def test_one_that_joins_gets_its_share_and_nothing_is_read_twice(tmp_path: Path) -> None:
    (told,) = _lab("scale-out", "--protocol", "consumer", "--set", "restore-ms=20", out=tmp_path)
    assert (told["duplicated"], told["skipped"], told["out_of_order"], told["unsettled"]) == (0, 0, 0, 0)
    assert 20 <= told["dark_p50"] <= told["dark_max"] < 10_000
    assert 0 < told["first_max"] <= told["wall_max"]
    # Asked for again, nothing runs: the raw data is on file.
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.jsonl")}
    assert _lab("scale-out", "--protocol", "consumer", "--set", "restore-ms=20", out=tmp_path) == [told]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.jsonl")} == before


def test_a_traced_leave_shows_what_each_hop_of_broker_and_members_took(tmp_path: Path) -> None:
    (told,) = _lab("scale-in", "--protocol", "consumer", "--trace", out=tmp_path)
    hops = {hop["step"]: hop for hop in told["hops"]}
    leave = ["old owner stops", "release is received", "assignment is answered", "callback of the new owner begins"]
    assert [step for step in hops if step in leave] == leave
    assert {"fetch is received", "fetch is answered", "first record is read"} <= hops.keys()
    assert {hop["count"] for step, hop in hops.items() if step in leave} == {2}
    assert sum(hop["share"] for hop in hops.values()) == pytest.approx(1.0)
    page = (tmp_path / "report.html").read_text()
    assert "Hop by hop" in page and "waterfall of the slowest 2 partitions" in page


@pytest.mark.long("an experiment of half a minute")
def test_a_bounce_with_a_changelog_pauses_an_eager_group_and_a_member_restores_what_it_wins(tmp_path: Path) -> None:
    (told,) = _lab("bounce", "--protocol", "eager", "--set", "state-keys=50", out=tmp_path)
    assert (told["duplicated"], told["skipped"], told["out_of_order"], told["unsettled"]) == (0, 0, 0, 0)
    assert told["pause"] > 0
    assert told["dark_sum"] >= told["dark_max"] > 0


def test_a_terminated_run_leaves_no_process(tmp_path: Path) -> None:
    command = [*_COMMAND, "bounce", *_QUICK, *_SETTINGS, "--broker", "kohort", "--out", str(tmp_path)]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    with running.stderr:
        address = next(line.split()[-1] for line in running.stderr if "answers at" in line)
        until(30.0, "members join", lambda: sum("clients.member" in line for line in _processes(address)) == 2)
        running.terminate()
        assert running.wait(60.0) == 128 + signal.SIGTERM
    until(10.0, "all has ended", lambda: not _processes(address))


def _processes(address: str) -> list[str]:
    """Command lines of all processes that name the address."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found.append(path.read_text(errors="replace").replace("\0", " "))
    return [line for line in found if address in line]


@pytest.mark.long("an experiment of half a minute")
def test_with_counts_in_rocksdb_nothing_is_read_twice_and_queries_are_answered(tmp_path: Path) -> None:
    more = ("--set", "state-keys=50", "--set", "store=rocksdb", "--set", "warmup=true")
    (told,) = _lab("scale-in", "--protocol", "consumer", *more, out=tmp_path)
    assert (told["duplicated"], told["committed_again"], told["skipped"], told["unsettled"]) == (0, 0, 0, 0)
    asked = told["answered"]
    assert asked["fresh"] > 0
    assert (asked["none"] > 0) == (asked["longest_ms"] > 0)


def test_print_shows_the_experiment_with_the_changes_and_runs_nothing(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('scenarios = ["crash"]\nmembers = 5\nclients = ["java"]\n')
    done = run("lab", str(path), "--members", "3", "--set", "tick-ms=20", "--set", "group.max.size=9", "--print")
    assert (done.code, done.err) == (0, "")
    printed = tomllib.loads(done.out)
    assert (printed["scenarios"], printed["clients"]) == (["crash"], ["java"])
    assert (printed["members"], printed["tick-ms"], printed["broker-settings"]) == (3, 20, {"group.max.size": "9"})


@pytest.mark.parametrize(
    "wrong",
    [
        ("bonce",), ("bounce", "--client", "jva"), ("bounce", "--set", "x"),
        ("bounce", "--members", "3", "--set", "members=3"),
        ("table", "--set", "rows=bunce"),
        ("bounce", "--set", "store=rocksdb"), ("bounce", "--set", "store=disk"), ("table", "--client", "java"),
        ("bounce", "--set", "store=rocksdb", "--set", "state-keys=1", "--client", "java"),
    ],
)  # fmt: skip
def test_unknown_names_are_rejected_in_a_sentence(run: Run, wrong: tuple[str, ...], tmp_path: Path) -> None:
    done = run("lab", *wrong, "--out", str(tmp_path))
    assert done.code == 2
    assert done.err.startswith("kohort: ") and "Traceback" not in done.err


def _lab(*arguments: str, out: Path) -> list[dict[str, Any]]:
    command = (*_COMMAND, *arguments, *_QUICK, *_SETTINGS, "--broker", "kohort", "--out", str(out), "--json")
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    summaries: list[dict[str, Any]] = json.loads(done.stdout)
    return summaries
