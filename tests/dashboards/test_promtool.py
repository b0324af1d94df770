"""The same files, judged by Prometheus' own tools and by a real server, where Debian's package `prometheus` is."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import pytest

from tests.dashboards.conftest import ALERTS, GROUP, Targets, dashboards, panels, read, replaced, rules
from tests.interop.process import ServerProcess, until

UNIT_TESTS = Path(__file__).with_name("alerts_test.yml")
MISSING = "is missing: install Debian's package `prometheus`, or unpack it and put its usr/bin on the PATH"
SCRAPES = 4


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} {MISSING}")
    return found


def promtool(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [program("promtool"), *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120)


# -- alert rules


def test_promtool_accepts_the_alert_rules() -> None:
    done = promtool("check", "rules", str(ALERTS))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules())} rules found" in done.stdout, "this test and Prometheus read the same rules"


def test_the_unit_tests_of_the_alert_rules_pass() -> None:
    done = promtool("test", "rules", str(UNIT_TESTS))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", [rule.name for rule in rules()])
def test_a_rule_that_never_fires_fails_its_unit_test(name: str, tmp_path: Path) -> None:
    text = ALERTS.read_text()
    place = text.index(f"alert: {name}\n")
    start = text.index("expr:", place)
    end = re.compile(r"^ {8}(for|labels):", re.MULTILINE).search(text, start)
    assert end is not None
    (tmp_path / "alerts.yml").write_text(f"{text[:start]}expr: vector(0) > 1\n{text[end.start() :]}")
    (tmp_path / "test.yml").write_text(UNIT_TESTS.read_text().replace("../../docs/dashboards/", ""))
    assert promtool("check", "rules", str(tmp_path / "alerts.yml")).returncode == 0
    done = promtool("test", "rules", str(tmp_path / "test.yml"))
    assert done.returncode != 0
    assert f'alertname="{name}"' in done.stdout + done.stderr


# -- scrapes


def test_promtool_finds_no_fault_in_real_scrapes_except_in_names_of_others(targets: Targets) -> None:
    for kind, text in targets.texts().items():
        done = promtool("check", "metrics", stdin=text)
        assert done.returncode in (0, 3), f"{kind} cannot be read: {done.stderr}"  # 3: there is advice
        advice = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("kafka_")]
        assert not advice, kind


# -- a real server


@pytest.fixture(scope="module")
def prometheus(targets: Targets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server that has scraped all targets several times."""
    server = program("prometheus")
    directory = tmp_path_factory.mktemp("prometheus")
    jobs = [
        {
            "job_name": kind,
            "metrics_path": urlsplit(url).path,
            # A label that Kubernetes gives, for the dashboard of kafka-lag-exporter.
            "static_configs": [{"targets": [urlsplit(url).netloc], "labels": {"namespace": "kafka"}}],
        }
        for kind, url in targets.urls.items()
    ]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": jobs,
    }
    (directory / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML, too
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    process = ServerProcess(
        [
            server,
            f"--config.file={directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address={address}",
        ]
    )
    try:
        process.wait_for("Server is ready to receive web requests", timeout=60)

        def scraped() -> bool:
            targets.work()
            counts = query(f"http://{address}", "sum by (job) (sum_over_time(up[5m]))")
            return len(counts) == len(jobs) and all(float(each["value"][1]) >= SCRAPES for each in counts)

        until(60, "scrapes of all targets", scraped)
        yield f"http://{address}"
    finally:
        process.kill()


def query(server: str, expression: str) -> list[dict[str, Any]]:
    with urlopen(f"{server}/api/v1/query?{urlencode({'query': expression})}", timeout=60) as answer:
        found = json.load(answer)
    assert found["status"] == "success", found
    result: list[dict[str, Any]] = found["data"]["result"]
    return result


@pytest.mark.parametrize("path", dashboards(), ids=lambda path: path.stem)
def test_prometheus_has_an_answer_for_every_panel(path: Path, prometheus: str) -> None:
    nothing = [
        (panel["title"], target["expr"])
        for panel in panels(read(path))
        for target in panel["targets"]
        if not query(prometheus, replaced(target["expr"]))
    ]
    # No partition is dark; and a slope over steps of ten seconds needs two of them.
    assert {title for title, _ in nothing} <= {"Dark now", "Records that arrive and that are committed"}, nothing


def test_prometheus_evaluates_every_alert_and_none_fires(prometheus: str) -> None:
    with urlopen(f"{prometheus}/api/v1/rules", timeout=60) as answer:
        found = [rule for group in json.load(answer)["data"]["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in found} == {rule.name for rule in rules()}
    assert not [(rule["name"], rule["lastError"]) for rule in found if rule.get("lastError")]
    assert not [rule["name"] for rule in found if rule["state"] == "firing"]


LAG_EXPORTER = 'namespace="kafka",cluster_name="{cluster}",group=~"billing"'
"""How the dashboard that kafka-lag-exporter publishes selects series, with its variables replaced."""


@pytest.mark.parametrize(
    "expression",
    [
        "kafka_consumergroup_group_max_lag_seconds{GROUP}",
        "kafka_consumergroup_group_lag_seconds{GROUP}",
        "kafka_consumergroup_group_max_lag{GROUP}",
        "max(kafka_consumergroup_group_lag_seconds{GROUP}) by (group)",
        "sum(kafka_consumergroup_group_offset{GROUP})",
        "sum((kafka_consumergroup_group_offset{GROUP} * 0)"
        " + on(namespace,cluster_name,topic,partition) kafka_partition_latest_offset{CLUSTER})",
    ],
)
def test_the_dashboard_of_kafka_lag_exporter_has_answers(expression: str, prometheus: str) -> None:
    (cluster,) = {each["metric"]["cluster_name"] for each in query(prometheus, "kohort_watch_groups")}
    group = LAG_EXPORTER.format(cluster=cluster)
    selected = group.rpartition(",")[0]
    assert query(prometheus, expression.replace("GROUP", group).replace("CLUSTER", selected))


@pytest.mark.parametrize(
    ("label", "value"),
    [("namespace", "kafka"), ("cluster_name", r"127\.0\.0\.1:\d+"), ("group", GROUP)],
)
def test_the_variables_of_that_dashboard_are_found_in_the_lag(label: str, value: str, prometheus: str) -> None:
    # Grafana writes each result of query_result as text, and takes the value out by a regular expression.
    for each in query(prometheus, "kafka_consumergroup_group_lag"):
        labels = ",".join(f'{name}="{text}"' for name, text in sorted(each["metric"].items()))
        found = re.match(rf'.*{label}="([^"]*).*', f"kafka_consumergroup_group_lag{{{labels}}}")
        assert found is not None
        assert re.fullmatch(value, found[1])
