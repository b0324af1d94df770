"""The stories of tests/seeds.txt: a test that draws no world holds each bug of production that the simulation found."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
_OF_THE_CHECKERS = ("the checker's fault", "the simulation's fault", "again, the simulation's fault")
"""How a story begins whose cause was not in production."""


@dataclass(frozen=True, slots=True)
class Story:
    """One line of the file."""

    seed: str
    text: str

    @property
    def is_of_the_checkers(self) -> bool:
        return self.text.startswith(_OF_THE_CHECKERS)

    @property
    def tests(self) -> list[Path]:
        """The files that hold it, of those that the story names."""
        named = re.findall(r"[\w/]+\.(?:py|txt)", self.text)
        return [TESTS.parent / name if name.startswith("tests/") else TESTS / "scenarios" / name for name in named]


def stories() -> list[Story]:
    lines = (TESTS / "seeds.txt").read_text(encoding="utf-8").splitlines()
    return [Story(*line.split(" ", 1)) for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("story", stories(), ids=lambda story: story.seed)
def test_each_bug_that_the_simulation_found_is_held_by_a_test_that_exists(story: Story) -> None:
    assert story.tests or story.is_of_the_checkers
    assert [path for path in story.tests if not path.is_file()] == []
    assert [path for path in story.tests if path.suffix == ".py" and "def test_" not in path.read_text("utf-8")] == []
