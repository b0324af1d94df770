"""librdkafka's own tests: its C program, built once, run test by test, each against a fresh broker.

The source comes from the npm package of Confluent's JavaScript client, which carries it with its tests.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.interop.kafka import QUICK_START, jars, java
from tests.interop.secured import running_secured_broker, running_secured_cluster
from tests.interop_long.suite import (
    ACLS,
    Outcome,
    Unavailable,
    Verdict,
    build_step,
    cached,
    fresh_broker,
    fresh_cluster,
    made_once,
    run_limited,
    tool,
    unpack,
)

NAME = "librdkafka"
_PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
# Its source has RapidJSON's headers, which the tests want that read statistics.
_RAPIDJSON = "python-rapidjson==1.25"

# As librdkafka's own scenarios set their clusters up, with one broker for three. Some tests count on the delay, in
# which members that start together enter their first generation together.
_SETTINGS = {"num.partitions": "4", "group.initial.rebalance.delay.ms": "3000"}
_NEAREST = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
_NO_AUTOCREATE = {"auto.create.topics.enable": "false"}


@dataclass(frozen=True, slots=True)
class Case:
    """The tests that share a number in librdkafka's tests directory."""

    number: str
    about: str
    seconds: float = 120.0
    scenario: str = "default"
    settings: Mapping[str, str] = field(default_factory=dict)
    subtest: str = ""
    """Run these parts only: a test ends at its first failure, and some have parts that fail for a known reason."""
    protocol: str = "classic"
    """Or `consumer` (KIP-848)."""
    mechanism: str = ""
    """The client authenticates by it, over TLS, and its sessions end after three seconds."""
    patience: int = 1
    """Factor of the test's own time limit: 15 of its 20 seconds pass in any case, and a JVM starts thrice."""
    brokers: int = 1
    """Or three of ours, if the test wants three replicas. It is not run against the one broker of Apache Kafka."""

    @property
    def name(self) -> str:
        scenario = "" if self.scenario == "default" else self.scenario
        protocol = "" if self.protocol == "classic" else f"({self.protocol})"
        return " ".join(filter(None, (self.number, scenario, self.subtest, self.mechanism, protocol)))


_ADMIN = (
    *("CreateTopics", "DeleteTopics", "CreatePartitions", "CreateAcls", "DescribeAcls", "DeleteAcls"),
    *("AlterConfigs", "IncrementalAlterConfigs", "DescribeConfigs", "DeleteRecords", "ListConsumerGroups"),
    *("DescribeConsumerGroups", "DescribeTopics", "DescribeCluster", "DeleteGroups", "DeleteConsumerGroupOffsets"),
    *("ListOffsets", "AlterConsumerGroupOffsets", "ListConsumerGroupOffsets", "UserScramCredentials"),
)
_BATCHES = (
    ("with_seek", "a seek"),
    ("store_offset", "stored offsets"),
    ("with_pause", "pause and resume"),
    ("control_msgs", "control batches"),
    ("eof", "the end of a partition"),
)
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256")
_SESSIONS = (
    ("do_test_consumer", "a consumer loses nothing", 3),
    ("do_test_producer", "a producer loses nothing", 1),
    ("do_test_txn_producer", "transactions go on", 1),
    ("do_test_reauth_failure", "a password that is wrong by then", 1),
)

GROUPS = (
    Case("0018", "members that come and go, every record read once"),
    Case("0026", "pause and resume over rebalances"),
    Case("0029", "assign at an offset"),
    Case("0030", "commits: automatic, by hand, wait, none"),
    Case("0033", "subscription by pattern"),
    Case("0045", "topics that appear and grow while subscribed", 240),
    Case("0045", "topics that vanish while subscribed", 240, "noautocreate", _NO_AUTOCREATE),
    Case("0050", "subscriptions that grow"),
    Case("0056", "a balanced group in many threads"),
    Case("0061", "consumer lag in the statistics", subtest="without transactions"),
    Case("0061", "consumer lag in the statistics", subtest="with transactions"),
    Case("0089", "max.poll.interval.ms and who leaves by it", 240),
    Case("0099", "metadata of a commit"),
    Case("0102", "static members: restart, fencing, expiry", 240),
    Case("0113", "cooperative rebalances, 36 parts", 900),
    Case("0118", "commit while a rebalance goes on"),
    Case("0122", "what was fetched before a rebalance is dropped"),
    Case("0130", "stored offsets of partitions that moved"),
    Case("0132", "order of the assignors, eager and cooperative"),
    Case("0140", "metadata of a commit over a restart"),
)
BASICS = (
    Case("0001", "several clients in a process"),
    Case("0002", "produce to an unknown partition"),
    Case("0003", "a record that is too large"),
    Case("0005", "records stay in order"),
    Case("0007", "topics made by naming them"),
    Case("0008", "acks 0, 1 and all"),
    Case("0011", "produce in batches"),
    Case("0012", "produce, then consume, in three ways"),
    Case("0013", "records without a value"),
    Case("0014", "consume again from the stored offset"),
    Case("0015", "seek"),
    Case("0016", "the client's name and version in ApiVersions"),
    Case("0017", "every codec"),
    Case("0019", "list and describe groups"),
    Case("0020", "closing a client with work under way"),
    Case("0021", "closing a topic with records under way"),
    Case("0022", "consume in batches"),
    Case("0028", "topic names of 249 characters"),
    Case("0031", "offsets by time"),
    Case("0034", "auto.offset.reset"),
    Case("0035", "versions of the requests"),
    Case("0036", "fetches that end inside a record"),
    Case("0038", "throughput", 180),
    Case("0039", "delivery reports as events"),
    Case("0040", "events by a file descriptor"),
    Case("0041", "fetch.max.bytes with large records"),
    Case("0042", "many topics", 180),
    Case("0044", "partitions added while producing"),
    Case("0048", "partitioners", 180),
    Case("0049", "connections that break while consuming"),
    Case("0051", "assignments that grow"),
    Case("0052", "timestamps: create and log append time"),
    Case("0053", "statistics"),
    Case("0054", "offsets by time, in C++"),
    Case("0055", "latency of a producer"),
    Case("0057", "names that no topic may have"),
    Case("0059", "search by timestamp"),
    Case("0060", "priority of the client's events"),
    Case("0063", "cluster id"),
    Case("0064", "interceptors"),
    Case("0065", "yield from a callback"),
    Case("0067", "an empty topic"),
    Case("0068", "produce requests that time out"),
    Case("0069", "partitions added while consuming"),
    Case("0070", "null and empty keys and values"),
    Case("0073", "headers"),
    Case("0075", "requests sent again on a slow network"),
    Case("0076", "produce requests sent again"),
    Case("0077", "compaction", seconds=240.0),  # five topics, each waits up to 30 s for the cleaner
    *(
        Case("0081", f"the admin client: {part}", subtest=f"do_test_{part}", settings=ACLS if "Acl" in part else {})
        for part in _ADMIN
    ),
    Case("0082", "fetch.max.bytes over partitions"),
    Case("0083", "events in a callback"),
    Case("0084", "closing with and without leaving the group", 180),
    Case("0085", "headers, in C++"),
    Case("0086", "purging what is queued or in flight"),
    Case("0088", "metadata that comes late"),
    Case("0090", "idempotent producer"),
    Case("0091", "max.poll.interval.ms with slow callbacks", 240),
    Case("0092", "old and new message versions in a topic"),
    Case("0093", "a slow partition holds up no other"),
    Case("0094", "idempotent records that time out", 240),
    Case("0101", "fetch from a follower", settings=_NEAREST, brokers=3),
    Case("0103", "transactions", 300, brokers=3),
    Case("0098", "consuming transactions", 480, brokers=3),
    Case("0107", "a topic deleted and made again", 180, "noautocreate", _NO_AUTOCREATE, brokers=3),
    Case("0109", "allow.auto.create.topics, with and without permission", 180, settings=ACLS),
    Case("0110", "batch.size"),
    Case("0111", "produce before the topic is there", 180, "noautocreate", _NO_AUTOCREATE, brokers=3),
    Case("0112", "assign a partition that comes later"),
    Case("0114", "sticky partitioning"),
    Case("0115", "a producer without permission", settings=ACLS),
    Case("0119", "a consumer without permission", settings=ACLS, patience=3),
    Case("0123", "idle connections", 180),
    Case("0125", "flush at once"),
    Case("0127", "back off when the fetch queue is full"),
    Case("0129", "records of aborted transactions"),
    *(Case("0135", "a wrong password, then the right one", subtest="do_test:", mechanism=name) for name in _MECHANISMS),
    *(Case("0137", f"batches end at {what}", subtest=f"do_test_consume_batch_{part}") for part, what in _BATCHES),
    *(
        Case("0142", f"authenticating again: {what}", 180, subtest=part, mechanism=name, brokers=brokers)
        for name in _MECHANISMS
        for part, what, brokers in _SESSIONS
    ),
)
_ALSO_CONSUMERS = ("0014", "0022", "0069", "0084", "0091", "0109", "0112", "0119")
# In this protocol the broker sets these values for all members; classic members choose their own.
_CONSUMER = {
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
}
CONSUMER_GROUPS = tuple(
    replace(case, protocol="consumer", settings={**case.settings, **_CONSUMER})
    for case in (*GROUPS, *(case for case in BASICS if case.number in _ALSO_CONSUMERS))
)
"""The same tests by members of the consumer protocol."""

CASES = GROUPS + CONSUMER_GROUPS + BASICS


def run(kind: str, named: Sequence[str]) -> Iterator[Outcome]:
    """Run the cases, one after the other: all, or those that are named, by number, protocol or in full."""
    tests = _built()
    for case in CASES:
        runs_here = kind == "kohort" or case.brokers == 1
        if runs_here and (not named or {case.number, case.protocol, case.name} & set(named)):
            yield _run_case(tests, kind, case)


def _built() -> Path:
    """The directory of the compiled tests, fetched and built on first use: about five minutes of one processor."""
    home = cached(NAME)
    with made_once(home / "built") as source:
        if source is not None:
            for program in ("gcc", "g++", "make"):
                tool(program)
            log = home / "build.log"
            build_step([tool("npm"), "pack", "--silent", _PACKAGE], cwd=source.parent, log=log, timeout=300)
            archives = list(source.parent.glob("*.tgz"))
            if len(archives) != 1:
                raise Unavailable(f"npm fetched no package {_PACKAGE}; see {log}")
            package = source.parent / "package"
            package.mkdir()
            unpack(archives[0], package)
            (package / "deps" / "librdkafka").rename(source / "librdkafka")
            library = source / "librdkafka"
            download = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", _RAPIDJSON]
            build_step(download, cwd=source.parent, log=log, timeout=300)
            (archive,) = source.parent.glob("python_rapidjson-*.tar.gz")
            unpack(archive, source.parent / "rapidjson")
            (source.parent / "rapidjson" / "rapidjson" / "include").rename(source / "include")
            # No test here needs them, and their headers are often missing.
            without = ["--disable-gssapi", "--disable-curl"]
            headers = f"CPPFLAGS=-isystem {source / 'include'}"
            build_step(["env", headers, "./configure", *without], cwd=library, log=log, timeout=300)
            build_step(["nice", "make", "-j1", "libs"], cwd=library, log=log, timeout=1800)
            build_step(["nice", "make", "-j1", "-C", "tests", "build"], cwd=library, log=log, timeout=1800)
    return home / "built" / "librdkafka" / "tests"


def _run_case(tests: Path, kind: str, case: Case) -> Outcome:
    log = cached(NAME) / f"{case.name.replace(' ', '-')}-{kind}.log"
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="librdkafka-") as work:
        with _broker_of(kind, case, Path(work)) as (bootstrap, options):
            conf, report = Path(work, "test.conf"), Path(work, "report.json")
            options |= {"test.topic.random": "true", "test.timeout.multiplier": str(case.patience)}
            conf.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
            code = run_limited(
                # -p1 one at a time, -L without the tests of its mock broker
                ["./test-runner", "-p1", "-L", "-s", case.scenario],
                cwd=tests,
                env={
                    "TESTS": case.number,
                    "TEST_KAFKA_VERSION": "4.0.0",
                    "RDKAFKA_TEST_CONF": str(conf),
                    "KAFKA_PATH": str(_kafka_scripts(Path(work))),
                    "BROKERS": bootstrap,
                    "TEST_REPORT": str(report),
                    **({"SUBTESTS": case.subtest} if case.subtest else {}),
                    "TEST_CONSUMER_GROUP_PROTOCOL": case.protocol,
                    "LD_LIBRARY_PATH": f"{tests.parent}/src:{tests.parent}/src-cpp",
                },
                log=log,
                timeout=case.seconds,
            )
        seconds = time.monotonic() - started
        if code is None:
            verdict, detail = Verdict.TIMED_OUT, f"not within {case.seconds:.0f} s"
        else:
            verdict, detail = _told(code, report, log)
    return Outcome(case.name, case.about, verdict, seconds, detail)


@contextlib.contextmanager
def _broker_of(kind: str, case: Case, work: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Run a broker for a case. Give its address without security, and the options of the test's clients."""
    settings = {**_SETTINGS, **case.settings}
    three = case.brokers == 3
    if not case.mechanism:
        with fresh_cluster(settings) if three else fresh_broker(kind, 1, settings) as broker:
            yield broker.bootstrap, {"metadata.broker.list": broker.bootstrap}
        return
    settings["auto.create.topics.enable"] = "true"
    with running_secured_cluster(work, settings) if three else running_secured_broker(kind, work, settings) as secured:
        login = secured.login("admin", case.mechanism)
        yield secured.bootstrap, {"metadata.broker.list": login.bootstrap, **login.librdkafka()}


_SCRIPTS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
}


def _kafka_scripts(work: Path) -> Path:
    """A directory that looks enough like Kafka's distribution for the tests that run its scripts."""
    (work / "bin").mkdir()
    for name, main in _SCRIPTS.items():
        script = work / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(java(main))} "$@"\n')
        script.chmod(0o755)
    # 0098 compiles a Java program against the jars, and runs it by this script.
    (work / "libs").symlink_to(jars())
    script = work / "bin" / "kafka-run-class.sh"
    script.write_text(f'#!/bin/sh\nexec java {shlex.join(QUICK_START)} -cp "$CLASSPATH:{jars()}/*" "$@"\n')
    script.chmod(0o755)
    return work


def _told(code: int, report: Path, log: Path) -> tuple[Verdict, str]:
    """How the tests of a case ended, all together. The runner aborts when a test that failed left threads behind."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(errors="replace"))
    if code != 0:
        failures = re.findall(r'^### Test "([^"<]+)" failed at .*\n(.*)', text, re.MULTILINE)
        return Verdict.FAILED, "; ".join(f"{test}: {why.strip()}" for test, why in failures) or f"exit code {code}"
    states = [test["state"] for name, test in json.loads(report.read_text())["tests"].items() if name != "<MAIN>"]
    if "PASSED" in states:
        return Verdict.PASSED, ""
    skipped = re.findall(r"^\|\s+\S+\s+\|\s+SKIPPED\s+\|\s+[\d.]+s\s+\|(.*)$", text, re.MULTILINE)
    return Verdict.SKIPPED, "; ".join(reason.strip() for reason in skipped)
