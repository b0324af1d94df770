"""When a consumer commits by itself, what it leaves out, and what it says of a commit that fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kohort import ErrorCode, TopicPartition
from kohort.client import Cluster, CommitFailedError
from kohort.client.consume.commits import Commits, Positions
from kohort.client.options import ConsumerOptions
from kohort.errors import KohortError
from kohort.member import OffsetAndMetadata
from kohort.testing import Broker, Event, FaultHandle, RequestReceived
from kohort.wire.messages.offset_commit import OffsetCommitRequest
from tests.client.conftest import eventually

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class Reading:
    """A consumer without a subscription whose positions the test sets."""

    def __init__(self, cluster: Cluster, broker: Broker, **options: Any) -> None:
        self.cluster, self.broker = cluster, broker
        self.positions: Positions = {}
        given: dict[str, Any] = {"bootstrap_servers": "127.0.0.1:1", "group_id": "g", "auto_commit_interval_ms": 50}
        self.commits = Commits(cluster, ConsumerOptions.read({**given, **options}), lambda: self.positions)
        self.sent: list[dict[int, int]] = []
        broker.observe(self._sent)

    def _sent(self, event: Event) -> None:
        if isinstance(event, RequestReceived) and isinstance(event.request, OffsetCommitRequest):
            partitions = event.request.topics[0].partitions
            self.sent.append({partition.partition_index: partition.committed_offset for partition in partitions})

    def refuse(self, code: ErrorCode) -> FaultHandle:
        return self.broker.fault(keys="OffsetCommit", error=code.name, when="after", count=-1)

    def hold(self) -> FaultHandle:
        return self.broker.fault(keys="OffsetCommit", hold=True, when="after")

    def read_to(self, zero: int, one: int) -> None:
        self.positions = {ZERO: OffsetAndMetadata(zero), ONE: OffsetAndMetadata(one)}


@asynccontextmanager
async def reading(**options: Any) -> AsyncIterator[Reading]:
    async with Broker(topics={"t": 2}) as broker, Cluster.of(broker.bootstrap_servers) as cluster:
        made = Reading(cluster, broker, **options)
        yield made
        await made.commits.close()


@pytest.mark.parametrize(
    ("options", "automatic"),
    [
        pytest.param({}, True, id="in a group"),
        pytest.param({"enable_auto_commit": False}, False, id="switched off"),
        pytest.param({"group_id": None}, False, id="without a group"),
        pytest.param({"group_id": None, "enable_auto_commit": False}, False, id="neither"),
    ],
)
async def test_only_a_group_that_leaves_auto_commit_on_has_it(options: dict[str, Any], automatic: bool) -> None:
    async with reading(**options) as here:
        here.read_to(1, 1)
        assert here.commits.automatic is automatic
        await here.commits.commit_automatically()
        assert bool(here.sent) is automatic
        await asyncio.sleep(0.06)  # the interval
        here.commits.commit_if_due()
        assert bool(here.commits._tasks) is automatic


async def test_an_auto_commit_has_only_what_moved_since_the_last_commit() -> None:
    async with reading() as here:
        here.read_to(3, 4)
        await here.commits.commit_automatically()
        await here.commits.commit_automatically()
        here.read_to(3, 5)
        await here.commits.commit_automatically()
        await here.commits.commit({ZERO: 3}, None)
        await here.commits.commit_automatically()
        assert here.sent == [{0: 3, 1: 4}, {1: 5}, {0: 3}]
        assert here.broker.group("g").committed == {ZERO: 3, ONE: 5}


async def test_an_auto_commit_uses_the_positions_at_its_start() -> None:
    async with reading() as here:
        before: Positions = {ZERO: OffsetAndMetadata(2)}
        here.read_to(9, 9)
        await here.commits.commit_automatically(before)
        assert here.sent == [{0: 2}]


async def test_an_auto_commit_begins_once_in_each_interval_and_not_before_the_first_is_over() -> None:
    async with reading(auto_commit_interval_ms=3_600_000) as here:
        here.read_to(1, 1)
        here.commits.commit_if_due()
        assert not here.commits._tasks  # an hour has not passed
        here.commits._due_at = asyncio.get_running_loop().time()
        here.commits.commit_if_due()
        assert len(here.commits._tasks) == 1
        here.read_to(2, 2)
        here.commits.commit_if_due()
        assert len(here.commits._tasks) == 1
        await eventually(lambda: not here.commits._tasks)
        assert here.sent == [{0: 1, 1: 1}]


async def test_an_overtaken_commit_is_not_taken_for_the_stored_one() -> None:
    # The first one's answer arrives last. Which of the two the broker has is not known.
    async with reading() as here:
        held = here.hold()
        first = asyncio.create_task(here.commits.commit({ZERO: 5}, None))
        await held.wait_async()
        here.commits.forget([ZERO])  # given up, and won again
        held.release()
        await first
        here.positions = {ZERO: OffsetAndMetadata(5)}
        await here.commits.commit_automatically()
        assert here.sent == [{0: 5}, {0: 5}]


async def test_a_failing_auto_commit_is_repeated_and_logged_once_and_its_end_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "kohort.client")
    async with reading() as here:
        here.read_to(3, 4)
        refusal = here.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for _ in range(2):
            await here.commits.commit_automatically()
        refusal.remove()
        await here.commits.commit_automatically()
        assert here.sent == [{0: 3, 1: 4}] * 3
    began, ended = messages(caplog)
    assert began.startswith("auto commit failed: group=g: ") and began.endswith("(GROUP_AUTHORIZATION_FAILED)")
    assert "t-0 (GROUP_AUTHORIZATION_FAILED)" in began and "g: GROUP_AUTHORIZATION_FAILED" not in began
    assert ended.startswith("auto commit works again after ")


async def test_an_auto_commit_that_the_member_cannot_make_is_logged_with_its_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Closed:
        async def commit(self, offsets: Positions, timeout_ms: int) -> None:
            raise KohortError("the member is closed")

    async with reading() as here:
        here.read_to(3, 4)
        here.commits.driver = Closed()  # type: ignore[assignment]
        await here.commits.commit_automatically()
    assert messages(caplog) == ["auto commit failed: group=g: the member is closed (UNKNOWN_SERVER_ERROR)"]


async def test_a_commit_that_is_asked_for_raises_what_failed() -> None:
    async with reading() as here:
        here.read_to(3, 4)
        here.refuse(ErrorCode.OFFSET_METADATA_TOO_LARGE)
        with pytest.raises(CommitFailedError) as raised:
            await here.commits.commit(None, None)
        assert raised.value.errors == dict.fromkeys((ZERO, ONE), ErrorCode.OFFSET_METADATA_TOO_LARGE)


async def test_a_failed_commit_invalidates_the_one_before() -> None:
    # It may have been carried out, and then the group is behind the position.
    async with reading() as here:
        here.positions = {ZERO: OffsetAndMetadata(5)}
        await here.commits.commit_automatically()
        refusal = here.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
        with pytest.raises(CommitFailedError):
            await here.commits.commit({ZERO: 3}, None)
        refusal.remove()
        await here.commits.commit_automatically()
        assert here.sent == [{0: 5}, {0: 3}, {0: 5}]


async def test_closing_ends_what_is_under_way() -> None:
    async with reading() as here:
        here.read_to(3, 4)
        held = here.hold()
        task = here.commits.in_background(here.commits.commit_automatically())
        await held.wait_async()
        await here.commits.close()
        assert task.cancelled() and not here.commits._tasks


def messages(caplog: pytest.LogCaptureFixture) -> Sequence[str]:
    return [record.getMessage() for record in caplog.records if "commit" in record.getMessage()]
