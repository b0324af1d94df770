"""Groups as tests use them: waits that end as soon as something holds, and say what was seen when it does not."""

from typing import Any

import pytest

import kohort
from kohort import blocking
from kohort.errors import KohortError
from kohort.model import TopicPartition
from kohort.testing import Broker, Group, WaitTimeoutError

PROTOCOLS = ("classic", "consumer")


def member(broker: Broker, protocol: str, client_id: str = "a") -> blocking.Consumer:
    return blocking.Consumer(
        "orders",
        bootstrap_servers=broker.bootstrap_servers,
        group_id="g",
        client_id=client_id,
        group_protocol=protocol,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_test_waits_for_members_assignments_commits_and_lag(protocol: str) -> None:
    with Broker(topics={"orders": 2}) as broker:
        group, orders = broker.group("g"), broker.topic("orders")
        orders.produce("a", "b", "c", partition=0)
        with member(broker, protocol) as consumer:
            consumer.poll()
            both = {TopicPartition("orders", 0), TopicPartition("orders", 1)}
            view = group.wait(state="STABLE", members=1, assigned=2, owns={"a": both})
            assert [each.client_id for each in view.members] == ["a"]
            assert group.lag == {TopicPartition("orders", 0): 3, TopicPartition("orders", 1): 0}
            while consumer.position(TopicPartition("orders", 0)) < 3:
                consumer.poll()
            consumer.commit()
            group.wait(lag=0, committed={TopicPartition("orders", 0): 3})
            group.wait(lag=1, committed={TopicPartition("orders", 0): 2})  # at most, and at least
            assert group.committed[TopicPartition("orders", 0)] == 3
        group.wait(members=0)
        assert group.members == []


def test_records_that_were_deleted_are_no_lag() -> None:
    with Broker(topics={"orders": 1}) as broker, member(broker, "classic") as consumer:
        orders, place = broker.topic("orders"), TopicPartition("orders", 0)
        orders.produce(*"abcde")
        consumer.poll()
        assert broker.group("g").lag == {place: 5}
        with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.delete_records({place: 3})
        assert broker.group("g").lag == {place: 2}


def test_a_rebalance_is_found_by_each_of_its_causes() -> None:
    with Broker(topics={"orders": 2}) as broker, member(broker, "classic", "old") as old:
        group = broker.group("g")
        old.poll()
        with member(broker, "classic", "leaves") as leaves:
            while not leaves.assignment:
                old.poll(timeout=0.02)
                leaves.poll(timeout=0.02)
            group.wait_rebalance("member joined")
            hold = broker.fault(keys="SyncGroup", client_id="old", hold=True)
        while not hold.hits:  # whoever joins sooner joins in the rebalance for the one that left
            old.poll(timeout=0.02)
        with member(broker, "classic", "comes") as comes:
            while len(((view := group.view()) and view.members) or ()) < 2:
                comes.poll(timeout=0.02)
            hold.remove()
            while not comes.assignment:
                old.poll(timeout=0.02)
                comes.poll(timeout=0.02)
            assert group.wait_rebalance("member joined").cause == "member left"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_rebalance_is_returned_once_with_its_cause(protocol: str) -> None:
    with Broker(topics={"orders": 1}) as broker:
        group = broker.group("g")
        with member(broker, protocol) as consumer:
            consumer.poll()
            assert group.wait_rebalance().cause == "first member"
        left = group.wait_rebalance("member left")
        assert (left.members_after, left.group_id) == (0, "g")
        assert [record.cause for record in group.rebalances] == ["first member", "member left"]
        with pytest.raises(WaitTimeoutError, match=r"No rebalance of group g ended in 0\.05 s; seen: none\."):
            group.wait_rebalance(timeout_s=0.05)


def test_a_wait_that_fails_says_what_was_seen() -> None:
    with Broker(topics={"orders": 1}) as broker:
        group = broker.group("g")
        with pytest.raises(WaitTimeoutError, match=r"Group g did not reach 1 members in 0\.05 s: it does not exist\."):
            group.wait(members=1, timeout_s=0.05)
        with member(broker, "classic") as consumer:
            consumer.poll()
            asked = r"state Empty, 2 members, b with orders-0, lag 0"
            wanted = rf"reach {asked} in 0\.05 s: it is Stable with 1 members; a has orders-0; lag 0\."
            with pytest.raises(WaitTimeoutError, match=wanted):
                group.wait(state="Empty", members=2, owns={"b": {TopicPartition("orders", 0)}}, lag=0, timeout_s=0.05)


async def test_a_blocking_wait_on_the_loop_of_the_clients_says_what_to_do() -> None:
    async with Broker() as broker:
        with pytest.raises(WaitTimeoutError, match="await its _async form"):
            broker.group("g").wait(members=1, timeout_s=0.05)


async def test_a_test_on_an_event_loop_awaits() -> None:
    async with Broker(topics={"orders": 1}) as broker:
        group = broker.group("g")
        broker.topic("orders").produce("a")
        async with kohort.Consumer(
            "orders", bootstrap_servers=broker.bootstrap_servers, group_id=group, auto_offset_reset="earliest"
        ) as consumer:
            await group.wait_async(members=1, assigned=1)
            assert (await group.wait_rebalance_async()).cause == "first member"
            await consumer.poll()
            await consumer.commit()
            await group.wait_async(lag=0)


def test_a_group_that_does_not_exist_has_no_members() -> None:
    with Broker() as broker:
        assert broker.group("nobody").wait(members=0).state == "Dead"
        assert broker.group("nobody").wait(state="dead").members == ()
        assert broker.group("nobody").view() is None


def test_a_wait_for_nothing_and_an_unknown_cause_are_refused() -> None:
    with Broker() as broker:
        group = broker.group("g")
        with pytest.raises(KohortError, match="Give at least one of state"):
            group.wait()
        with pytest.raises(KohortError, match=r"There is no state 'stabel'; the states are: Empty, .*Stable"):
            group.wait(state="stabel")
        wrong: Any = "orders"
        with pytest.raises(KohortError, match=r"`committed` takes partitions such as .*, not 'orders'\."):
            group.wait(committed={wrong: 1})
        with pytest.raises(KohortError, match=r"`owns` takes partitions such as .*, not 'o'\."):
            group.wait(owns={"worker": wrong})
        with pytest.raises(KohortError, match=r"There is no cause 'left'; the causes are: .*member left"):
            group.wait_rebalance("left")


def test_a_group_is_its_id() -> None:
    with Broker() as broker:
        group = broker.group("g")
        assert (group, f"{group}", repr(group), hash(group) == hash("g")) == ("g", "g", "'g'", True)
        assert isinstance(group, Group)
