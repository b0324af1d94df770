"""Input of the experiments: every partition has records, and new ones as soon as the load knows the partition."""

from __future__ import annotations

import os
import signal
import sys

from kohort import TopicPartition, blocking
from kohort.client import NewTopic
from kohort.lab.brokers import BROKERS
from kohort.lab.process import ServerProcess
from tests.interop.process import until

_NEVER_MS = 600_000
"""A tick that the test does not live to see."""


def test_new_partitions_get_their_first_record_without_waiting_for_a_tick() -> None:
    with BROKERS["kohort"]({}) as broker, blocking.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic("t", 2)])
        command = [sys.executable, "-m", "kohort.lab.load", broker.bootstrap, "t", str(_NEVER_MS)]
        load = ServerProcess(command)
        with blocking.Consumer(bootstrap_servers=broker.bootstrap) as looking:

            def records(count: int) -> list[int]:
                partitions = [TopicPartition("t", number) for number in range(count)]
                ends = looking.end_offsets(partitions)
                return [ends[partition] for partition in partitions]

            try:
                load.wait_for("^writing", timeout=60.0)
                assert records(2) == [1, 1]
                admin.create_partitions("t", 5)
                os.kill(load.pid, signal.SIGUSR1)
                until(60.0, "new partitions are written to", lambda: records(5) == [1, 1, 1, 1, 1])
            finally:
                code = load.stop()
        assert code == 0
