"""Which tests run in one process when pytest-xdist runs several: those of a file, and all that use Spark.

Fixtures of a module or a session would else be made once per process: a broker, a JVM. xdist's own groups
(`--dist loadgroup`) do not work: pytest 9.2 ignores the names that xdist 3.8 gives to their tests.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

USE_SPARK = ("tests/spark/", "tests/analytics/")


class Sharing(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Give each process a file at a time, those with the most tests first."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    """Name what must run in one process with this test."""
    path = nodeid.partition("::")[0]
    return "spark" if path.startswith(USE_SPARK) else path
