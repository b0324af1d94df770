"""Classes that a Java member needs, loaded ahead (AppCDS), from a rehearsal of every protocol with a broker of ours.

Without it a member loads two thousand classes while it joins, for a second where ten of them do: that would be
measured, and is nobody's rebalance.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from kohort import blocking
from kohort.client import NewTopic
from kohort.lab.brokers import BROKERS
from kohort.lab.order import PROTOCOLS, Order

_RECORDS = 200
_TIMEOUT_S = 60.0


def archive_classes(java: Sequence[str], archive: Path) -> None:
    """Let members by `java`, the command line without orders, write the archive. If they fail there is none."""
    with BROKERS["kohort"]({"group.initial.rebalance.delay.ms": "0"}) as broker:
        orders = [_order(broker.bootstrap, protocol) for protocol in PROTOCOLS]
        _write([order.topic for order in orders], broker.bootstrap)
        before, after = java[:1], java[1:]
        command = [*before, f"-XX:ArchiveClassesAtExit={archive}", *after, *(order.to_json() for order in orders)]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _order(bootstrap: str, protocol: str) -> Order:
    topic = f"rehearsal-{protocol}"
    return Order(
        bootstrap=bootstrap,
        group=topic,
        topic=topic,
        name="rehearsal",
        protocol=protocol,
        changelog=f"{topic}-counts",
        commit_ms=500,
    )


def _write(topics: Sequence[str], bootstrap: str) -> None:
    with blocking.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(f"{topic}{suffix}", 1) for topic in topics for suffix in ("", "-counts")])
    with blocking.Producer(bootstrap_servers=bootstrap) as producer:
        for topic in topics:
            for number in range(_RECORDS):
                producer.send(topic, b"%d" % number, key=b"%d" % (number % 10), partition=0)
            producer.send(f"{topic}-counts", b"1", key=b"0", partition=0)
        producer.flush()
