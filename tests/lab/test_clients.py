"""Every client's member tells the same story: one joins, gets its share, and nothing is read twice or left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from kohort.lab.apache_kafka import Unavailable
from kohort.lab.brokers import BROKERS, LabBroker
from kohort.lab.hops import moves
from kohort.lab.java_member import java_command
from kohort.lab.measure import measure
from kohort.lab.member import CLIENTS, PROTOCOLS_OF_CLIENTS
from kohort.lab.member_settings import PROTOCOLS
from kohort.lab.trial import Trial
from kohort.lab.trial_run import run_trial

_TRIAL = Trial(
    scenario="takeover", broker="kohort", client="", protocol="", partitions=6, restore_ms=10, rest_ms=0, trace=True
)
_OF_MANY = pytest.mark.long("the same under another protocol")
_KINDS = [
    pytest.param(client, protocol, marks=_OF_MANY if number else ())
    for client in CLIENTS
    for number, protocol in enumerate(PROTOCOLS_OF_CLIENTS.get(client, PROTOCOLS))
]


@pytest.fixture(scope="module")
def broker() -> Iterator[LabBroker]:
    with BROKERS["kohort"]({"group.initial.rebalance.delay.ms": "0"}, traced=True) as running:
        yield running


@pytest.mark.interop
@pytest.mark.parametrize(("client", "protocol"), _KINDS)
def test_two_that_join_get_their_shares_from_the_one(client: str, protocol: str, broker: LabBroker) -> None:
    if client == "java":
        try:
            java_command()
        except Unavailable as missing:
            pytest.skip(str(missing))
    trial = dataclasses.replace(_TRIAL, client=client, protocol=protocol)
    outcome = run_trial(trial, broker)
    measured = measure(outcome.events, outcome.triggers)
    assert measured.walls[0] is not None, "never settled"
    assert (measured.reading.duplicated, measured.reading.skipped, measured.reading.out_of_order) == (0, 0, 0)
    assert set(measured.first_assignments) == {"m2", "m3"}
    moved = {
        interval.partition for interval in measured.dark if interval.before == "m1" and interval.after in ("m2", "m3")
    }
    assert len(moved) >= 4
    # Restoring takes 10 ms for each partition that is won, and the winner has at least two.
    assert min(interval.end - interval.begin for interval in measured.dark if interval.partition in moved) >= 10_000_000
    # Each client's requests are recognised: the broker's hops are there, not only those between events of members.
    hops = {hop.step for move in moves(outcome.events, outcome.triggers, outcome.traced) for hop in move.hops}
    assert {"release is received", "assignment is answered", "fetch is received", "fetch is answered"} <= hops
