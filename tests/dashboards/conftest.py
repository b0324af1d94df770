"""A broker with its page and its metrics, and clients that use it: what dashboards and alert rules are held to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.parser import text_string_to_metric_families as parse_text

from kohort import blocking
from kohort.prometheus import ClientCollector
from tests.interop.kohort import kohort
from tests.interop.process import ServerProcess

DASHBOARDS = Path(__file__).parents[2] / "docs" / "dashboards"
ALERTS = DASHBOARDS / "alerts.yml"
READY_S = 60.0
GROUP, TOPIC = "billing", "orders"

LAST = (
    "kohort_group_slowest_revoke_seconds",
    "kafka_consumergroup_group_lag_seconds",
    "kafka_partition_earliest_offset",
)
"""What the watcher shows last: the end of a rebalance, a lag, and a sample of the starts."""

Series = Mapping[str, set[frozenset[str]]]
"""Labels of the samples of each name; a name may have samples with different labels."""


@dataclass
class Targets:
    """What Prometheus scrapes: URLs of /metrics."""

    watcher: str
    broker: str
    clients: str
    producer: blocking.Producer
    consumers: tuple[blocking.Consumer, blocking.Consumer]

    def texts(self) -> dict[str, str]:
        """One scrape of each."""
        return {kind: text_of(url) for kind, url in self.urls.items()}

    @property
    def urls(self) -> dict[str, str]:
        return {"watcher": self.watcher, "broker": self.broker, "clients": self.clients}

    def work(self) -> None:
        """Produce a record, and read and commit what there is."""
        self.producer.send(TOPIC, b"value").result()
        for consumer in self.consumers:
            consumer.poll(timeout=0.1)
            consumer.commit()


def text_of(url: str) -> str:
    with urlopen(Request(url, headers={"Accept": "text/plain"}), timeout=60) as answer:
        text: str = answer.read().decode()
    return text


def series_of(text: str) -> dict[str, set[frozenset[str]]]:
    found: dict[str, set[frozenset[str]]] = {}
    for family in parse_text(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).add(frozenset(sample.labels))
    return found


@pytest.fixture(scope="session")
def targets() -> Iterator[Targets]:
    """Two consumers of which one gave up partitions to the other, a producer, and their broker with its page."""
    arguments = ("--listen", "127.0.0.1:0", "--memory", "--web", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
    process = ServerProcess(kohort("broker", *arguments, "--set", "num.partitions=4"))
    try:
        servers = process.wait_for(r"^ready (\d\S+)$", timeout=READY_S)[1]
        page = process.wait_for(r"^ready (http\S+)$", timeout=READY_S)[1]
        own = process.wait_for(r"metrics at (http\S+)$", timeout=READY_S)[1]
        with (
            blocking.Producer(bootstrap_servers=servers, client_id="shop") as producer,
            consumer(servers, "a") as first,
        ):
            for _ in range(8):
                producer.send(TOPIC, b"value").result()
            while not first.poll(timeout=1):
                pass
            first.commit()
            with consumer(servers, "b") as second:
                while not second.assignment:
                    first.poll(timeout=0.1)
                    second.poll(timeout=0.1)
                registry = CollectorRegistry()
                registry.register(ClientCollector(producer, first, second))
                server, thread = start_http_server(0, "127.0.0.1", registry)
                clients = f"http://127.0.0.1:{server.server_port}/metrics"
                found = Targets(f"{page}/metrics", own, clients, producer, (first, second))
                while any(f"{name}{{" not in text_of(found.watcher) for name in LAST):
                    found.work()
                yield found
                server.shutdown()
                server.server_close()
                thread.join()
    finally:
        process.kill()


def consumer(servers: str, name: str) -> blocking.Consumer:
    return blocking.Consumer(
        TOPIC,
        bootstrap_servers=servers,
        client_id=name,
        group_id=GROUP,
        group_protocol="consumer",
        auto_offset_reset="earliest",
    )


@pytest.fixture(scope="session")
def series(targets: Targets) -> Series:
    """The series of all real scrapes."""
    found: dict[str, set[frozenset[str]]] = {}
    for text in targets.texts().values():
        for name, labels in series_of(text).items():
            found.setdefault(name, set()).update(labels)
    return found


# -- what the files ask


def dashboards() -> list[Path]:
    return sorted(DASHBOARDS.glob("*.json"))


def read(path: Path) -> dict[str, Any]:
    board: dict[str, Any] = json.loads(path.read_text())
    return board


def panels(board: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The panels that show something."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def replaced(expression: str) -> str:
    """Replace Grafana's variables as Grafana does, with all values selected."""
    return re.sub(r"\$\w+", ".*", expression.replace("$__rate_interval", "1m"))


@dataclass(frozen=True)
class Rule:
    """An alert rule, as far as it is read here."""

    name: str
    expression: str
    text: str


def rules() -> list[Rule]:
    """The rules of alerts.yml. The environment has no YAML parser, and needs none for these keys."""
    found = []
    for text in re.split(r"^ *- alert: ", ALERTS.read_text(), flags=re.MULTILINE)[1:]:
        name = text.partition("\n")[0].strip()
        expression = re.search(r"^ +expr: (?:>-\n((?: {10,}.*\n)+)|(.*)\n)", text, flags=re.MULTILINE)
        assert expression is not None, f"{name} has no expression"
        found.append(Rule(name, " ".join((expression[1] or expression[2]).split()), text))
    return found
