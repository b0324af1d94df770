"""A broker that is killed, and restarted, at each step of a micro-batch at which a query uses it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyspark_kohort.net.cluster import disconnect
from tests.interop.kafka import free_ports
from tests.interop.kohort import kohort_to_kill
from tests.interop.process import until
from tests.spark.conftest import Member, Topic
from tests.spark.query import Query

LARGE = bytes(100_000)
"""So that a batch of some dozens takes several fetches, and several pages."""


class Broker:
    """One that keeps what it acknowledged, and its address."""

    def __init__(self, home: Path, lives: contextlib.ExitStack) -> None:
        (port,) = free_ports(1)
        self._options = ("--data", str(home), "--listen", f"127.0.0.1:{port}")
        self._lives = lives
        self._start()

    def dies_before(self, step: Callable[[], object]) -> None:
        """Kill it, take the step in a thread, and bring it back while that waits."""
        self._running.process.kill()
        failures: list[BaseException] = []

        def take() -> None:
            try:
                step()
            except BaseException as error:
                failures.append(error)
                raise
            finally:
                disconnect()

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        self._start()
        thread.join(60)
        assert not thread.is_alive()
        assert not failures

    def restart(self) -> None:
        self._running.process.kill()
        self._start()

    def _start(self) -> None:
        settings = {"group_initial_rebalance_delay_ms": "0", "log_retention_ms": "-1"}
        self._running = self._lives.enter_context(kohort_to_kill(*self._options, **settings))
        self.bootstrap = self._running.bootstrap


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with contextlib.ExitStack() as lives:
        yield Broker(tmp_path, lives)


def test_a_broker_may_die_at_every_step_of_a_batch(broker: Broker, member: Member, group: str) -> None:
    topic = Topic(broker.bootstrap, 2)
    query = Query(lambda: member(topic, **{"kafka.max.partition.fetch.bytes": "300000"}))

    def produced() -> None:
        topic.produce([(n % 2, b"%d" % n, LARGE) for n in range(60)])

    # Nothing is known of group or topic yet: it joins, asks for the ends, and plans.
    produced()
    broker.dies_before(query.plan)
    # The batch is in Spark's log, and its tasks have not begun.
    broker.dies_before(query.run)
    # The batch is done, and not committed: Spark's next call commits it, and plans the next.
    produced()
    broker.dies_before(query.plan)
    assert topic.lag(group) == 60
    # In the middle of a task's rows.
    once = iter([broker.restart])
    query.run(lambda: next(once, lambda: None)())
    assert next(once, None) is None, "one page held everything"
    until(30, "all is committed", lambda: not query.step() and topic.lag(group) == 0)
    query.reader.stop()
    assert query.sink == dict.fromkeys(topic.written, 1)
