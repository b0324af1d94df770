"""Every client lives with held heartbeats: it keeps its connections, complains of nothing, sends no more, and sleeps.

The broker runs in the test, so that each request is seen; members are processes, as users run them.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions, Clock
from kohort.broker.clock import now_ms
from kohort.broker.net.connection import ClientConnection
from kohort.coordinator.prompt.client_timings import HOLD_MARGIN_MAX
from kohort.lab.apache_kafka import Unavailable
from kohort.lab.java_member import java_command
from kohort.lab.lab_group import LabGroup
from kohort.lab.member import CLIENTS, PROTOCOLS_OF_CLIENTS
from kohort.lab.member_settings import PROTOCOLS
from kohort.lab.trial import Trial, prepare
from kohort.model import Millis
from tests.lateness import lateness

HEARTBEATS = {12: 3.0, 68: 5.0}
"""The keys of both protocols' heartbeats, and how often members send them, in seconds."""
QUIET_S = 6.0
RESTLESS_MS = 70_000
"""In so much time a group is quiet."""
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "group.consumer.session.timeout.ms": "300000",
    "group.consumer.max.session.timeout.ms": "300000",
}
ALWAYS = {("kohort", "eager"), ("librdkafka", "consumer")}
"""Of all these, those that always run."""
OF_MANY = pytest.mark.long("the same with each other client")
KINDS = [
    pytest.param(client, protocol, marks=() if (client, protocol) in ALWAYS else OF_MANY)
    for client in CLIENTS
    for protocol in PROTOCOLS_OF_CLIENTS.get(client, PROTOCOLS)
]


class SeeingBroker(Broker):
    """The production broker, with a count of requests and a clock that can be advanced."""

    ahead_ms: Millis = 0

    def __init__(self) -> None:
        super().__init__(BrokerOptions(port=0, settings=SETTINGS), clock=Clock(lambda: now_ms() + self.ahead_ms))
        self.requests: Counter[tuple[str, int]] = Counter()
        """By client id and api key."""
        self.came: set[ClientConnection] = set()
        """The connections on which something came."""

    def new_dispatch(self) -> Callable[[ClientConnection, bytes], None]:
        dispatch = super().new_dispatch()

        def counted(connection: ClientConnection, frame: bytes) -> None:
            dispatch(connection, frame)
            self.came.add(connection)
            self.requests[connection.client_id, int.from_bytes(frame[:2], "big")] += 1

        return counted

    @property
    def holding(self) -> int:
        """How many heartbeats wait."""
        return sum(len(shard.waiting) for shard in self.groups)

    def heartbeats(self, name: str) -> int:
        """How many that member has sent."""
        return sum(self.requests[name, key] for key in HEARTBEATS)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.interop
@pytest.mark.parametrize(("client", "protocol"), KINDS)
async def test_a_client_works_with_held_heartbeats(
    client: str, protocol: str, tmp_path: Path, remark: Callable[[str], None]
) -> None:
    if client == "java":
        try:
            java_command()
        except Unavailable as missing:
            pytest.skip(str(missing))
    broker = SeeingBroker()
    async with broker:
        trial = Trial(scenario="held", broker="", client=client, protocol=protocol, partitions=4, commit_ms=500)
        order = await asyncio.to_thread(prepare, trial, f"127.0.0.1:{broker.port}")
        group = LabGroup(client, dataclasses.replace(order, session_ms=120_000), 4, trial.tick_ms, tmp_path, 30.0, None)
        with lateness() as late:
            try:
                await asyncio.to_thread(rebalance, group)
                await be_quiet(broker, group, HEARTBEATS[68 if protocol == "consumer" else 12])
            finally:
                await asyncio.to_thread(group.close)
        lines = complaints(tmp_path)
        if lines and max(late) > HOLD_MARGIN_MAX / 2:
            # The machine took what the broker leaves librdkafka for the answer. It then says so, and connects again.
            remark(f"the machine was {max(late):.0f} ms late, and librdkafka missed an answer")
            lines = [
                line for line in lines if "REQTMOUT" not in line and "request(s) timed out: disconnect" not in line
            ]
        assert not lines


def rebalance(group: LabGroup) -> None:
    """Three members join, and one leaves."""
    group.begin_load()
    _, _, third = group.start(3)
    group.settle()
    group.trigger("one leaves")
    group.stop(third)
    group.settle()
    assert group.triggers[-1].settled_at is not None
    group.end_load()


async def be_quiet(broker: SeeingBroker, group: LabGroup, interval_s: float) -> None:
    """Nothing happens: what do the members do meanwhile?"""
    broker.ahead_ms = RESTLESS_MS
    members = group.members
    await asyncio.sleep(2.0)  # what was read last is committed
    connections = len(broker.came)
    sent = {name: broker.heartbeats(name) for name in members}
    used = {name: cpu_seconds(member.pid) for name, member in members.items()}
    await asyncio.sleep(QUIET_S)
    for name, member in members.items():
        assert broker.heartbeats(name) - sent[name] <= QUIET_S / interval_s + 1
        assert cpu_seconds(member.pid) - used[name] < 0.25 * QUIET_S, "it does not sleep"
    assert len(broker.came) == connections, "it left a connection"
    async with asyncio.timeout(10.0):
        while broker.holding < len(members):  # noqa: ASYNC110 - there is nothing to await in a broker
            await asyncio.sleep(0.05)


def complaints(logs: Path) -> list[str]:
    """Return the logs of the members, without the lines that aiokafka logs in every rebalance."""
    lines = [line for log in logs.glob("*.log") for line in log.read_text().splitlines()]
    return [line for line in lines if not line.endswith("because it is rebalancing")]
