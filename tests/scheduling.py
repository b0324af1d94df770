"""Which tests run in one process when pytest-xdist runs several, and in which order.

Those of a file run in one process, and so do all that use Spark, and all of the web page. Fixtures of a module or a
session would else be made once per process: a broker, a JVM, a browser. And Spark keeps two cores busy: three tests
that each start a cluster of it take longer at the same time than one after the other. xdist's own groups (`--dist
loadgroup`) do not work: pytest 9.2 ignores the names that xdist 3.8 gives to their tests.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[1]
SPARK = "spark"
PAGE = "page"
STARTS_SPARK = {
    "tests/analytics/test_command.py",
    "tests/demo/test_secured_demo.py",
    "tests/spark/test_guarantees.py",
    "tests/spark/test_killed_at_random.py",
    "tests/spark/test_shipped.py",
    "tests/spark/test_transactional_copies.py",
}
"""Files whose tests start Spark in processes of their own, besides those that use the shared session."""

LONGEST_FIRST: tuple[str, ...] = (
    SPARK,
    "tests/cluster/test_clients.py",
    PAGE,
    "tests/sim/worlds/test_late_requests.py",
    "tests/sim/worlds/test_worlds.py",
    "tests/cluster/test_transactions.py",
    "tests/chaos/test_copies.py",
    "tests/install/test_install.py",
    "tests/testing/invariants/test_honest_clients.py",
    "tests/cli/test_interruption.py",
    "tests/interop/test_held_clients.py",
    "tests/chaos/test_storm.py",
    "tests/sim/worlds/test_secured_copies.py",
    "tests/sim/worlds/test_plants.py",
    "tests/sim/worlds/test_level_changes.py",
    "tests/sim/worlds/test_small_transactions.py",
    "tests/interop/test_mixed_scenarios.py",
    "tests/interop/test_mixed_seven.py",
    "tests/interop/test_mixed_secured.py",
    "tests/lab/test_warmup.py",
    "tests/interop/test_streams.py",
    "tests/gateway/test_outages.py",
    "tests/interop/test_mixed_migration.py",
    "tests/interop/test_mixed_consumer_groups.py",
    "tests/hostile/test_strangers.py",
    "tests/assignor/test_properties.py",
    "tests/interop/test_transactions.py",
    "tests/testing/test_plugin.py",
    "tests/test_extras.py",
    "tests/examples/test_only_the_import.py",
    "tests/gateway/test_consumer_worlds.py",
    "tests/test_source.py",
    "tests/gateway/test_security.py",
    "tests/cluster/test_failover.py",
    "tests/cli/test_metrics.py",
    "tests/test_security_document.py",
    "tests/cli/test_acl_commands.py",
    "tests/watch/source/test_watching.py",
    "tests/watch/web/test_security.py",
    "tests/recorder/test_picture.py",
    "tests/client/security/test_connections.py",
    "tests/cluster/test_bad_input.py",
    "tests/dashboards/test_promtool.py",
    "tests/gateway/test_login.py",
    "tests/client/test_error_table.py",
    "tests/interop/test_transactional_clients.py",
    "tests/wire/codec/test_oracle.py",
    "tests/client/consume/test_patterns.py",
    "tests/assignor/server/test_every_plan.py",
    "tests/client/membership/test_both_protocols.py",
    "tests/examples/test_confluent_programs.py",
    "tests/gateway/test_classic_worlds.py",
    "tests/lab/test_clients.py",
    "tests/hostile/test_secured_listeners.py",
    "tests/wire/batches/test_records.py",
    "tests/sim/runs/test_report.py",
    "tests/cluster/test_acls.py",
    "tests/cli/test_watch_page.py",
    "tests/client/produce/test_unclosed.py",
    "tests/interop/test_secured_tools.py",
    "tests/cli/test_watch_webhook.py",
    "tests/assignor/server/test_java.py",
    "tests/lab/test_command.py",
    "tests/cli/test_consume.py",
    "tests/wire/batches/test_records_java.py",
)
"""Those that take twenty seconds or more on two busy cores, with their slow and long tests, in order.

Begun last, one would keep the others waiting.
"""


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
    if path.startswith("tests/watch/page/"):
        return PAGE
    return SPARK if _uses_spark(path) else path


def next_of(waiting: dict[str, dict[str, bool]]) -> str:
    """Choose what is to begin next, of the tests that wait by what they share."""

    def rank(scope: str) -> tuple[int, int]:
        long = LONGEST_FIRST.index(scope) if scope in LONGEST_FIRST else len(LONGEST_FIRST)
        return long, -len(waiting[scope])

    return min(waiting, key=rank)


@cache
def _uses_spark(path: str) -> bool:
    """Whether a test of this file takes the shared session, whose type it then names, or starts Spark itself."""
    return path in STARTS_SPARK or "SparkSession" in (ROOT / path).read_text()
