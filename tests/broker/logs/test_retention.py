"""The broker deletes records after their retention time, by the config of the topic or of the broker."""

from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.broker.config.entries import Source
from kohort.log import PartitionLog
from kohort.wire.batches import Record, encode_batch
from tests.broker.conftest import MakeBroker
from tests.broker.peer import until
from tests.broker.virtual import VirtualBroker

OLD = 1_600_000_000_000
SOON = {"log.retention.check.interval.ms": "20"}


async def fill(broker: Broker, name: str, **configs: str) -> PartitionLog:
    """Ten segments of one old record each, on disk."""
    named = {key.replace("_", "."): value for key, value in configs.items()} | {"segment.bytes": "1024"}
    broker.topics.create(name, 1, named)
    log = broker.partition(name, 0)
    assert log is not None
    for _ in range(10):
        log.append(encode_batch([Record(0, OLD, None, b"x" * 800, ())]), log.leader_epoch)
    broker.writer.current()
    await broker.writer.drain()
    return log


@pytest.mark.parametrize("on_disk", [False, True])
async def test_old_segments_go_by_the_topics_time_or_the_brokers(
    start_broker: MakeBroker, tmp_path: Path, on_disk: bool
) -> None:
    data = tmp_path / "data" if on_disk else None
    broker = await start_broker(BrokerOptions(port=0, data=data, settings=SOON | {"log.retention.ms": "60000"}))
    logs = [
        await fill(broker, "brokers"),
        await fill(broker, "topics", retention_ms="1000"),
        await fill(broker, "kept", retention_ms="-1"),
        await fill(broker, "table", cleanup_policy="compact"),
        await fill(broker, "no-policy", cleanup_policy="", retention_ms="1000", retention_bytes="1"),
        await fill(broker, "half", retention_ms="-1", retention_bytes="4000"),
    ]
    await until(lambda: [log.start_offset for log in logs] == [10, 10, 0, 0, 0, 5])
    if on_disk:  # the writer sees to the files in its own time

        def files(name: str) -> int:
            return len(list((tmp_path / "data" / f"{name}-0").glob("*.log")))

        await until(lambda: [files(name) for name in ("brokers", "kept", "half")] == [1, 10, 5])


async def test_partitions_not_opened_since_the_start_are_checked_too(start_broker: MakeBroker, tmp_path: Path) -> None:
    options = BrokerOptions(port=0, data=tmp_path / "data", settings={"log.retention.ms": "60000"})
    first = await start_broker(options)
    await fill(first, "orders")
    await first.stop()
    await start_broker(BrokerOptions(port=0, data=tmp_path / "data", settings=SOON | {"log.retention.ms": "60000"}))
    await until(lambda: len(list((tmp_path / "data" / "orders-0").glob("*.log"))) == 1)


async def test_a_retention_time_changed_at_run_time_applies(start_broker: MakeBroker) -> None:
    broker = await start_broker(BrokerOptions(port=0, settings=SOON | {"log.retention.ms": "-1"}))
    log = await fill(broker, "orders")
    broker.change_config(Source.BROKER, {"log.retention.ms": "60000"})
    await until(lambda: log.start_offset == 10)


def test_the_interval_of_checks_follows_the_clock_of_the_brokers_timers() -> None:
    world = VirtualBroker({"log.retention.ms": "60000", "log.retention.check.interval.ms": "300000"})
    log = world.play(fill(world.broker, "orders"))
    world.let_pass(299)
    assert log.start_offset == 0
    world.let_pass(2)
    assert log.start_offset == 10
    world.play(world.broker.stop())
