"""Topics are widened and configured, against ours; with --broker both against Apache Kafka too."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Run, succeeded
from tests.interop.broker import Broker


@pytest.fixture
def bootstrap(any_broker: Broker) -> str:
    return any_broker.bootstrap


def test_a_topic_gets_more_partitions_and_never_fewer(run: Run, bootstrap: str, name: str) -> None:
    succeeded(run("topic", "create", name, "--partitions", "2", bootstrap=bootstrap))
    wider = run("topic", "partitions", name, "--partitions", "5", bootstrap=bootstrap)
    assert (wider.code, wider.out) == (0, f"{name} has 5 partitions\n")
    [described] = json.loads(run("topic", "describe", name, "--json", bootstrap=bootstrap).out)
    assert len(described["partitions"]) == 5
    narrower = run("topic", "partitions", name, "--partitions", "3", bootstrap=bootstrap)
    assert (narrower.code, narrower.out) == (2, "")
    assert narrower.err.startswith("kohort: INVALID_PARTITIONS") and len(narrower.err.splitlines()) == 1


def test_configs_are_shown_set_and_unset(run: Run, bootstrap: str, name: str) -> None:
    succeeded(run("topic", "create", name, bootstrap=bootstrap))
    config = ("topic", "config")
    assert run(*config, "show", name, bootstrap=bootstrap).out.startswith(f"{name} has no configs of its own")

    done = run(*config, "set", name, "retention.ms=3600000", "cleanup.policy=compact,delete", bootstrap=bootstrap)
    assert (done.code, done.lines) == (0, [f"{name}: retention.ms=3600000", f"{name}: cleanup.policy=compact,delete"])
    assert [line.split() for line in run(*config, "show", name, bootstrap=bootstrap).lines] == [
        ["config", "value", "set", "by"],
        ["cleanup.policy", "compact,delete", "topic"],
        ["retention.ms", "3600000", "topic"],
    ]

    assert run(*config, "unset", name, "cleanup.policy", bootstrap=bootstrap).code == 0
    told = json.loads(run(*config, "show", name, "--json", bootstrap=bootstrap).out)
    assert told == {"topic": name, "configs": {"retention.ms": {"value": "3600000", "set_by": "topic"}}}
    everything = json.loads(run(*config, "show", name, "--all", "--json", bootstrap=bootstrap).out)["configs"]
    assert everything["cleanup.policy"] == {"value": "delete", "set_by": "default"}


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ("set {} retention.ms=soon", 2, "INVALID_CONFIG"),
        ("set {} no.such.config=1", 2, "INVALID_CONFIG"),
        ("unset {} retention.ms", 1, "{} does not set retention.ms; see kohort topic config show {}."),
        ("show no-such-topic", 2, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("set no-such-topic retention.ms=1", 2, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("unset no-such-topic retention.ms", 2, "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_a_rejection_is_one_sentence(run: Run, bootstrap: str, name: str, arguments: str, code: int, says: str) -> None:
    succeeded(run("topic", "create", name, bootstrap=bootstrap))
    told = run("topic", "config", *arguments.replace("{}", name).split(), bootstrap=bootstrap)
    assert (told.code, told.out) == (code, "")
    assert told.err.startswith("kohort: ") and says.replace("{}", name) in told.err
    assert len(told.err.splitlines()) == 1


def test_a_topic_is_described_with_its_offsets_at_a_time(run: Run, bootstrap: str, name: str) -> None:
    succeeded(run("topic", "create", name, "--partitions", "2", bootstrap=bootstrap))
    for at in (1_795_253_400_000, 1_795_253_401_000):
        succeeded(run("produce", name, "-p", "0", "--timestamp", str(at), bootstrap=bootstrap, stdin="x\n"))
    described = run("topic", "describe", name, "--time", "2026-11-21T09:30:01", bootstrap=bootstrap)
    assert described.lines[1].endswith("start  end  at time")
    assert [line.split()[-3:] for line in described.lines[2:]] == [["0", "2", "1"], ["0", "0", "-"]]
    [found] = json.loads(run("topic", "describe", name, "--time", "0", "--json", bootstrap=bootstrap).out)
    assert [partition["at_time"] for partition in found["partitions"]] == [0, None]
    [plain] = json.loads(run("topic", "describe", name, "--json", bootstrap=bootstrap).out)
    assert "at_time" not in plain["partitions"][0]
