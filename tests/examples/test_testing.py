"""examples/testing: each bug is found, and README.md lists them all."""

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "examples" / "testing"
THREAD = re.compile(r"https:\S+?/(?:issues|pull)/\d+")
TEST = re.compile(r"((?:^#.*\n)+)(?:^@.*\n)*def (test_\w+)((?:.*\n)+?)(?=\n\n|\Z)", re.MULTILINE)
LONGEST = 15


def _tests() -> list[tuple[str, str, str]]:
    """Return the comment, name and rest of each test."""
    texts = [path.read_text("utf-8") for path in sorted(FOLDER.glob("test_*.py"))]
    found = [(each[1], each[2], each[3]) for text in texts for each in TEST.finditer(text)]
    assert len(found) == sum(text.count("\ndef test_") for text in texts), "each test has a comment"
    return found


def test_the_verdict_finds_each_bug() -> None:
    command = [sys.executable, "-m", "pytest", str(FOLDER), "-q", "-p", "no:cacheprovider", "-n", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(_tests())} passed" in done.stdout


def test_each_test_is_short_and_links_the_thread_that_its_name_and_the_table_have() -> None:
    table = (FOLDER / "README.md").read_text("utf-8")
    listed = [match[0] for match in THREAD.finditer(table)]
    linked = []
    for comment, name, rest in _tests():
        thread = THREAD.search(comment)
        assert thread is not None, f"{name} links no thread"
        linked.append(thread[0])
        body = rest[rest.index("-> None:") :].strip().splitlines()[1:]
        assert len(body) <= LONGEST, f"{name} has {len(body)} lines"
    assert sorted(listed) == sorted(linked)
