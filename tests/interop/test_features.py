"""kafka-features.sh and the transactions of running producers, while the level of transaction.version changes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import pytest

from kohort import Admin, Consumer, FeatureUpdate, NewTopic, Producer, TopicPartition, UpgradeType
from tests.interop.broker import Broker
from tests.interop.java_tools import JavaTools, running_java_tools
from tests.interop.kohort import running_kohort
from tests.interop.process import until
from tests.interop.settled import settled

pytestmark = pytest.mark.interop

FEATURE = "transaction.version"


@pytest.fixture
def tools(kafka_tools: None) -> Iterator[JavaTools]:
    with running_java_tools() as running:
        yield running


def described(tools: JavaTools, at: str) -> tuple[int, int]:
    """The finalized level and its epoch."""
    told = tools.succeed("kafka-features", "--bootstrap-server", at, "describe")
    line = next(line for line in told.splitlines() if FEATURE in line)
    found = re.search(r"MinVersion: 0\s+SupportedMaxVersion: 2\s+FinalizedVersionLevel: (\d)\s+Epoch: (\d+)", line)
    assert found is not None, line
    return int(found[1]), int(found[2])


def test_the_level_is_changed_by_the_tool_of_apache_kafka(any_broker: Broker, tools: JavaTools) -> None:
    at = any_broker.bootstrap
    level, epoch = described(tools, at)
    assert level == 2

    def tool(*arguments: str) -> str:
        return tools.succeed("kafka-features", "--bootstrap-server", at, *arguments)

    assert f"{FEATURE} can be downgraded to 1." in tool("downgrade", "--feature", f"{FEATURE}=1", "--dry-run")
    for arguments, told in (
        (("upgrade", "--feature", f"{FEATURE}=3"), f"Invalid update version 3 for feature {FEATURE}."),
        (("upgrade", "--feature", f"{FEATURE}=1"), f"Invalid update version 1 for feature {FEATURE}."),
        (("downgrade", "--feature", "transactions=1"), "Invalid update version 1 for feature transactions."),
    ):
        refused = tools.run("kafka-features", "--bootstrap-server", at, *arguments)
        assert refused.code == 1 and told in refused.output
    assert described(tools, at)[0] == 2
    try:
        assert f"{FEATURE} was downgraded to 1." in tool("downgrade", "--feature", f"{FEATURE}=1")
        # Apache Kafka answers before its brokers know a change.
        until(20, "downgraded", lambda: described(tools, at)[0] == 1)
        assert f"{FEATURE} was disabled." in tool("disable", "--feature", FEATURE)
        until(20, "disabled", lambda: described(tools, at)[0] == 0)
    finally:
        upgraded = tool("upgrade", "--feature", f"{FEATURE}=2")
    assert f"{FEATURE} was upgraded to 2." in upgraded
    until(20, "upgraded", lambda: described(tools, at)[0] == 2)
    assert described(tools, at)[1] > epoch


async def test_a_running_producer_follows_the_level() -> None:
    with running_kohort() as broker:
        async with Admin(bootstrap_servers=broker.bootstrap) as admin:
            await admin.create_topics([NewTopic("t", 1)])
            async with Producer(bootstrap_servers=broker.bootstrap, transactional_id="t") as producer:
                await producer.init_transactions()
                for number, level in enumerate((1, 0, 2, 1, 2)):
                    producer.begin_transaction()
                    await producer.send("t", f"{number}a".encode())
                    before = (await admin.describe_features()).finalized_features.get(FEATURE, 0)
                    lower = UpgradeType.SAFE_DOWNGRADE if level < before else UpgradeType.UPGRADE
                    await admin.update_features({FEATURE: FeatureUpdate(level, lower)})
                    await producer.send("t", f"{number}b".encode())
                    await producer.commit_transaction()
        await settled(broker.bootstrap, TopicPartition("t", 0))
        consumer = Consumer(bootstrap_servers=broker.bootstrap, isolation_level="read_committed")
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek_to_beginning()
        values: list[bytes] = []
        async with asyncio.timeout(60):
            while len(values) < 10:
                values += [record.value or b"" for record in await consumer.poll(timeout=1.0)]
        await consumer.close()
        assert values == [f"{number}{half}".encode() for number in range(5) for half in "ab"]
