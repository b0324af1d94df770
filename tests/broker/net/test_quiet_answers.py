"""While the disk is slow, heartbeats with nothing to say and nothing to hear are answered all the same.

The network thread of a Java member waits for such an answer in a busy loop once it is late, on the machine that may
have to write.
"""

import asyncio
import threading

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.coordinator import has_no_news
from kohort.errors import ErrorCode
from kohort.log import MemoryStore
from kohort.log.api import Pending
from kohort.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.offset_commit import OffsetCommitResponse
from tests.broker.conftest import QUICK, Connect, MakeBroker
from tests.broker.groups.test_consumer_groups import beat
from tests.broker.groups.test_groups import codes, commit_request, join
from tests.broker.peer import Peer, until


class SlowDisk(MemoryStore):
    """A store whose syncs wait for a permit once it is slow."""

    def __init__(self) -> None:
        super().__init__()
        self.permit = threading.Event()
        self.permit.set()
        self.writing = False

    def sync(self, pending: Pending) -> None:
        self.writing = True
        assert self.permit.wait(60)
        self.writing = False
        super().sync(pending)


@pytest.fixture
def store() -> SlowDisk:
    return SlowDisk()


@pytest.fixture
async def broker(start_broker: MakeBroker, store: SlowDisk) -> Broker:
    broker = await start_broker(BrokerOptions(port=0, settings=QUICK), store)
    broker.topics.create("orders", 1)
    return broker


async def commit_slowly(peer: Peer, store: SlowDisk, member: tuple[str, int]) -> None:
    """Begin a commit that is not on disk until `store.permit` is set."""
    await until(lambda: not store.writing)
    store.permit.clear()
    peer.send(commit_request(7, member=member), 9)
    await until(lambda: store.writing)


async def test_a_member_of_a_consumer_group(broker: Broker, store: SlowDisk, connect: Connect) -> None:
    committing, beating, joining = [await connect() for _ in range(3)]
    epoch = (await beat(beating)).member_epoch
    await commit_slowly(committing, store, ("a", epoch))
    assert (await beat(beating, "g", "a", epoch)).member_epoch == epoch
    # A response with news is sent only when no crash can revert it.
    joining.send(
        ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="b", rebalance_timeout_ms=5_000, topic_partitions=[],
            subscribed_topic_names=["orders"],
        ),
        1,
    )  # fmt: skip
    beating.send(ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch + 9), 1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await asyncio.gather(joining.reader.readexactly(1), beating.reader.readexactly(1))
    store.permit.set()
    assert codes(await committing.answer(OffsetCommitResponse)) == [0]


async def test_a_member_of_a_classic_group(broker: Broker, store: SlowDisk, connect: Connect) -> None:
    committing, beating = await connect(), await connect()
    member_id, generation = await join(beating)
    await commit_slowly(committing, store, (member_id, generation))
    alive = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
    assert (await beating.ask(alive, 4, HeartbeatResponse)).error_code == ErrorCode.NONE
    store.permit.set()
    assert codes(await committing.answer(OffsetCommitResponse)) == [0]


SILENT = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=5)
NOTHING = ConsumerGroupHeartbeatResponse(member_id="a", member_epoch=5, heartbeat_interval_ms=50)


def test_a_new_epoch_an_assignment_and_an_error_are_news() -> None:
    assert has_no_news(SILENT, NOTHING)
    for answer in (
        ConsumerGroupHeartbeatResponse(member_id="a", member_epoch=6, heartbeat_interval_ms=50),
        ConsumerGroupHeartbeatResponse(member_epoch=5, assignment=Assignment(topic_partitions=[])),
        ConsumerGroupHeartbeatResponse(member_epoch=5, error_code=ErrorCode.FENCED_MEMBER_EPOCH),
    ):
        assert not has_no_news(SILENT, answer)
    assert not has_no_news(HeartbeatRequest(), HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def test_the_answer_to_a_report_is_news() -> None:
    report = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=5, topic_partitions=[])
    assert not has_no_news(report, NOTHING)
