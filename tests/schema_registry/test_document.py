"""The program of docs/schema-registry.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.interop.broker import Broker
from tests.schema_registry.registry_server import Served
from tests.test_documents import blocks


def test_the_program_of_the_page_runs(kohort_broker: Broker, served: Served, tmp_path: Path, fresh: str) -> None:
    (text,) = blocks("docs/schema-registry.md", "python")
    text = text.replace("127.0.0.1:9092", kohort_broker.bootstrap).replace("http://127.0.0.1:8081", served.url)
    program = tmp_path / "program.py"
    program.write_text(text.replace("orders-avro", fresh))
    run = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (0, "250\n", "")
