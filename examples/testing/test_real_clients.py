"""Bugs of clients that are installed: the present aiokafka, and old releases from PyPI."""

import pytest
from aiokafka import AIOKafkaConsumer

from kohort.testing import Fault, Invariant, Workspace

from .conftest import RunOldClient, Verdict

CLIENT = Fault.CLIENT


# aiokafka 0.14: heartbeats do not contain the instance ID. A consumer that is fenced gets UNKNOWN_MEMBER_ID, joins
# again, and fences the one that replaced it. https://github.com/aio-libs/aiokafka/pull/1188
async def test_aiokafka_1188_two_consumers_with_one_instance_id(kohort: Workspace, verdict: Verdict) -> None:
    orders, group = kohort.topic("orders"), kohort.group()
    options = {"bootstrap_servers": kohort.bootstrap_servers, "group_id": group, "heartbeat_interval_ms": 100}
    consumers = []
    for name in "ab":
        client_id = f"{kohort.prefix}{name}"
        consumers.append(AIOKafkaConsumer(orders, client_id=client_id, group_instance_id="worker-1", **options))
        await consumers[-1].start()
    for _ in range(4):
        await group.wait_rebalance_async("static member returned")
    for consumer in consumers:
        await consumer.stop()
    assert [found[1:] for found in verdict()] == [(CLIENT, Invariant.ONE_INSTANCE)]


# kafka-python 2.1: a commit that gets REBALANCE_IN_PROGRESS makes the consumer forget its member ID, and all
# others wait for its old membership until the session ends. https://github.com/dpkp/kafka-python/pull/2614
@pytest.mark.long("installs kafka-python 2.1.5")
def test_kafka_python_2614_a_member_is_left_behind(
    kohort: Workspace, run_old_client: RunOldClient, verdict: Verdict
) -> None:
    kohort.fault(keys="OffsetCommit", error="REBALANCE_IN_PROGRESS")
    run_old_client("kafka-python==2.1.5", "kafka_python_commits.py", kohort.topic("orders"))
    assert verdict() == [("client", CLIENT, Invariant.KEPT_MEMBER_ID)]


# librdkafka 2.11 (since 1.6): a consumer whose session has timed out commits with the old generation and no member ID.
# A static member is then fenced for ever. https://github.com/confluentinc/librdkafka/pull/5585
@pytest.mark.long("installs confluent-kafka 2.11.1")
def test_librdkafka_5585_offsets_of_a_lost_assignment_are_committed(
    kohort: Workspace, run_old_client: RunOldClient, verdict: Verdict
) -> None:
    orders = kohort.topic("orders")
    orders.produce("0", "1")
    kohort.fault(keys="Heartbeat", hold=True, nth=3)
    run_old_client("confluent-kafka==2.11.1", "librdkafka_reads.py", orders)
    assert verdict() == [("client", CLIENT, Invariant.GIVEN_EPOCHS)]
