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
LONGEST_FIRST: tuple[str, ...] = (
    SPARK,
    "tests/interop/test_mixed_seven.py",
    "tests/cluster/test_failover.py",
    "tests/cluster/test_bad_input.py",
    "tests/sim/worlds/test_worlds.py",
    "tests/lab/test_clients.py",
    "tests/examples/test_only_the_import.py",
    "tests/cli/test_interruption.py",
    "tests/client/test_error_table.py",
    "tests/lab/test_command.py",
    "tests/interop/test_held_clients.py",
    "tests/client/membership/test_both_protocols.py",
    "tests/sim/worlds/test_plants.py",
    "tests/hostile/test_strangers.py",
    "tests/interop/test_crowds.py",
    "tests/interop/test_mixed_scenarios.py",
    "tests/hostile/test_pressure.py",
    "tests/assignor/server/test_every_plan.py",
    "tests/client/consume/test_truncation.py",
    "tests/client/net/test_broker_comes_back.py",
    "tests/spark/source/test_readers.py",
    "tests/client/consume/test_said_once.py",
    "tests/client/net/test_busy.py",
    "tests/cluster/test_postgres.py",
    "tests/interop/test_restart.py",
    "tests/client/consume/test_consumer.py",
    "tests/client/produce/test_unclosed.py",
    "tests/hostile/test_command_line.py",
    "tests/log/test_compaction.py",
    "tests/log/test_stateful.py",
    "tests/client/net/test_links.py",
    "tests/client/consume/test_fetch_errors.py",
    "tests/client/consume/test_auto_commit.py",
    "tests/assignor/test_java.py",
    "tests/lab/test_warmup.py",
    "tests/lab/test_bounce.py",
    "tests/scenarios/test_on_brokers.py",
    "tests/chaos/test_kills.py",
    "tests/spark/test_broker_dies.py",
    "tests/analytics/test_against_kafka.py",
    "tests/client/blocking/test_cancelling.py",
    "tests/client/membership/test_quiet_group.py",
    "tests/log/test_crash.py",
)
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
