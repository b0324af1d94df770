"""docs/testing.md: its tests run as written, in one file each, as its readers would run them."""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def test_the_examples_of_the_page_pass(pytester: pytest.Pytester) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 10
    pytester.makepyfile("\n\n".join(blocks))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore")
    result.assert_outcomes(passed=len(re.findall(r"^def test_", "\n".join(blocks), re.MULTILINE)))
