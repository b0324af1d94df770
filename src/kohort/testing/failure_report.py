"""What the report of a failing test shows of its brokers: rebalances, last requests, and pictures as files."""

import tempfile
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from kohort.errors import KohortError
from kohort.testing.workspace import Workspace

if TYPE_CHECKING:
    import pytest

_WIDTH = 140


def sections(workspace: Workspace, config: "pytest.Config") -> list[tuple[str, str]]:
    """Return titles and texts for the report."""
    try:
        found = [("kohort: rebalances", _rebalances(workspace)), ("kohort: last requests", workspace.last_requests)]
        if workspace.rebalances:
            found.append(("kohort: partitions over time", _pictures(workspace, config)))
    except KohortError as error:
        return [("kohort", str(error))]
    return [(title, text) for title, text in found if text]


def _rebalances(workspace: Workspace) -> str:
    from rich.console import Console

    from kohort.recorder.views import rebalances_table, summary

    records = workspace.rebalances
    if not records:
        return ""
    text = StringIO()
    console = Console(file=text, width=_WIDTH, no_color=True, markup=False, emoji=False)
    console.print(rebalances_table(records))
    console.print(summary(records))
    return text.getvalue()


def _pictures(workspace: Workspace, config: "pytest.Config") -> str:
    cache = getattr(config, "cache", None)
    place = Path(tempfile.mkdtemp(prefix="kohort-")) if cache is None else cache.mkdir("kohort")
    try:
        return "\n".join(str(file) for file in workspace.draw(place))
    except KohortError as error:
        return f"There is no picture. {error}"
