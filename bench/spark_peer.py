"""The JVM connector, spark-sql-kafka-0-10, beside ours: each in a Spark session of its own, both on Apache Kafka.

Of connectors after 4.0.0 Maven lacks a dependency, so it runs on Spark 4.0.0, in a virtual environment of its own that
the cache keeps beside Kafka's jars.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.interop.kafka import cache_directory

CONNECTOR = "4.0.0"
_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kohort</groupId><artifactId>spark-sql-kafka</artifactId><version>{CONNECTOR}</version>
  <dependencies><dependency>
    <groupId>org.apache.spark</groupId><artifactId>spark-sql-kafka-0-10_2.13</artifactId><version>{CONNECTOR}</version>
    <exclusions><exclusion><groupId>org.apache.hadoop</groupId><artifactId>*</artifactId></exclusion></exclusions>
  </dependency></dependencies>
</project>
"""
_COPY_JARS = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_HERE = Path(__file__).parent


def connector() -> tuple[Path, str]:
    """The interpreter that has Spark 4.0.0, and the connector's jars; both are fetched at the first use."""
    home = cache_directory() / f"spark-sql-kafka-{CONNECTOR}"
    if not (home / "jars").is_dir():
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([home / "bin/pip", "install", "-q", f"pyspark=={CONNECTOR}"], check=True)
        with tempfile.TemporaryDirectory(dir=home) as work:
            Path(work, "pom.xml").write_text(_POM)
            command = ["mvn", "-B", "-q", "-f", f"{work}/pom.xml", _COPY_JARS, "-DincludeScope=runtime"]
            subprocess.run([*command, f"-DoutputDirectory={work}/jars"], check=True, stdin=subprocess.DEVNULL)
            Path(work, "jars").rename(home / "jars")
    # Spark has these itself.
    own = ("scala-library", "slf4j-api", "jsr305", "scala-parallel", "lz4-java", "snappy-java", "spark-tags")
    jars = [str(jar) for jar in sorted((home / "jars").glob("*.jar")) if not jar.name.startswith(own)]
    return home / "bin/python", ",".join(jars)


@dataclass(slots=True)
class Contestant:
    """A session in a process of its own."""

    form: str
    process: subprocess.Popen[str]

    def run(self, case: str, **asked: Any) -> dict[str, Any]:
        """Run one case; its answer, with the CPU seconds of the whole process tree as `cpu`."""
        assert self.process.stdin is not None
        before = cpu_seconds(self.process.pid)
        self.process.stdin.write(json.dumps({"case": case, "form": self.form, **asked}) + "\n")
        self.process.stdin.flush()
        found = self._answer()
        return found | {"cpu": cpu_seconds(self.process.pid) - before}

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        raise RuntimeError(f"the session of {self.form} has ended")


@contextlib.contextmanager
def contestant(form: str) -> Iterator[Contestant]:
    """A session that reads by `kafka`, the JVM connector, or by `kohort`."""
    interpreter, jars = connector() if form == "kafka" else (Path(sys.executable), "")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"PYSPARK_PYTHON": str(interpreter), "TZ": "UTC"}
    if form == "kafka":
        environment.pop("PYTHONPATH", None)
    command = [str(interpreter), str(_HERE / "spark_contestant.py"), jars]
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        ) as process:
            found = Contestant(form, process)
            try:
                found._answer()
                yield found
            except Exception:
                errors.seek(0)
                sys.stderr.write(errors.read()[-3000:])
                raise
            finally:
                assert process.stdin is not None
                process.stdin.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)
                process.kill()


def start_to_first_batch(form: str, options: dict[str, str]) -> float:
    """Seconds from starting the program to the end of its first, small batch."""
    begin = time.perf_counter()
    with contestant(form) as found:
        found.run("stream", options=options)
        return time.perf_counter() - begin


def cpu_seconds(root: int) -> float:
    """CPU time of a process and all its descendants, those that have ended and were waited for included."""
    ticks, parents = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                ticks[int(entry.name)] = sum(int(field) for field in fields[11:15])
    family = {root}
    while grown := {pid for pid, parent in parents.items() if parent in family and pid not in family}:
        family |= grown
    return sum(ticks.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")


def available() -> str | None:
    """Why there is nothing to compare with; None where there is."""
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    return f"needs {missing[0]}" if missing else None
