"""Statements of the documents that can be run or looked up: commands, make targets and links."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.kafka import free_ports
from tests.interop.kohort import kohort, running_kohort
from tests.interop.process import ServerProcess

ROOT = Path(__file__).parent.parent
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]


def blocks(document: str, language: str) -> list[str]:
    """The fenced blocks of a document in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)


def block_with(document: str, language: str, text: str) -> str:
    (found,) = [block for block in blocks(document, language) if text in block]
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_target_and_link_of_a_document_exists(document: Path) -> None:
    text = document.read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE)) <= targets
    links = [link for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) if "://" not in link]
    assert not [link for link in links if not (document.parent / link).exists()]


def test_the_first_session_of_the_readme_runs(tmp_path: Path) -> None:
    # Installed already; and 9092 may be somebody's.
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    session = block_with("README.md", "sh", "kohort broker") + block_with("README.md", "sh", "kohort rebalances")
    session = session.replace("127.0.0.1:9092", address)
    lines = [line for line in session.splitlines() if not line.startswith(("python3 -m venv", "pip install"))]
    # The text between the two blocks says to wait for `ready`.
    lines = [line.replace(" &", " > ready & until grep -q ready ready; do sleep 0.05; done") for line in lines]
    # Before the end of the script, the broker that it left in the background.
    script = "\n".join(["set -euo pipefail", "trap 'kill $(jobs -p)' EXIT", *lines])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = ServerProcess(["bash", "-c", script], env={"PATH": path, "KOHORT_BOOTSTRAP": address}, cwd=tmp_path)
    try:
        code = process.wait(60.0)
    finally:
        process.kill()
    assert code == 0, process.output()
    assert not any("Traceback" in line for line in process.stderr)
    consumed, _, described = "\n".join(process.stdout).partition("billing:")
    # Six partitions are read in no order: the last three may be any.
    assert len(set(re.findall(r"^\d+$", consumed, re.MULTILINE)) & {str(n) for n in range(1, 1001)}) == 3
    assert "lag 0" in described
    assert "2 rebalances" in described


def test_the_python_of_the_readme_prints_a_record() -> None:
    snippet = block_with("README.md", "python", "asyncio.run(main())")
    with running_kohort(group_initial_rebalance_delay_ms="0") as broker:
        at = ("--bootstrap", broker.bootstrap)
        subprocess.run(kohort("topic", "create", "orders", "--partitions", "1", *at), check=True, timeout=30)
        # A new group begins at the end (auto.offset.reset is Kafka's): so it has to begin before there is a record.
        reader = ServerProcess([sys.executable, "-u", "-c", snippet.replace("127.0.0.1:9092", broker.bootstrap)])
        try:
            for number in range(50):
                line = f"order-{number}\n"
                subprocess.run(kohort("produce", "orders", *at), input=line, text=True, check=True, timeout=30)
                if any("order-" in said for said in reader.stdout):
                    break
                assert reader.alive, reader.output()
            reader.wait_for(r"^0 \d+ b'order-\d+'$", timeout=20.0)
        finally:
            reader.kill()


def test_the_first_test_of_the_readme_passes(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(block_with("README.md", "python", "test_a_group_reads_the_order"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_orders.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 passed" in run.stdout
