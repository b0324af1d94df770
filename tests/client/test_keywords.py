"""Keyword arguments that a static type checker knows: the same options as at run time, and errors for others."""

from __future__ import annotations

import re
import subprocess
import sys
from inspect import signature
from pathlib import Path
from typing import get_type_hints

import pytest

from kohort import Admin, Cluster, Consumer, Membership, Producer, blocking
from kohort.client import (
    AdminKeywords,
    AdminOptions,
    ClientKeywords,
    ClientOptions,
    ConsumerKeywords,
    ConsumerOptions,
    GroupOptions,
    MembershipKeywords,
    ProducerKeywords,
    ProducerOptions,
)
from kohort.security import Secret
from tests.test_client_documents import generator

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
import kohort
from kohort import blocking

async def program(cluster: kohort.Cluster) -> None:
    kohort.Consumer("orders", bootstrap_servers="a:1", group_id="g", max_poll_records=10, fetch_max_wait_ms=5)
    kohort.Consumer("orders", bootstrap_servers="a:1", grup_id="g")  # wrong: grup_id
    kohort.Consumer("orders", bootstrap_servers="a:1", max_poll_records="many")  # wrong: max_poll_records
    kohort.Consumer("orders", group_id="g")  # wrong: bootstrap_servers
    kohort.Producer(bootstrap_servers=["a:1", "b:1"], acks=1, linger_ms=5)
    kohort.Producer(bootstrap_servers="a:1", linger=5)  # wrong: linger
    kohort.Producer(bootstrap_servers="a:1", enable_idempotence="no")  # wrong: enable_idempotence
    kohort.Admin(bootstrap_servers="a:1", client_id="operator")
    kohort.Admin(bootstrap_servers="a:1", group_id="g")  # wrong: group_id
    kohort.Cluster.of("a:1", client_id=7)  # wrong: client_id
    await kohort.Membership.join(cluster, "g", ["orders"], {"group_protocol": "consumer"})
    await kohort.Membership.join(cluster, "g", ["orders"], {"group_protocoll": "consumer"})  # wrong: MembershipKeywords
    await kohort.Membership.join(cluster, "g", ["orders"], {"client_rack": 1})  # wrong: MembershipKeywords

def threads() -> None:
    blocking.Consumer("orders", bootstrap_servers="a:1", isolation_level="read_committed")
    blocking.Consumer("orders", bootstrap_servers="a:1", isolation="read_committed")  # wrong: isolation
    blocking.Producer(bootstrap_servers="a:1", batch_size="1k")  # wrong: batch_size
    blocking.Admin(bootstrap_servers="a:1", timeout=5)  # wrong: timeout
"""


@pytest.mark.parametrize(
    ("keywords", "options", "arguments"),
    [
        (ClientKeywords, ClientOptions, {"bootstrap_servers"}),
        (MembershipKeywords, GroupOptions, {"bootstrap_servers", "group_id"}),
        (ConsumerKeywords, ConsumerOptions, set()),
        (ProducerKeywords, ProducerOptions, set()),
        (AdminKeywords, AdminOptions, set()),
    ],
)
def test_keywords_have_the_names_and_types_of_the_options(keywords: type, options: type, arguments: set[str]) -> None:
    # A secret may be given as text.
    expected = {
        name: str | kind if kind == Secret | None else kind
        for name, kind in get_type_hints(options).items()
        if name not in arguments
    }
    assert get_type_hints(keywords) == expected


@pytest.mark.parametrize(
    ("made", "parameter", "keywords"),
    [
        (Consumer.__init__, "options", ConsumerKeywords),
        (Producer.__init__, "options", ProducerKeywords),
        (Admin.__init__, "options", AdminKeywords),
        (blocking.Consumer.__init__, "options", ConsumerKeywords),
        (blocking.Producer.__init__, "options", ProducerKeywords),
        (blocking.Admin.__init__, "options", AdminKeywords),
        (Cluster.of, "options", ClientKeywords),
        (Membership.join, "options", MembershipKeywords),
    ],
)
def test_each_class_names_its_keywords(made: object, parameter: str, keywords: type) -> None:
    assert callable(made)
    assert keywords.__name__ in str(signature(made).parameters[parameter].annotation)


@pytest.mark.parametrize("options", [ConsumerOptions, ProducerOptions, AdminOptions])
def test_every_option_has_a_description(options: type[ClientOptions]) -> None:
    described = generator().describe_options(options)
    assert described.keys() == get_type_hints(options).keys()
    assert [name for name, (_, text) in described.items() if not text.endswith(".")] == []


def test_mypy_reports_wrong_options_where_they_are(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    cache = ROOT / ".mypy_cache"
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(cache)]
    run = subprocess.run([*command, str(program)], capture_output=True, text=True, timeout=110, cwd=ROOT)
    reported = {int(line): text for line, text in re.findall(r"program\.py:(\d+): error: (.*)", run.stdout)}
    wrong = {n: line for n, line in enumerate(PROGRAM.splitlines(), start=1) if "# wrong: " in line}
    assert reported.keys() == wrong.keys(), run.stdout + run.stderr
    for number, line in wrong.items():
        assert re.search(rf'"{line.rpartition("# wrong: ")[2]}\b', reported[number])
