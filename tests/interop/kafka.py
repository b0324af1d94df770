"""Apache Kafka as the laboratory runs it, and the console tools that come with it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kohort.lab.apache_kafka import (
    PRODUCTION,
    QUICK_START,
    VERSION,
    ApacheKafka,
    Unavailable,
    cache_directory,
    free_ports,
    jars,
    java,
    running_kafka,
    running_kafka_pair,
)

__all__ = [
    "PRODUCTION",
    "QUICK_START",
    "VERSION",
    "ApacheKafka",
    "Unavailable",
    "cache_directory",
    "compiled",
    "free_ports",
    "jars",
    "java",
    "run_tool",
    "running_kafka",
    "running_kafka_pair",
]


def run_tool(main: str, *arguments: str, stdin: str = "", timeout: float = 60.0) -> str:
    """Run a console tool to its end and return its stdout; an assertion with its output when it fails."""
    done = subprocess.run(java(main, *arguments), input=stdin, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"{main} ended with {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def compiled(source: Path, into: Path) -> Path:
    """Compile a Java class against Kafka's jars, and return the directory."""
    command = ["javac", "-nowarn", "-cp", f"{jars()}/*", "-d", str(into), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return into
