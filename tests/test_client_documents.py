"""The client's pages: made from the docstrings as they are now, and with programs that run."""

from __future__ import annotations

import importlib.util
import inspect
import re
import subprocess
import sys
import uuid
from pathlib import Path
from types import ModuleType

import pytest

import kohort.client
from kohort.blocking import Producer
from kohort.broker.config.broker_settings import SETTINGS
from kohort.broker.config.groups import GROUP_SETTINGS
from kohort.broker.config.topics import TOPIC_SETTINGS
from kohort.watch.findings import KINDS
from tests.interop.broker import Broker
from tests.test_documents import ROOT, blocks


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["consumer", "producer", "admin"])
def test_each_page_matches_the_docstrings(name: str) -> None:
    written = (ROOT / "docs" / "api" / f"{name}.md").read_text()
    assert written == generator().page(name), "run: python docs/generate.py"


def test_the_page_of_values_and_errors_matches_the_docstrings() -> None:
    written = (ROOT / "docs" / "api" / "values.md").read_text()
    assert written == generator().values_page(), "run: python docs/generate.py"


def test_the_page_of_the_schema_registry_matches_the_docstrings() -> None:
    written = (ROOT / "docs" / "api" / "schema-registry.md").read_text()
    assert written == generator().schema_registry_page(), "run: python docs/generate.py"


def test_the_page_of_metrics_matches_the_code() -> None:
    written = (ROOT / "docs" / "api" / "metrics.md").read_text()
    assert written == generator().metrics_page(), "run: python docs/generate.py"


def test_every_argument_of_a_public_method_has_a_line() -> None:
    # The blocking clients take the same arguments, so their docstrings refer to those of asyncio.
    arguments, left_out = generator().arguments, []
    for name in ("Consumer", "Producer", "Admin"):
        asyncio_face, blocking_face = getattr(kohort, name), getattr(kohort.blocking, name)
        for face in (asyncio_face, blocking_face):
            for member, function in inspect.getmembers(face, inspect.isfunction):
                if member != "__init__" and (member.startswith("_") or member in generator().NOT_FOR_APPLICATIONS):
                    continue
                given = list(inspect.signature(function).parameters)[1:]
                described = arguments(getattr(asyncio_face, member, None)) | arguments(function)
                left_out += [f"{face.__module__} {member} {one}" for one in given if one not in described]
                assert [one for one in arguments(function) if one not in given] == [], member
    assert left_out == [], "add a line for each to the end of the docstring"


def test_an_arguments_line_is_a_sentence() -> None:
    for kind in (kohort.Consumer, kohort.Producer, kohort.Admin):
        for member, function in inspect.getmembers(kind, inspect.isfunction):
            for name, text in generator().arguments(function).items():
                assert text[0].isupper() and text.endswith("."), (member, name)


def test_every_name_of_the_client_is_exported_at_the_top() -> None:
    assert set(kohort.__all__) == set(kohort.client.__all__)


def test_the_page_of_settings_matches_the_code() -> None:
    written = (ROOT / "docs" / "configuration.md").read_text()
    assert written == generator().configuration_page(), "run: python docs/generate.py"
    names = {*SETTINGS, *TOPIC_SETTINGS, *GROUP_SETTINGS}
    assert names <= set(re.findall(r"`([a-z0-9.]+)`", written))


def test_every_method_of_a_page_is_documented() -> None:
    for name in ("consumer", "producer", "admin"):
        sections = generator().page(name).partition("## Options")[0].split("\n### ")[1:]
        assert [section for section in sections if not section.partition("\n")[2].strip()] == []


PAGES = ("docs/coming-from.md", "docs/client.md", "docs/transactions.md", "docs/metrics.md", "docs/traces.md")
PROGRAMS = [text for page in PAGES for text in blocks(page, "python")]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_the_programs_of_the_pages_run(any_broker: Broker, tmp_path: Path, number: int) -> None:
    text = PROGRAMS[number]
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        if "RecordDeserializationError" in text:
            producer.send(topic, b"no JSON").result()
        producer.send(topic, b'{"id": 0}').result()
    program = tmp_path / "program.py"
    program.write_text(text.replace("127.0.0.1:9092", any_broker.bootstrap).replace('"orders', f'"{topic}'))
    run = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout


def test_the_package_is_typed() -> None:
    assert (ROOT / "src" / "kohort" / "py.typed").exists()


def test_the_watchers_page_serves_the_document_of_findings() -> None:
    made = generator()
    assert made.FINDINGS.read_text() == made.findings_page(), "run: python docs/generate.py"
    for code in KINDS:
        assert f'<h2 id="{code}">' in made.findings_page()
