"""The journal's file and topic lose no rebalance while they cannot be written, and say so once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pytest

from kohort.client import Consumer
from kohort.errors import ErrorCode
from kohort.gateway import journal_outputs
from kohort.gateway.journal_outputs import JournalFile, JournalTopic
from kohort.model import TopicPartition
from kohort.recorder import RebalanceRecord
from kohort.testing import Broker

pytestmark = pytest.mark.timeout(60)
TOPIC = "journal-of-a-test"
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def record(number: int) -> RebalanceRecord:
    return RebalanceRecord("g", number, None, 1_000 + number)


class Disk:
    """A file on a disk that has room for so many bytes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.data = b""

    def write(self, data: bytes) -> int:
        if not self.room:
            raise OSError(28, "No space left on device")
        taken = bytes(data[: self.room])
        self.room -= len(taken)
        self.data += taken
        return len(taken)

    def close(self) -> None:
        pass


def test_lines_wait_while_a_disk_is_full(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, disk = JournalFile(tmp_path / "journal"), Disk(room=len(record(1).to_json()) + 20)
    file._file.close()
    file._file = disk  # type: ignore[assignment]
    for number in (1, 2, 3):
        file.add([record(number)])
    file.write()
    assert caplog.text.count("cannot be written, so its rebalances wait: No space left on device") == 1
    assert disk.data.count(b"\n") == 1
    disk.room = 1 << 20
    file.write()
    assert [RebalanceRecord.from_json(line) for line in disk.data.splitlines()] == [record(n) for n in (1, 2, 3)]
    assert "can be written again; rebalances left out meanwhile: 0" in caplog.text
    file.add([record(4)])
    assert RebalanceRecord.from_json(disk.data.splitlines()[3]) == record(4)


def test_what_a_full_disk_never_took_is_counted_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    file = JournalFile(Path("/dev/full"))
    file.add([record(1), record(2)])
    file.add([record(3)])
    file.close()
    assert "rebalances that are not in --journal /dev/full: 3" in caplog.text


def test_lines_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(journal_outputs, "_MOST_WAITING_BYTES", 2 * len(record(1).to_json()) + 10)
    file = JournalFile(Path("/dev/full"))
    file.add([record(number) for number in range(5)])
    assert (len(file._waiting.splitlines()), file._left_out) == (2, 3)
    file.close()
    assert "rebalances that are not in --journal /dev/full: 5" in caplog.text


def test_lines_that_were_left_out_are_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(journal_outputs, "_MOST_WAITING_BYTES", 2 * len(record(1).to_json()) + 10)
    file, disk = JournalFile(tmp_path / "journal"), Disk(room=0)
    file._file.close()
    file._file = disk  # type: ignore[assignment]
    for left_out in (2, 0):
        disk.room = 0
        file.add([record(number) for number in range(2 + left_out)])
        disk.room = 1 << 20
        file.write()
        assert caplog.messages[-1].endswith(f"rebalances left out meanwhile: {left_out}")


def test_a_line_that_a_killed_gateway_wrote_in_part_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(record(1).to_json() + b"\n" + record(2).to_json()[:10])
    for number in (3, 4):
        file = JournalFile(path)
        file.add([record(number)])
        file.close()
    lines = path.read_bytes().split(b"\n")
    assert [RebalanceRecord.from_json(lines[at]) for at in (0, 2, 3)] == [record(number) for number in (1, 3, 4)]
    assert lines[4:] == [b""]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    # A Kohort broker refuses the topic of this name, because it writes it itself.
    monkeypatch.setattr(journal_outputs, "JOURNAL_TOPIC", TOPIC)
    monkeypatch.setattr(journal_outputs, "_AGAIN_S", 0.1)
    with Broker() as broker:
        yield broker


async def written(broker: Broker, count: int) -> list[int]:
    """Return the generations of the records in the topic, when there are so many."""
    async with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        found: list[int] = []
        while len(found) < count:
            found += [RebalanceRecord.from_json(each.value or b"").generation for each in await consumer.poll()]
        return found


async def until_logged(caplog: pytest.LogCaptureFixture, what: str) -> None:
    for _ in repeat(None):
        if what in caplog.text:
            return
        await asyncio.sleep(0.02)


async def test_records_wait_while_the_topic_is_refused(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    topic = JournalTopic({"bootstrap_servers": broker.bootstrap_servers})
    with broker.fault(keys="Produce", topic=TOPIC, count=-1, error=DENIED) as refused:
        topic.start()
        topic.add([record(1), record(2)])
        await asyncio.to_thread(refused.wait, 3)
        topic.add([record(3)])
    await until_logged(caplog, "the journal's topic can be written again")
    assert caplog.text.count("the journal's topic cannot be written, so its rebalances wait") == 1
    topic.add([record(4)])
    await topic.close()
    assert await written(broker, 4) == [1, 2, 3, 4]
    assert "rebalances that are not in" not in caplog.text


async def test_a_topic_that_stays_refused_does_not_delay_the_end(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = JournalTopic({"bootstrap_servers": broker.bootstrap_servers})
    with broker.fault(keys="Produce", topic=TOPIC, count=-1, error=DENIED):
        topic.start()
        topic.add([record(1), record(2)])
        await until_logged(caplog, "the journal's topic cannot be written")
        await topic.close()
    assert "rebalances that are not in the journal's topic: 2" in caplog.text


async def test_a_cluster_that_does_not_answer_does_not_delay_the_end(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = JournalTopic({"bootstrap_servers": broker.bootstrap_servers})
    topic.start()
    topic.add([record(1)])
    assert await written(broker, 1) == [1]
    with broker.fault(keys="Produce", topic=TOPIC, count=-1, hold=True):
        topic.add([record(2)])
        before = asyncio.get_running_loop().time()
        await topic.close()
        assert asyncio.get_running_loop().time() < before + 4
    assert "rebalances that are not in the journal's topic: 1" in caplog.text


async def test_a_record_that_is_too_large_does_not_stop_the_others(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = JournalTopic({"bootstrap_servers": broker.bootstrap_servers})
    with broker.fault(keys="Produce", topic=TOPIC, error=ErrorCode.MESSAGE_TOO_LARGE):
        topic.start()
        topic.add([record(1), record(2)])
        assert await written(broker, 1) == [2]
    await topic.close()
    assert "group=g a rebalance is not in the journal's topic: MESSAGE_TOO_LARGE" in caplog.text


async def test_records_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch, broker: Broker) -> None:
    monkeypatch.setattr(journal_outputs, "_MOST_WAITING", 3)
    topic = JournalTopic({"bootstrap_servers": broker.bootstrap_servers})
    topic.add([record(number) for number in range(5)])
    topic.start()
    assert await written(broker, 3) == [2, 3, 4]
    await topic.close()
