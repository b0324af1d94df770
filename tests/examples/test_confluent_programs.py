"""Programs for confluent-kafka, run as they are and with only the import changed: the output is the same."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid

import pytest

from kohort import NewTopic
from kohort.blocking import Admin
from tests.examples import confluent_admin_programs, confluent_programs
from tests.examples.confluent_programs import Program
from tests.interop.broker import Broker

RUNNER = """
import gc, sys
names = {"BOOTSTRAP": sys.argv[1], "TOPIC": sys.argv[2], "GROUP": sys.argv[2]}
exec(compile(sys.argv[3], "<program>", "exec"), names)
names.clear()
gc.collect()
"""
"""Runs a program, and closes its clients before the interpreter ends: a thread of librdkafka that calls into Python
after that makes the process crash now and then (PyThreadState_New without an interpreter)."""
PROGRAMS = [*confluent_programs.PROGRAMS, *confluent_admin_programs.PROGRAMS]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_for_confluent_kafka_does_the_same_with_another_import(program: Program, any_broker: Broker) -> None:
    ours, changed = re.subn(
        r"^from confluent_kafka\b", "from kohort.compat.confluent", program.text, flags=re.MULTILINE
    )
    assert changed and "confluent_kafka" not in ours
    theirs = output(program.text, any_broker)
    assert len(theirs.splitlines()) >= 3
    assert output(ours, any_broker) == theirs


def output(text: str, broker: Broker) -> str:
    """Return what a program prints with its own topic and group, without their names."""
    topic = uuid.uuid4().hex
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1)])
    run = subprocess.run(
        [sys.executable, "-c", RUNNER, broker.bootstrap, topic, text], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.replace(topic, "TOPIC")
