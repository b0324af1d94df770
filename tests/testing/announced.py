"""The versions that each release of Apache Kafka announces, read from its kafka-clients jars.

`python -m tests.testing.announced` prints the table of `kohort.testing.releases`. The jars are those of the local Maven
repository; `mvn org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get -Dtransitive=false
-Dartifact=org.apache.kafka:kafka-clients:3.9.1` adds one.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from kohort.broker.apis import SERVED
from kohort.wire.messages.api_key import ApiKey
from tests.interop.kafka import jars

REPOSITORY = Path.home() / ".m2" / "repository" / "org" / "apache" / "kafka" / "kafka-clients"

Announced = Mapping[str, Mapping[int, tuple[int, int]]]
"""By release, such as "3.9", and API key: the lowest and the highest version."""


def found_jars() -> dict[str, Path]:
    """Return the jar of each release since 2.0 that is there; of several patches, the latest."""
    found: dict[str, Path] = {}
    for folder in sorted(REPOSITORY.glob("*.*.*"), key=lambda folder: _numbers(folder.name)):
        jar = folder / f"kafka-clients-{folder.name}.jar"
        if jar.exists() and _numbers(folder.name) >= [2]:
            found[folder.name.rpartition(".")[0]] = jar
    return found


def _numbers(version: str) -> list[int]:
    return [int(part) if part.isdigit() else 0 for part in version.split(".")]


def announced() -> Announced:
    """Return what the jars announce. Raises Unavailable without Java."""
    releases = {str(jar): release for release, jar in found_jars().items()}
    (logging,) = jars().glob("slf4j-api-*.jar")
    program = Path(__file__).with_name("Announced.java")
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", str(logging), str(program), *releases],
        capture_output=True, text=True, timeout=60.0,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for line in done.stdout.splitlines():
        jar, key, lowest, highest = line.rsplit(" ", 3)
        found.setdefault(releases[jar], {})[int(key)] = (int(lowest), int(highest))
    return found


def table(known: Announced) -> str:
    """Return a row for each request that Kohort serves: by release, its highest version wherever that changes."""
    keys = [ApiKey(key) for key, _, _ in SERVED]
    width = max(len(key.name) for key in keys)
    rows = []
    for key in keys:
        changes, before = [], None
        for release, versions in known.items():
            highest = versions[key][1] if key in versions else None
            if highest != before:
                changes.append(f"{release}:{'-' if highest is None else highest}")
            before = highest
        rows.append(f"{key.name:{width}} {' '.join(changes)}")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table(announced()))
