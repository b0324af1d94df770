"""The benchmarks, as far as a test can tell without running them."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from bench import bench_client, bench_transfer
from bench.bench_broker import Connection
from kohort.errors import ErrorCode
from kohort.wire.codec import Message
from kohort.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

BENCH = Path(__file__).parents[1] / "bench"
SCRIPTS = sorted(BENCH.glob("bench_*.py"))


def roots_imported(tree: ast.Module) -> set[str]:
    """The packages that a script imports, also inside functions."""
    names = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    names += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_benchmark_finds_its_neighbours_when_it_is_run_by_its_path(script: Path) -> None:
    # Python's path then begins with bench/ itself, in which there are no packages `bench` and `tests`.
    tree = ast.parse(script.read_text())
    if not {"bench", "tests"} & roots_imported(tree):
        return
    lines = [ast.unparse(node) for node in tree.body]
    assert "sys.path.insert(0, str(Path(__file__).parents[1]))" in lines


def test_the_comparison_with_the_jvm_connector_starts_as_documented(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PYTHONPATH"] = str(BENCH.parent / "src")
    command = [sys.executable, str(BENCH / "bench_spark.py"), "--peer", "--case", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert "no case nothing; there are " in done.stderr


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_benchmark_refuses_options_that_it_does_not_know_and_explains_the_others(script: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(script.read_text())) if isinstance(node, ast.Call)]
    names = [getattr(call.func, "attr", "") for call in calls]
    assert "parse_args" in names
    options = [call for call, name in zip(calls, names, strict=True) if name == "add_argument"]
    silent = [ast.unparse(call) for call in options if not any(keyword.arg == "help" for keyword in call.keywords)]
    assert silent == []


def test_a_client_that_fails_is_named_and_one_that_lacks_a_codec_is_not(capfd: pytest.CaptureFixture[str]) -> None:
    failed: list[str] = []
    assert bench_client.in_a_process(failed, "127.0.0.1:1", "nobody", "produce", "topic", 1) is None
    assert failed == ["nobody produce"]
    assert "nobody produce: KeyError: 'nobody'" in capfd.readouterr().err


def test_a_bar_without_its_figure_says_so_if_it_was_asked_for() -> None:
    bar = bench_client.Bar("what", "iterate", 2, against="aiokafka")
    figures = {"kohort": {"iterate": 3.0}, "aiokafka": {}}
    assert bar.line(figures, ["consume"]) is None
    assert bar.line({"kohort": {"iterate": 3.0}}, ["iterate"]) is None
    assert str(bar.line(figures, ["iterate"])).split() == ["what", "not", "measured"]
    assert str(bar.line({**figures, "aiokafka": {"iterate": 1.0}}, ["iterate"])).endswith("3.000  at least 2: met")


class Answering:
    """A connection on which each request gets the same answer."""

    def __init__(self, partition: PartitionData) -> None:
        self._partition = partition

    def __enter__(self) -> Answering:
        return self

    def __exit__(self, *_: object) -> None: ...

    def ask(self, request: Message, version: int, kind: type[FetchResponse]) -> FetchResponse:
        return FetchResponse(responses=[FetchableTopicResponse(partitions=[self._partition])])


@pytest.mark.parametrize(
    "partition", [PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER), PartitionData(records=b"")]
)
def test_a_partition_that_is_not_read_to_its_end_has_no_rate(partition: PartitionData) -> None:
    connect = cast("Callable[[], Connection]", lambda: Answering(partition))
    with pytest.raises(AssertionError, match="0 of 100 bytes"):
        bench_transfer.fetch(connect, "topic", 100, 0)
