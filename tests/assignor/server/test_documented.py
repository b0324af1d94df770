"""The assignor of docs/assignors.md is one that works."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kohort.assignor.server import TopicShape, find_server_assignor
from tests.assignor.server.groups import Group, moved, topic
from tests.test_documents import block_with


def test_the_assignor_of_the_documents_shares_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "documented_assignor.py").write_text(block_with("docs/assignors.md", "python", "class ByHash"))
    monkeypatch.syspath_prepend(tmp_path)
    group = Group(find_server_assignor("documented_assignor:ByHash"))
    monkeypatch.delitem(sys.modules, "documented_assignor")
    group.topics[topic(0)] = TopicShape(100, name="orders")
    group.plan.set_topic(topic(0), group.topics[topic(0)])
    for member_id in "abc":
        group.join(member_id, 0)
    group.update()
    group.check_complete()
    assert min(group.load().values()) > 20
    # A member that leaves moves only its own partitions.
    before = dict(group.targets)
    left = group.load()["b"]
    group.leave("b")
    group.update()
    group.check_complete()
    assert moved(before, group.targets) == left
