"""The dashboards and alert rules of docs/dashboards/: whatever they ask for exists in real scrapes."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.dashboards.conftest import DASHBOARDS, Rule, Series, dashboards, panels, read, replaced, rules
from tests.dashboards.promql import asked

OF_TARGETS = {"instance", "job"}
"""Labels that Prometheus gives to all series of a target."""
_LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)")
BOARDS = pytest.mark.parametrize("path", dashboards(), ids=lambda path: path.stem)


def labels_of(name: str, series: Series) -> set[str]:
    """All labels that the series has. An error of an unknown name says what is close to it."""
    assert name in series, f"no scrape has {name}"
    return set().union(*series[name]) | OF_TARGETS


def check(expression: str, series: Series) -> set[str]:
    """Assert that everything exists for which an expression asks, and return the labels of its result."""
    found = asked(replaced(expression))
    assert found.series, f"{expression} asks for nothing"
    every: set[str] = set()
    for name, matched in found.names(set(series)):
        labels = labels_of(name, series)
        assert matched <= labels, f"{name} has no label {matched - labels}"
        every |= labels
    assert found.labels <= every, f"{expression}: no series has {found.labels - every}"
    return every if found.grouped is None else found.grouped


@BOARDS
def test_every_series_and_label_of_a_dashboard_exists(path: Path, series: Series) -> None:
    for panel in panels(read(path)):
        for target in panel["targets"]:
            labels = check(target["expr"], series)
            shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert shown <= labels, f"{panel['title']}: the legend shows {shown - labels}, which the result lacks"


@BOARDS
def test_every_variable_of_a_dashboard_has_values(path: Path, series: Series) -> None:
    board = read(path)
    source, *variables = board["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    for variable in variables:
        query = _LABEL_VALUES.fullmatch(variable["query"]["query"])
        assert query is not None
        assert query[2] in check(query[1], series)
    names = {variable["name"] for variable in board["templating"]["list"]}
    text = path.read_text()
    used = set(re.findall(r"\$\{?(\w+)", text)) - {"__rate_interval", "__all"}
    assert used == names, "each variable is used, and each use is a variable"


def test_the_dashboard_of_groups_selects_groups_and_topics() -> None:
    names = {variable["name"] for variable in read(DASHBOARDS / "groups.json")["templating"]["list"]}
    assert names == {"datasource", "cluster", "group", "topic"}


@BOARDS
def test_a_dashboard_can_be_imported(path: Path) -> None:
    board = read(path)
    assert board["id"] is None, "Grafana gives the number"
    assert board["uid"] == f"kohort-{path.stem}"
    assert board["schemaVersion"] >= 36
    assert board["title"] and board["description"]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in panels(board):
        assert panel["title"] and panel["description"], panel["id"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])
        assert panel["fieldConfig"]["defaults"]["unit"]
    for one, other in combinations(board["panels"], 2):
        assert not overlap(one["gridPos"], other["gridPos"]), (one["title"], other["title"])


def overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    assert one["x"] + one["w"] <= 24
    beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
    below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    return not beside and not below


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.name)
def test_every_series_and_label_of_an_alert_exists_and_the_alert_says_what_to_do(rule: Rule, series: Series) -> None:
    labels = check(rule.expression, series)
    annotations = dict(re.findall(r"^ {10}(\w+): (.+)$", rule.text, flags=re.MULTILINE))
    assert {"summary", "description", "what_to_do"} == annotations.keys() - {"severity"}
    assert annotations["severity"] in ("critical", "warning", "info")
    used = set(re.findall(r"\$labels\.(\w+)", rule.text))
    assert used <= labels, f"the texts name {used - labels}, which the result lacks"


def test_our_own_series_are_all_on_a_dashboard_or_in_an_alert(series: Series) -> None:
    expressions = [target["expr"] for path in dashboards() for p in panels(read(path)) for target in p["targets"]]
    expressions += [rule.expression for rule in rules()]
    names = (name for expression in expressions for name, _ in asked(replaced(expression)).names(set(series)))
    shown = {family(name) for name in names}
    ours = {family(name) for name in series if name.startswith("kohort_")}
    assert ours <= shown, f"nobody looks at {sorted(ours - shown)}"


def family(name: str) -> str:
    """The histogram of a series, or its own name."""
    return re.sub(r"_(bucket|sum|count)$", "", name)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("kohort_group_epochs", "no scrape has kohort_group_epochs"),
        ('kohort_group_epoch{topic="x"}', "kohort_group_epoch has no label"),
        ("sum by (client) (kohort_group_epoch)", "no series has"),
    ],
)
def test_a_name_that_does_not_exist_is_found(expression: str, message: str, series: Series) -> None:
    with pytest.raises(AssertionError, match=message):
        check(expression, series)
