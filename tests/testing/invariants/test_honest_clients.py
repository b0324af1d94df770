"""Groups of real clients whose members join, leave and are killed: no check may find anything.

Each member is a process of its own (`tests/interop/mixed`). In consumer groups some are static and restart, some
subscribe by expression, and topics grow.
"""

import random
from pathlib import Path

import pytest

from kohort.testing import Broker, Checks, Event, Invariant, VerdictError, Violation
from tests.interop.mixed.churn import MixedGroup
from tests.interop.mixed.consumer_churn import ConsumerGroupChurn
from tests.interop.mixed.kinds import KINDS
from tests.interop.mixed.lengths import MINUTES, patient
from tests.interop.mixed.producer import NumberedProducer
from tests.testing.invariants.librdkafka import BegunAgain

pytestmark = patient

_SEED = 848
_PARTITIONS = 12
_CLIENTS = {
    "range": ("librdkafka", "kafka-python", "aiokafka", "kohort"),
    "cooperative-sticky": ("librdkafka", "kafka-python", "kohort"),
    "uniform": ("librdkafka", "kohort"),
}
"""Clients that need nothing but the test environment, by assignor."""


class Watched:
    """Checks of a broker, with the number of events that they saw, and the violations."""

    def __init__(self) -> None:
        self.checks = Checks()
        self.begun_again = BegunAgain(self.checks)
        self.events = 0
        self.found: list[Violation] = []

    def observe(self, event: Event) -> None:
        self.events += 1
        self.found += self.checks.observe(event)
        self.begun_again.observe(event)


@pytest.mark.parametrize(
    ("assignor", "seconds"),
    [
        pytest.param("range", 5.0, id="classic eager"),
        *(
            pytest.param(
                assignor, 60 * (MINUTES or 1), id=f"{kind}, for long", marks=pytest.mark.long("a minute of churn")
            )
            for assignor, kind in (
                ("range", "classic eager"),
                ("cooperative-sticky", "classic cooperative"),
                ("uniform", "consumer"),
            )
        ),
    ],
)
def test_no_check_accuses_a_group_of_real_clients(assignor: str, seconds: float, tmp_path: Path) -> None:
    watched, topic = Watched(), f"soak-{assignor}"
    kinds = [kind for kind in KINDS if kind.name in _CLIENTS[assignor]]
    churn = ConsumerGroupChurn if assignor == "uniform" else MixedGroup
    with Broker(topics={topic: _PARTITIONS}, observers=[watched.observe]) as broker:
        # `watched` judges these, and knows what librdkafka does.
        broker.allow(Invariant.OWNED_FETCHES, topic)
        broker.allow(Invariant.FETCHED_COMMITS, topic)
        group = churn(broker.bootstrap_servers, topic, topic, kinds, tmp_path, random.Random(_SEED), kills=True)
        producer = NumberedProducer(broker.bootstrap_servers, topic, _PARTITIONS, 100, _SEED)
        try:
            group.everybody_joins(assignor)
            group.settle()
            group.churn(assignor, seconds)
            group.settle()
            group.everybody_leaves()
        finally:
            producer.stop()
            group.end()
        watched.found += broker._run(lambda: watched.checks.finish(broker.node.now()))
    assert watched.events > 1_000
    unexplained = [violation for violation in watched.found if not watched.begun_again.explains(violation)]
    if unexplained:
        raise VerdictError(unexplained)
