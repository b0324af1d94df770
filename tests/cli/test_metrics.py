"""`/metrics` of brokers and clusters as processes: the endpoints of `--metrics`, and those of the page of `--web`."""

from __future__ import annotations

import re
from urllib.request import Request, urlopen

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Sample

from tests.cli.conftest import Run
from tests.cli.test_watch_page import READY_S, consumed, emptied, started
from tests.interop.kohort import kohort
from tests.interop.process import ServerProcess, until

OPENMETRICS = pytest.mark.parametrize("openmetrics", [False, True])


def scraped(url: str, *, openmetrics: bool = False) -> list[Sample]:
    """Scrape as Prometheus does. Families and series must not repeat."""
    accept = "application/openmetrics-text" if openmetrics else "text/plain"
    with urlopen(Request(url, headers={"Accept": accept}), timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith(accept)
        body = answer.read().decode()
    families = list((parse_openmetrics if openmetrics else parse_text)(body))
    assert len({family.name for family in families}) == len(families)
    return [sample for family in families for sample in family.samples]


def value(samples: list[Sample], name: str, **labels: str) -> float:
    (found,) = (s.value for s in samples if s.name == name and labels.items() <= s.labels.items())
    return found


@OPENMETRICS
def test_the_page_of_a_broker_shows_its_groups_and_the_broker_itself(run: Run, name: str, *, openmetrics: bool) -> None:
    with started("broker", "--listen", "127.0.0.1:0", "--memory", "--web", "127.0.0.1:0") as (at, url, _):
        consumed(run, at, name)
        emptied(url, name)
        samples: list[Sample] = []

        def lag_is_known() -> bool:  # ends are sampled once a second
            samples[:] = scraped(f"{url}/metrics", openmetrics=openmetrics)
            return any(s.name == "kafka_consumergroup_group_sum_lag" and s.labels["group"] == name for s in samples)

        until(READY_S, "a scrape with the lag of the group", lag_is_known)
    assert value(samples, "kohort_group_state", group=name, state="Empty", cluster_name=at) == 1
    assert value(samples, "kafka_consumergroup_group_sum_lag", group=name) == 0
    assert value(samples, "kohort_broker_info", node_id="1") == 1
    assert value(samples, "kafka_network_requestmetrics_requests_total", request="LeaveGroup") == 1
    assert value(samples, "process_cpu_seconds_total") > 0


def test_the_page_of_a_cluster_shows_its_groups(run: Run, name: str) -> None:
    with started("cluster", "--brokers", "2", "--web", "127.0.0.1:0") as (at, url, _):
        consumed(run, at, name)
        emptied(url, name)
        samples = scraped(f"{url}/metrics")
    assert value(samples, "kohort_group_state", group=name, state="Empty", cluster_name=at) == 1


@OPENMETRICS
def test_a_broker_serves_its_metrics(run: Run, name: str, *, openmetrics: bool) -> None:
    process = ServerProcess(kohort("broker", "--listen", "127.0.0.1:0", "--memory", "--metrics", "127.0.0.1:0"))
    try:
        at = process.wait_for(r"^ready (\d\S+)$", timeout=READY_S)[1]
        url = process.wait_for(r"metrics at (http\S+)$", timeout=READY_S)[1]
        consumed(run, at, name)
        samples = scraped(url, openmetrics=openmetrics)
    finally:
        process.kill()
    assert value(samples, "kafka_network_requestmetrics_requests_total", request="JoinGroup") >= 1
    assert value(samples, "kohort_broker_info", node_id="1") == 1


def test_each_broker_of_a_cluster_serves_its_own_metrics(run: Run, name: str) -> None:
    ports = ("--metrics", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
    process = ServerProcess(kohort("cluster", "--brokers", "2", *ports))
    try:
        at = process.wait_for(r"^ready (\d\S+)$", timeout=READY_S)[1]
        urls = re.findall(r"metrics at (http\S+)$", process.output(), re.MULTILINE)
        consumed(run, at, name)
        brokers = [scraped(url) for url in urls]
    finally:
        process.kill()
    assert {s.labels["node_id"] for samples in brokers for s in samples if s.name == "kohort_broker_info"} == {"1", "2"}
    joins = [
        s.value
        for samples in brokers
        for s in samples
        if s.name == "kafka_network_requestmetrics_requests_total" and s.labels["request"] == "JoinGroup"
    ]
    assert len(joins) == 1, "only the coordinator of the group is asked to let a member in"
