"""The benchmarks, as far as a test can tell without running them."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
