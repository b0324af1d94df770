"""The tool that plants bugs plants each one, in this process and in those that a test starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.mutants import Mutant, mutants
from tests.mutation.run import ROOT, equivalent_mutants, signature
from tests.mutation.session import MutationSession, Verdict

MODULE = '''"""A module."""
import logging
_log = logging.getLogger(__name__)

class Account:
    """Holds money."""
    def __init__(self, limit: int = 5) -> None:
        self.limit = limit
        self.spent = 0

    def spend(self, amount: int) -> bool:
        """Whether it was allowed."""
        assert amount > 0
        if self.spent + amount > self.limit:
            _log.warning("refused %d", amount)
            return False
        self.spent += amount
        return True
'''

TESTS = """
import subprocess, sys
from shop.account import Account

def test_the_limit_may_be_reached_and_not_passed():
    account = Account(3)
    assert account.spend(2) and not account.spend(2) and account.spend(1)

def test_a_process():
    program = "from shop.account import Account; import sys; sys.exit(Account().spent)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
"""


def test_every_operator_constant_and_statement_is_mutated_but_what_no_test_can_notice(tmp_path: Path) -> None:
    module = tmp_path / "account.py"
    module.write_text(MODULE, encoding="utf-8")
    assert [(mutant.function, mutant.before, mutant.after) for mutant in mutants(module)] == [
        ("Account.__init__", "self.limit = limit", "pass"),
        ("Account.__init__", "self.spent = 0", "pass"),
        ("Account.__init__", "0", "1"),
        ("Account.spend", "self.spent + amount > self.limit", "self.spent + amount >= self.limit"),
        ("Account.spend", "self.spent + amount", "self.spent - amount"),
        ("Account.spend", "False", "True"),
        ("Account.spend", "self.spent += amount", "pass"),
        ("Account.spend", "True", "False"),
    ]


@pytest.mark.parametrize(
    ("left_out", "survivors"),
    [
        pytest.param("nothing", 0, id="every rule is tested"),
        pytest.param("and not account.spend(2)", 3, id="the limit is not tested"),
        pytest.param("account.spend(2) and not account.spend(2) and account.spend(1)", 6, id="a process alone tests"),
    ],
)
def test_a_mutant_survives_only_where_no_test_fails(tmp_path: Path, left_out: str, survivors: int) -> None:
    shop = tmp_path / "src" / "shop"
    shop.mkdir(parents=True)
    (shop / "__init__.py").touch()
    (shop / "account.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "test_account.py").write_text(
        TESTS.replace(left_out, "" if left_out.startswith("and") else "True"), encoding="utf-8"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = src\n", encoding="utf-8")
    lines, output = tried(tmp_path)
    assert len(lines) == 8, output
    assert sum(line.startswith("survived") for line in lines) == survivors, output


LOOP = '''"""A module."""

def drained(items: list[int]) -> int:
    """Count them."""
    count = 0
    while items:
        items.pop()
        count += 1
    return count
'''


def test_a_mutant_that_never_ends_is_noticed(tmp_path: Path) -> None:
    shop = tmp_path / "src" / "shop"
    shop.mkdir(parents=True)
    (shop / "__init__.py").touch()
    (shop / "account.py").write_text(LOOP, encoding="utf-8")
    test = "from shop.account import drained\ndef test_it():\n    assert drained([1, 2]) == 2\n"
    (tmp_path / "test_account.py").write_text(test, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = src\n", encoding="utf-8")
    lines, output = tried(tmp_path)
    ended = [line for line in lines if line.endswith("items.pop()  ->  pass")]
    assert len(ended) == 1 and ended[0].startswith("killed by processor time "), output


def test_every_equivalent_mutant_is_one_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    # A line that was overtaken by a new name excuses nothing, and its mutant counts as a survivor.
    monkeypatch.chdir(ROOT)
    lines = equivalent_mutants()
    paths = {Path(line.split()[0]) for line in lines}
    assert lines - {signature(mutant) for path in paths for mutant in mutants(path)} == set()


def tried(folder: Path) -> tuple[list[str], str]:
    """Try every mutant of the module in that folder; return what became of each, and the whole output."""
    # A process of its own: the session imports the module and forks.
    done = subprocess.run(
        [sys.executable, "-c", f"from tests.mutation.test_mutation import main; main({str(folder)!r})"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=100,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(("killed", "survived"))]
    return lines, done.stdout + done.stderr


def main(folder: str) -> None:
    """Try every mutant of the module in that folder, and print what became of each."""
    import os

    os.environ["KOHORT_MUTATION_DIRECTORY"] = folder
    os.environ["PYTHONPATH"] = f"{folder}/src"
    verdicts: list[Verdict] = []
    found: list[Mutant] = mutants(Path(folder, "src", "shop", "account.py"))
    # A loop without an end must use up its processor time before the wall clock ends it, also if other processes take
    # nine tenths of the processor.
    session = MutationSession(found, workers=2, budget_s=20, report=verdicts.append, processor_s=1, wall_s=60)
    pytest.main([folder, "-q", "-p", "no:cacheprovider", "--rootdir", folder], plugins=[session])
    for verdict in verdicts:
        print("survived" if verdict.killed_by is None else f"killed by {verdict.killed_by}", verdict.mutant)
