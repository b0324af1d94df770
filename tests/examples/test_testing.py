"""examples/testing: each bug is found, and README.md lists them all."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "testing"
THREAD = re.compile(r"https:\S+?/(?:issues|pull)/\d+")
TEST = re.compile(r"((?:^#.*\n)+)((?:^@.*\n)*)(?:async )?def (test_\w+)((?:.*\n)+?)(?=\n\n|\Z)", re.MULTILINE)
LONGEST = 15


def _tests() -> list[tuple[str, str, bool, str, str]]:
    """Return the file of each test, its comment, whether it is long, its name and the rest."""
    found = []
    for path in sorted(FOLDER.glob("test_*.py")):
        text = path.read_text("utf-8")
        tests = [(path.name, each[1], "mark.long" in each[2], each[3], each[4]) for each in TEST.finditer(text)]
        assert len(tests) == text.count("def test_"), f"each test of {path.name} has a comment"
        found += tests
    return found


def _run(*options: str, count: int) -> None:
    command = [sys.executable, "-m", "pytest", str(FOLDER), "-q", "-p", "no:cacheprovider", "-n", "0", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{count} passed" in done.stdout


def test_the_verdict_or_the_audit_finds_each_bug() -> None:
    _run(count=sum(not is_long for _, _, is_long, *_ in _tests()))


@pytest.mark.long("installs two old clients")
def test_the_verdict_finds_bugs_of_old_clients() -> None:
    _run("-m", "long", count=sum(is_long for _, _, is_long, *_ in _tests()))


def test_each_test_is_short_and_links_the_thread_that_the_table_has() -> None:
    table = (FOLDER / "README.md").read_text("utf-8")
    listed = re.findall(rf"\(({THREAD.pattern})\) \| \[\w+\]\((\w+\.py)\)", table)
    linked = []
    for file, comment, _, name, rest in _tests():
        thread = THREAD.search(comment)
        assert thread is not None, f"{name} links no thread"
        linked.append((thread[0], file))
        body = rest[rest.index("-> None:") :].strip().splitlines()[1:]
        assert len(body) <= LONGEST, f"{name} has {len(body)} lines"
    assert sorted(listed) == sorted(linked)
