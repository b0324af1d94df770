"""The folder from which Spark's Python processes import PySpark."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pyspark_kohort import worker_environment


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)  # Python would look for bytecode there alone
    return tmp_path


def test_pyspark_is_imported_from_the_directory_with_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"):
        monkeypatch.delenv(name, raising=False)
    made = worker_environment.environment_directory()
    assert made is not None
    path = [str(made / "python/lib/pyspark.zip"), *map(str, (made / "python/lib").glob("py4j-*-src.zip"))]
    show = "import pyspark, py4j; print(pyspark.__file__, py4j.__file__, pyspark.__cached__)"
    code = f"import sys; sys.path[:0] = {path}; {show}"
    files = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert all(file.startswith(path[0]) and Path(file).is_file() for file in files), files
    assert (made / "jars").is_dir()
    assert (made / "conf").is_symlink(), "where spark-defaults.conf may be put at any time"
    assert (made / "bin/spark-submit").is_file()


def test_programs_that_start_at_once_share_it(cache: Path) -> None:
    with ThreadPoolExecutor(4) as programs:
        found = {
            future.result() for future in [programs.submit(worker_environment.environment_directory) for _ in range(8)]
        }
    assert found == {worker_environment.environment_directory()}
    assert list((cache / "kohort").iterdir()) == [worker_environment.environment_directory()], "drafts are left"


def test_without_a_writable_directory_there_is_none(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cache / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / "file"))
    assert worker_environment.environment_directory() is None
