"""The verdict: when it is given, and what a test may allow."""

from typing import Any

import pytest

from kohort import blocking
from kohort.errors import KohortError
from kohort.testing import Broker, Invariant, Limits, VerdictError


def test_the_end_of_a_with_block_finds_what_should_have_happened_until_then() -> None:
    limits = Limits(unassigned_ms=0, discovery_ms=0)
    broker = Broker(topics={"orders": 1}, limits=limits)
    with pytest.raises(VerdictError, match="No member of group g has had orders-1"), broker:
        servers = broker.bootstrap_servers
        options: dict[str, Any] = {"group_protocol": "classic", "metadata_max_age_ms": 600_000}
        consumer = blocking.Consumer("orders", bootstrap_servers=servers, group_id="g", **options)
        consumer.poll(timeout=0)
        broker.group("g").wait(state="Stable", members=1)
        broker.grow_topic("orders", 2)
        with blocking.Admin(bootstrap_servers=servers) as admin:
            admin.describe_topics(["orders"])
        broker.check()  # from now on, the time is measured
        consumer.poll(timeout=0.05)
    consumer.close(timeout=0)


def test_only_invariants_can_be_allowed() -> None:
    misspelled: Any = "forward commits"
    with Broker() as broker, pytest.raises(KohortError, match=r"such as Invariant\.FORWARD_COMMITS, not 'forward"):
        broker.allow(misspelled)
    with Broker() as broker:
        broker.allow(Invariant.FORWARD_COMMITS, "g")
