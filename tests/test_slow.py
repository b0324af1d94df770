"""The list of slow tests is true: it names tests that exist, in order, and each file once has a quicker one."""

from __future__ import annotations

import re

import pytest

from tests.scheduling import ROOT
from tests.slow import slow_tests


@pytest.mark.parametrize("name", sorted({name.partition("::")[0] for name in slow_tests()}))
def test_the_slow_tests_of_a_file_exist(name: str) -> None:
    source = (ROOT / name).read_text()
    for test in (each.partition("::")[2] for each in slow_tests() if each.startswith(f"{name}::")):
        assert re.search(rf"^(async )?def {test}\(", source, re.MULTILINE), (
            f"{test} is in tests/slow.txt, not in {name}"
        )


def test_each_folder_with_slow_tests_has_others() -> None:
    folders = {(ROOT / name.partition("::")[0]).parent for name in slow_tests()}
    for folder in folders:
        tests = re.findall(
            r"^(?:async )?def (test_\w+)\(", "\n".join(f.read_text() for f in folder.glob("test_*.py")), re.M
        )
        assert set(tests) - {name.partition("::")[2] for name in slow_tests()}, f"all tests of {folder} are slow"
