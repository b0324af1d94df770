"""Apache Kafka's console tools in one JVM, one after the other: a JVM for each would take seconds to start."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.interop.kafka import java

MAIN_CLASSES = {
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a tool ended."""

    code: int
    output: str
    """What it wrote to stdout and stderr."""


class JavaTools:
    """The JVM."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, tool: str, *arguments: str) -> Ended:
        """Run a tool to its end."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([MAIN_CLASSES[tool], *arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the JVM has ended"
        return Ended(**json.loads(line))

    def succeed(self, tool: str, *arguments: str) -> str:
        """Run a tool, and return its output; an assertion with it if the tool fails."""
        ended = self.run(tool, *arguments)
        assert ended.code == 0, f"{tool} {' '.join(arguments)} ended with {ended.code}\n{ended.output}"
        return ended.output


@contextlib.contextmanager
def running_java_tools() -> Iterator[JavaTools]:
    """Start the JVM, and end it. Its own warnings appear on stderr."""
    command = java(str(Path(__file__).with_name("Tools.java")))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield JavaTools(process)
        finally:
            process.kill()
