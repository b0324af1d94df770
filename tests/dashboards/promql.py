"""What a PromQL expression asks for: series with their labels, and the labels by which it groups and joins.

It does not evaluate anything: where Prometheus is installed, Prometheus itself does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[a-zA-Z_:][\w:]*|\d[\w.]*|[=!]~|!=|==|>=|<=|\S')
_NAME = re.compile(r"[a-zA-Z_:][\w:]*")
_LISTS = {"by", "without", "on", "ignoring", "group_left", "group_right"}
_WORDS = _LISTS | {"and", "or", "unless", "offset", "bool"}
_AFTER_FUNCTIONS = ("(", "by", "without")


@dataclass
class Asked:
    """What one expression asks for."""

    series: list[tuple[str, set[str]]] = field(default_factory=list)
    """Name of each selector, or a regular expression of names in slashes; and the labels of its matchers."""
    grouped: set[str] | None = None
    """Labels that the outermost `by` keeps; None if the expression does not begin with an aggregation by labels."""
    labels: set[str] = field(default_factory=set)
    """All labels by which it groups and joins."""

    def names(self, known: set[str]) -> Iterator[tuple[str, set[str]]]:
        """The selectors, with names that are a regular expression replaced by the known ones; at least one each."""
        for name, labels in self.series:
            if not name.startswith("/"):
                yield name, labels
                continue
            for each in name.strip("/").split("|"):  # every alternative must exist
                found = [one for one in known if re.fullmatch(each, one)]
                assert found, f"no series {each}"
                for one in found:
                    yield one, labels


def asked(expression: str) -> Asked:
    """Read an expression, whose variables are replaced."""
    found = Asked()
    tokens = _TOKEN.findall(expression)
    place = 0
    while place < len(tokens):
        token = tokens[place]
        following = tokens[place + 1] if place + 1 < len(tokens) else ""
        if token in _LISTS and following == "(":
            end = tokens.index(")", place)
            labels = {each for each in tokens[place + 2 : end] if each != ","}
            found.labels |= labels
            if token == "by" and found.grouped is None:
                found.grouped = labels
            place = end + 1
        elif token == "[":
            place = tokens.index("]", place) + 1
        elif token == "{" or (_NAME.fullmatch(token) and following not in _AFTER_FUNCTIONS and token not in _WORDS):
            name = "" if token == "{" else token
            labels = set()
            start = place if token == "{" else place + 1
            place += 1
            if start < len(tokens) and tokens[start] == "{":
                end = tokens.index("}", start)
                matchers = tokens[start + 1 : end]
                for label, operator, value in zip(matchers[::4], matchers[1::4], matchers[2::4], strict=True):
                    if label != "__name__":
                        labels.add(label)
                    else:
                        name = _alternatives(value[1:-1]) if operator == "=~" else value[1:-1]
                place = end + 1
            found.series.append((name, labels))
        else:
            place += 1
    return found


def _alternatives(pattern: str) -> str:
    """Write a regular expression of names with its groups multiplied out: `a_(b|c)` becomes /a_b|a_c/."""
    group = re.search(r"\(([^()]*)\)", pattern)
    if group is None:
        return f"/{pattern}/"
    parts = [pattern[: group.start()] + each + pattern[group.end() :] for each in group[1].split("|")]
    return "/" + "|".join(_alternatives(part).strip("/") for part in parts) + "/"
