"""Which tests run in one process when pytest-xdist runs several, and in which order.

Those of a file run in one process, and so do all that use a Spark session. Fixtures of a module or a session would
else be made once per process: a broker, a JVM. xdist's own groups (`--dist loadgroup`) do not work: pytest 9.2
ignores the names that xdist 3.8 gives to their tests.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[1]
SPARK = "spark"
LONGEST_FIRST: tuple[str, ...] = (SPARK,)
"""Those that take ten seconds or more, roughly in order: begun last, one would keep the others waiting for its end."""


class Sharing(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Give each process a file at a time: the longest first, then those with the most tests."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        self.workqueue.move_to_end(next_of(self.workqueue), last=False)
        super()._assign_work_unit(node)


def scope_of(nodeid: str) -> str:
    """Name what must run in one process with this test."""
    path = nodeid.partition("::")[0]
    return SPARK if _uses_spark(path) else path


def next_of(waiting: dict[str, dict[str, bool]]) -> str:
    """Choose what is to begin next, of the tests that wait by what they share."""

    def rank(scope: str) -> tuple[int, int]:
        long = LONGEST_FIRST.index(scope) if scope in LONGEST_FIRST else len(LONGEST_FIRST)
        return long, -len(waiting[scope])

    return min(waiting, key=rank)


@cache
def _uses_spark(path: str) -> bool:
    """Whether a test of this file takes the shared session, whose type it then names."""
    return "SparkSession" in (ROOT / path).read_text()
