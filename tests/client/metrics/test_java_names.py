"""Names, groups and tags of the metrics beside those of Java's clients: docs/metrics.md names each one left out."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from kohort import MetricName, blocking
from tests.interop.broker import Broker
from tests.interop.kafka import jars
from tests.test_documents import ROOT

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("kafka_tools")]


class Name(NamedTuple):
    """Name of a metric without the values of its tags."""

    group: str
    name: str
    tags: frozenset[str]


def java_names(bootstrap: str, topic: str, protocol: str) -> dict[str, set[Name]]:
    """Run Java's clients and return the names of their metrics, by client."""
    source = Path(__file__).with_name("ClientMetrics.java")
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*", str(source)]
    ran = subprocess.run(
        [*command, bootstrap, topic, f"java-{topic}", protocol],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, set[Name]] = {}
    for line in ran.stdout.splitlines():
        client, group, name, tags, *_ = line.split("\t")
        names = frozenset(tag.partition("=")[0] for tag in tags.strip("{}").split(", "))
        found.setdefault(client, set()).add(Name(group, name, names))
    return found


def names(metrics: Mapping[MetricName, object]) -> set[Name]:
    return {Name(name.group, name.name, frozenset(name.tags)) for name in metrics}


def our_names(bootstrap: str, topic: str, protocol: str) -> dict[str, set[Name]]:
    """Do as `ClientMetrics.java` does with Kohort's clients."""
    with (
        blocking.Producer(bootstrap_servers=bootstrap) as producer,
        blocking.Consumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=f"kohort-{topic}",
            group_protocol=protocol,
            auto_offset_reset="earliest",
        ) as consumer,
        blocking.Admin(bootstrap_servers=bootstrap) as admin,
    ):
        for _ in range(10):
            producer.send(topic, bytes(100)).result()
        read = 0
        while read < 10:
            read += len(consumer.poll())
        consumer.commit()
        admin.list_topics()
        return {
            "producer": names(producer.metrics()),
            "consumer": names(consumer.metrics()),
            "admin": names(admin.metrics()),
        }


def left_out() -> set[str]:
    section = (ROOT / "docs" / "metrics.md").read_text().partition("## Left out")[2]
    rows = re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_page_names_each_metric_of_java_that_is_left_out(
    kohort_broker: Broker, protocol: str, request: pytest.FixtureRequest
) -> None:
    topic = f"metrics-{protocol}"
    theirs = java_names(kohort_broker.bootstrap, topic, protocol)
    ours = our_names(kohort_broker.bootstrap, topic, protocol)
    assert theirs.keys() == ours.keys()
    documented = left_out()
    for client in theirs:
        assert {one for one in theirs[client] - ours[client] if one.name not in documented} == set()
        assert ours[client] - theirs[client] == set(), "Java has no such metric"
    everything = {one.name for names in ours.values() for one in names}
    assert documented & everything == set(), "the page names metrics that exist"
