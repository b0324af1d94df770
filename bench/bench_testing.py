"""The test kit: time until a test has its broker, between two tests, and of a suite, beside Apache Kafka.

    python bench/bench_testing.py [--peer] [--tests N] [--workers N] [--rounds N]

Start: a process imports the kit, starts a broker and gets an answer to ApiVersions. Reset: what the fixture `kohort`
does between two tests, with a topic. Suite: N tests, each with a topic of its own, three records, and a group that
reads and commits them, run by pytest-xdist. With --peer the same suite uses one Apache Kafka that all workers share,
started before the measurement, and its start is measured, too. The tests are the same, with the same clients.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from kohort.testing import Broker, Workspace
from tests.interop.kafka import Unavailable, running_kafka

LIMIT_START_S, LIMIT_RESET_S, LIMIT_SUITE_S = 0.3, 0.005, 60.0
FILES = 8

START = """
import time
began = time.perf_counter()
from kohort.testing import Broker
with Broker(topics={"orders": 1}) as broker:
    import socket, struct
    with socket.create_connection((broker.host, broker.port)) as client:
        api_versions = struct.pack(">hhih", 18, 0, 7, -1)
        client.sendall(struct.pack(">i", len(api_versions)) + api_versions)
        assert struct.unpack(">iih", client.recv(10, socket.MSG_WAITALL))[1:] == (7, 0)
    print(time.perf_counter() - began)
"""

CONFTEST = """
import os, itertools
import pytest
from kohort.blocking import Admin, Consumer, Producer
from kohort import NewTopic

numbers = itertools.count()

class Kafka:
    def __init__(self, servers):
        self.servers = servers

@pytest.fixture
def kafka(request):
    servers = os.environ.get("BENCH_BOOTSTRAP")
    if servers is None:
        kohort = request.getfixturevalue("kohort")
        return kohort.bootstrap_servers, kohort.topic("orders", 2), kohort.group()
    name = f"orders-{os.getpid()}-{next(numbers)}"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, 2)])
    return servers, name, f"{name}-group"

def exercise(kafka):
    servers, topic, group = kafka
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(3):
            producer.send(topic, b"%d" % number)
    with Consumer(
        topic, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        found = []
        while len(found) < 3:
            found += consumer.poll()
        consumer.commit()
"""

TESTS = """
import pytest
from conftest import exercise

@pytest.mark.parametrize("number", range({count}))
def test_a_group_reads(kafka, number):
    exercise(kafka)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="store_true", help="measure Apache Kafka too")
    parser.add_argument("--tests", type=int, default=200, help="tests of the suite")
    parser.add_argument("--workers", type=int, default=2, help="processes of pytest-xdist")
    parser.add_argument("--rounds", type=int, default=5, help="processes that start a broker")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as compiled:  # as users have it: modules are compiled once
        started(compiled)
        starts = sorted(started(compiled) for _ in range(options.rounds))
    show("start", statistics.median(starts), LIMIT_START_S, f"from import to the first answer, best {starts[0]:.3f}")
    show("reset", reset(), LIMIT_RESET_S, "between two tests, median")
    own = suite(options.tests, options.workers, None)
    show("suite", own, LIMIT_SUITE_S, f"{options.tests} tests with a group each in {options.workers} processes")
    if options.peer:
        try:
            began = time.perf_counter()
            with running_kafka({"group.initial.rebalance.delay.ms": "0"}) as kafka:
                start = time.perf_counter() - began
                print(f"Apache Kafka: start {start:.2f} s, {start / statistics.median(starts):.0f} times")
                peer = suite(options.tests, options.workers, kafka.bootstrap)
                print(f"Apache Kafka: suite {peer:.1f} s, {peer / own:.1f} times")
        except Unavailable as missing:
            print(f"Apache Kafka: {missing}")
    return 0


def show(what: str, seconds: float, limit: float, text: str) -> None:
    print(f"{what:6} {seconds:8.4f} s, {seconds / limit:5.2f} of the limit of {limit:g} s ({text})", flush=True)


def started(compiled: str) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = compiled
    command = [sys.executable, "-c", START]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment)
    return float(done.stdout)


def reset() -> float:
    times = []
    with Broker() as broker:
        for number in range(200):
            began = time.perf_counter()
            workspace = Workspace(broker, f"test_{number}")
            workspace.topic("orders", 3)
            workspace.close()
            times.append(time.perf_counter() - began)
    return statistics.median(times)


def suite(tests: int, workers: int, bootstrap: str | None) -> float:
    """Run the tests and return the time of the whole pytest command, in seconds."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "conftest.py").write_text(textwrap.dedent(CONFTEST))
        for number in range(FILES):
            (place / f"test_{number}.py").write_text(TESTS.format(count=tests // FILES))
        environment = {**os.environ, **({} if bootstrap is None else {"BENCH_BOOTSTRAP": bootstrap})}
        command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "-p", "no:cacheprovider", directory]
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, cwd=place, env=environment, timeout=1_200)
        took = time.perf_counter() - began
        if done.returncode:
            raise SystemExit(done.stdout[-4_000:])
        return took


if __name__ == "__main__":
    sys.exit(main())
