"""Text for Prometheus and OpenMetrics, read back with the parsers of prometheus_client."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from kohort.exposition import MOST_CHARACTERS, Exemplar, Exposition, Histogram, labels, wants_openmetrics


def parsed(text: Exposition) -> dict[str, Metric]:
    parse = parse_openmetrics if text.openmetrics else parse_text
    return {metric.name: metric for metric in parse(text.body().decode())}


@pytest.mark.parametrize("openmetrics", [False, True])
@given(value=st.text())
@example('a\\n"b\nc')
@example("\r\x00\x85\u2028")
def test_label_values_survive(value: str, *, openmetrics: bool) -> None:
    text = Exposition(openmetrics=openmetrics)
    text.gauge("members", "Members.").add(labels(group=value), 3)
    (sample,) = parsed(text)["members"].samples
    assert (sample.labels["group"], sample.value) == (value, 3)


def test_names_that_are_not_utf_8_still_differ() -> None:
    text = Exposition(openmetrics=True)
    family = text.gauge("members", "Members.")
    for client in (b"\xff", b"\xfe"):
        family.add(labels(client=client.decode("utf-8", "surrogateescape")), 3)
    shown = {sample.labels["client"] for sample in parsed(text)["members"].samples}
    assert len(shown) == 2
    assert all("\ufffd" in client for client in shown)


def test_long_label_values_are_cut_and_still_differ() -> None:
    text = Exposition(openmetrics=False)
    family = text.gauge("members", "Members.")
    for end in "ab":
        family.add(labels(group="g" * 30_000 + end), 1)
    shown = [sample.labels["group"] for sample in parsed(text)["members"].samples]
    assert len(set(shown)) == 2
    assert max(map(len, shown)) <= MOST_CHARACTERS


@pytest.mark.parametrize("openmetrics", [False, True])
def test_a_counter_has_one_name_in_both_formats(*, openmetrics: bool) -> None:
    text = Exposition(openmetrics=openmetrics)
    text.counter("moves", "Moves.").add(labels(group="g"), 7, Exemplar('generation="4"', 1, 1_700_000_000.5))
    metric = parsed(text)["moves"]
    assert (metric.type, metric.samples[0].name, metric.samples[0].value) == ("counter", "moves_total", 7)
    exemplar = metric.samples[0].exemplar
    assert (exemplar is not None) is openmetrics
    if exemplar is not None:
        assert exemplar.timestamp is not None
        assert (exemplar.labels, exemplar.value, float(exemplar.timestamp)) == ({"generation": "4"}, 1, 1_700_000_000.5)


@pytest.mark.parametrize("openmetrics", [False, True])
def test_buckets_of_a_histogram_add_up(*, openmetrics: bool) -> None:
    histogram = Histogram((0.1, 1.0))
    for value in (0.1, 0.5, 7):
        histogram.observe(value, Exemplar('generation="4"', value, 1_700_000_000.0))
    text = Exposition(openmetrics=openmetrics)
    text.histogram("seconds", "Seconds.").add_histogram(labels(group="g"), histogram)
    samples = parsed(text)["seconds"].samples
    assert [(sample.labels.get("le"), sample.value) for sample in samples] == [
        ("0.1", 1),
        ("1.0", 2),
        ("+Inf", 3),
        (None, 7.6),
        (None, 3),
    ]
    assert [sample.exemplar is not None for sample in samples] == [openmetrics] * 3 + [False, False]


@pytest.mark.parametrize("openmetrics", [False, True])
def test_samples_without_labels_and_with_special_values(*, openmetrics: bool) -> None:
    text = Exposition(openmetrics=openmetrics)
    special = text.gauge("special", "Values.")
    for number, value in enumerate((float("nan"), float("inf"), float("-inf"), 1e-9)):
        special.add(labels(number=number), value)
    text.gauge("plain", "A value.").add("", 1)
    metrics = parsed(text)
    assert [str(sample.value) for sample in metrics["special"].samples] == ["nan", "inf", "-inf", "1e-09"]
    assert metrics["plain"].samples[0].value == 1


@pytest.mark.parametrize("openmetrics", [False, True])
def test_one_scrape_has_the_metrics_of_several_parts(*, openmetrics: bool) -> None:
    part, text = Exposition(openmetrics=openmetrics), Exposition(openmetrics=openmetrics)
    part.gauge("other", "Another value.").add("", 2)
    text.gauge("plain", "A value.").add("", 1)
    body = text.body(part.part())
    parse = parse_openmetrics if openmetrics else parse_text
    assert [metric.name for metric in parse(body.decode())] == ["plain", "other"]
    assert body.count(b"# EOF\n") == openmetrics


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False),
        ("*/*", False),
        ("text/html, */*;q=0.1", False),
        ("text/plain;version=0.0.4", False),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
         "text/plain;version=0.0.4;q=0.5,*/*;q=0.1", True),
        ("application/openmetrics-text;q=0.3, text/plain;q=0.5", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=nonsense", False),
        ("APPLICATION/OpenMetrics-Text ; Q=1", True),
    ],
)  # fmt: skip
def test_the_format_is_the_one_that_the_client_prefers(accept: str, wanted: bool) -> None:
    assert wants_openmetrics(accept) is wanted
