"""`/metrics` of brokers and clusters as processes: the endpoints of `--metrics`, and those of the page of `--web`."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
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


def pid_of_broker(cluster: ServerProcess, node_id: int) -> int:
    """The process of one broker of a cluster."""
    wanted = f"--node-id\0{node_id}\0".encode()
    children = Path(f"/proc/{cluster.pid}/task/{cluster.pid}/children").read_text().split()
    (found,) = (int(pid) for pid in children if wanted in Path(f"/proc/{pid}/cmdline").read_bytes())
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


@OPENMETRICS
def test_the_page_of_a_cluster_shows_its_groups_and_its_brokers(run: Run, name: str, *, openmetrics: bool) -> None:
    with started("cluster", "--brokers", "2", "--web", "127.0.0.1:0") as (at, url, _):
        consumed(run, at, name)
        emptied(url, name)
        samples = scraped(f"{url}/metrics", openmetrics=openmetrics)
    assert value(samples, "kohort_group_state", group=name, state="Empty", cluster_name=at) == 1
    brokers = {"1", "2"}
    for family in ("kohort_broker_info", "process_cpu_seconds_total", "kohort_broker_sync_seconds_count"):
        assert {s.labels["node_id"] for s in samples if s.name == family} == brokers, family
    joins = [
        s
        for s in samples
        if s.name == "kafka_network_requestmetrics_requests_total" and s.labels["request"] == "JoinGroup"
    ]
    assert len(joins) == 1, "only the coordinator of the group is asked to let a member in"
    assert joins[0].labels["node_id"] in brokers


def test_the_page_of_a_cluster_says_which_broker_is_missing_from_its_metrics() -> None:
    with started("cluster", "--brokers", "2", "--web", "127.0.0.1:0") as (_, url, process):
        assert {s.labels["node_id"] for s in scraped(f"{url}/metrics") if s.name == "kohort_broker_info"} == {"1", "2"}
        os.kill(pid_of_broker(process, 2), signal.SIGKILL)
        process.wait_for(r"broker 2 .* ended", timeout=READY_S)
        samples = scraped(f"{url}/metrics")
        assert {s.labels["node_id"] for s in samples if s.name == "kohort_broker_info"} == {"1"}
        process.wait_for(r"without the metrics of broker 2 until it answers", timeout=READY_S)


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
