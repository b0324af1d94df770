"""The example of a notebook: its cells, run one after the other as Jupyter runs them.

A kernel executes cells in a running event loop and awaits those that contain `await`. Python itself compiles such
cells, so the test needs neither a kernel nor the thirty packages that bring one.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from kohort import Admin, NewTopic
from tests.interop.broker import Broker

NOTEBOOK = Path(__file__).parent.parent.parent / "examples" / "notebook.ipynb"


async def run_cell(name: str, source: str, namespace: dict[str, Any]) -> object:
    """Run the statements of a cell; return the value of its last expression, which a notebook displays."""
    tree = ast.parse(source, name)
    *statements, last = tree.body
    if isinstance(last, ast.Expr):
        last = ast.Assign([ast.Name("_", ast.Store())], last.value)
    module = ast.fix_missing_locations(ast.Module([*statements, last], []))
    code = compile(module, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    namespace["_"] = None
    result = eval(code, namespace)
    if inspect.iscoroutine(result):
        await result
    return namespace["_"]


async def test_the_cells_of_the_notebook_run(any_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = f"notebook-{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv("KOHORT_BOOTSTRAP", any_broker.bootstrap)
    monkeypatch.setenv("TOPIC", topic)
    cells = {cell["id"]: cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"}
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells.values())
    shown: dict[str, Any] = {}
    async with Admin(bootstrap_servers=any_broker.bootstrap) as admin, asyncio.timeout(60):
        await admin.create_topics([NewTopic(topic, 2)])
        namespace: dict[str, Any] = {"__name__": "__main__"}
        for name, cell in cells.items():
            shown[name] = await run_cell(name, "".join(cell["source"]), namespace)
        committed = await admin.group_offsets("notebook")
        assert not (await admin.describe_groups(["notebook"]))["notebook"].members
    assert shown["read"] == {f"user-{number}": 143 if number < 6 else 142 for number in range(7)}
    state, assignment, lags = shown["state"]
    assert (state, len(assignment), set(lags.values())) == ("Stable", 2, {0})
    assert sum(offset.offset for partition, offset in committed.items() if offset and partition.topic == topic) == 1000
