"""The metrics of several brokers in one exposition."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kohort.broker.metrics.of_cluster import together
from kohort.exposition import Exemplar, Exposition, Histogram, labels


def exposition(value: int, node_id: int) -> str:
    text = Exposition(openmetrics=True)
    text.gauge("info", "Node.").add(labels(node_id=node_id), 1)
    text.gauge("plain", "No labels.").add("", value)
    text.counter("requests", "By name.").add(labels(name='a {b} "c" d'), value, Exemplar('at="x"', 1.0, 1.0))
    histogram = Histogram((1.0,))
    histogram.observe(0.5)
    text.histogram("seconds", "Time.").add_histogram("", histogram)
    if node_id == 2:
        text.gauge("rare", "Only of one broker.").add("", value)
    return text.part().decode()


def test_each_family_is_there_once_and_each_sample_has_its_broker() -> None:
    body = together([(1, exposition(10, 1)), (2, exposition(20, 2))]) + b"# EOF\n"
    parse: Callable[[str], Iterable[Metric]] = text_string_to_metric_families
    families = list(parse(body.decode()))
    assert [family.name for family in families] == ["info", "plain", "requests", "seconds", "rare"]
    samples = {
        (sample.name, sample.labels["node_id"]): sample
        for family in families
        for sample in family.samples
        if sample.labels.get("le") != "+Inf"
    }
    assert {node: samples["plain", node].value for node in "12"} == {"1": 10, "2": 20}
    assert {node: samples["info", node].value for node in "12"} == {"1": 1, "2": 1}
    assert samples["requests_total", "2"].labels == {"node_id": "2", "name": 'a {b} "c" d'}
    assert samples["requests_total", "1"].exemplar is not None
    assert {samples["seconds_bucket", node].labels["le"] for node in "12"} == {"1.0"}
    assert ("rare", "1") not in samples and samples["rare", "2"].value == 20


def test_nothing_is_made_of_no_answers() -> None:
    assert together([]) == b""
