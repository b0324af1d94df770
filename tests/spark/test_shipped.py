"""A job that brings kohort with it to executors that have none, as `docs/spark.md` says under "On a cluster"."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
import zipfile
from pathlib import Path

import pyspark
import pytest

import kohort
import pyspark_kohort
from tests.spark.conftest import Topic, rows

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long("starts a cluster of four JVMs"),
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17, and there is no java on the PATH"),
]


def zipped(home: Path) -> Path:
    """Both packages as `--py-files` takes them."""
    made = home / "kohort.zip"
    with zipfile.ZipFile(made, "w") as file:
        for package in (kohort, pyspark_kohort):
            assert package.__file__ is not None
            root = Path(package.__file__).parent
            for source in root.rglob("*.py"):
                file.write(source, source.relative_to(root.parent))
    return made


def test_a_job_brings_its_source_to_executors_that_have_none(bootstrap: str, tmp_path: Path, spark_home: Path) -> None:
    topic = Topic(bootstrap, 3)
    topic.produce(rows(300, 3))
    package = zipped(tmp_path)
    # This environment's packages without what its .pth files add, which is where kohort itself is installed.
    others = str(Path(pyspark.__file__).parents[1])
    bare = getattr(sys, "_base_executable", sys.executable)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")} | {
        "PYSPARK_PYTHON": bare,
        "PYTHONPATH": f"{others}{os.pathsep}{package}",
        "HOME": str(tmp_path),
    }
    asked = {"bootstrap": bootstrap, "topic": topic.name, "group": f"shipped-{uuid.uuid4().hex}", "home": str(tmp_path)}
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        # Executors of a local cluster would take the driver's, with the file in it.
        "spark.executorEnv.PYTHONPATH": others,
    }
    done = subprocess.run(
        [
            str(spark_home / "bin/spark-submit"),
            *("--master", "local-cluster[2,1,1024]", "--py-files", str(package)),
            *(part for name, value in settings.items() for part in ("--conf", f"{name}={value}")),
            str(Path(__file__).with_name("shipped_job.py")),
            json.dumps(asked),
        ],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["batch"], found["stream"]) == (300, 300)
    # Each executor has its own copy, where it works; none has read the driver's.
    assert all("kohort.zip" in file and str(package) not in file for file in found["files"]), found["files"]
    assert topic.lag(asked["group"]) == 0
