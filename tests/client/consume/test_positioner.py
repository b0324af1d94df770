"""When the position of a partition is looked up, and how often."""

from __future__ import annotations

import asyncio

import pytest

from kohort import OffsetSpec, TopicPartition
from kohort.client import Cluster
from kohort.client.membership.committed import commit_outside
from kohort.client.options import ConsumerOptions
from kohort.wire.messages.metadata import MetadataResponse
from tests.client.conftest import eventually
from tests.client.link import Link
from tests.client.positioning import (
    EPOCH_END,
    FETCH,
    LIST_OFFSETS,
    LONG,
    METADATA,
    MISSING,
    OFFSET_FETCH,
    ONE,
    ZERO,
    Positioning,
    found,
    logged,
    positioning,
    waiting,
)

# Requests


async def test_the_group_is_asked_first_and_only_for_partitions_without_a_position() -> None:
    async with positioning(group_id="g") as here:
        await commit_outside(here.cluster, "g", {ZERO: 3, ONE: 3})
        zero, one = here.add(ZERO, ONE)
        one.lose(OffsetSpec.EARLIEST)
        here.positioner.find_positions()
        await eventually(found(zero, one))
        assert (zero.position, one.position) == (3, 0)
        assert (here.link.asked[OFFSET_FETCH], here.link.asked[LIST_OFFSETS]) == (1, 1)


async def test_without_a_committed_offset_the_reset_is_looked_up_next_and_then_it_is_fetched() -> None:
    async with positioning(group_id="g") as here:
        (state,) = here.go_on(ZERO, paused=False)
        await eventually(found(state))
        assert (here.link.asked[OFFSET_FETCH], here.link.asked[LIST_OFFSETS]) == (1, 1)
        await here.asked(FETCH)


async def test_without_a_group_no_committed_offsets_are_requested() -> None:
    async with positioning() as here:
        states = here.go_on(ZERO, ONE)
        await eventually(found(*states))
        assert (here.link.asked[OFFSET_FETCH], here.link.asked[LIST_OFFSETS]) == (0, 1)
        here.positioner.find_positions()
        assert not waiting()  # a partition with a position is checked only if its leader changed
        assert not here.link.asked[EPOCH_END]


async def test_a_committed_offset_is_found_without_a_policy() -> None:
    async with positioning(group_id="g", auto_offset_reset="none") as here:
        await commit_outside(here.cluster, "g", {ZERO: 3})
        (state,) = here.go_on(ZERO)
        await eventually(found(state))
        here.positioner.raise_error()


async def test_a_partition_that_has_its_position_keeps_no_other_waiting() -> None:
    async with positioning() as here:
        zero, one = here.add(ZERO, ONE)
        zero.move(0)
        here.positioner.find_positions()
        await eventually(found(one))


async def test_a_partition_is_asked_for_once_at_a_time_and_again_when_it_loses_its_position() -> None:
    async with positioning() as here:
        here.link.held[LIST_OFFSETS] = asyncio.Event()
        (state,) = here.go_on(ZERO)
        here.positioner.find_positions()
        assert len(waiting()) == 1
        await here.asked(LIST_OFFSETS)
        here.link.held[LIST_OFFSETS].set()
        await eventually(found(state))
        state.lose(OffsetSpec.LATEST)
        here.positioner.find_positions()
        await eventually(found(state))
        assert here.link.asked[LIST_OFFSETS] == 2


async def test_a_partition_that_must_wait_is_asked_for_when_its_time_has_come() -> None:
    async with positioning() as here:
        (state,) = here.add(ZERO)
        state.retry_at = asyncio.get_running_loop().time() + 0.03
        here.positioner.find_positions()
        assert not waiting()
        await here.asked(LIST_OFFSETS)
        assert asyncio.get_running_loop().time() >= state.retry_at


async def test_a_seek_before_the_request_leaves_nothing_to_ask() -> None:
    async with positioning() as here:
        (state,) = here.go_on(ZERO)
        (task,) = waiting()
        state.move(4)
        await task
        assert (state.position, here.link.asked[LIST_OFFSETS]) == (4, 0)


# Partitions without a leader


async def test_the_leader_of_a_topic_that_is_not_known_yet_is_found_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async with positioning() as here:
        here.broker.topics.create("u", 1)
        (state,) = here.go_on(TopicPartition("u", 0))
        await eventually(found(state))
        assert (state.failures, logged(caplog)) == (0, [])


async def test_a_partition_that_does_not_exist_is_logged_and_asked_for_after_a_pause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with positioning(**LONG) as here:
        missing, zero = here.go_on(MISSING, ZERO)[::-1]
        await eventually(lambda: missing.failures == 1)
        assert 47 < here.pause_of(missing) < 73
        assert zero.failures == 0
    (line,) = logged(caplog)
    assert line.startswith("no position yet: t-5: ") and line.endswith("(UNKNOWN_TOPIC_OR_PARTITION)")


async def test_a_topic_that_does_not_exist_is_not_logged_for_each_partition(caplog: pytest.LogCaptureFixture) -> None:
    async with positioning(allow_auto_create_topics=False, **LONG) as here:
        (state,) = here.go_on(TopicPartition("missing", 0))
        await eventually(lambda: state.failures == 1)
    assert logged(caplog) == []
    assert any(record.getMessage().startswith("no metadata: topic=missing") for record in caplog.records)


async def test_without_a_broker_it_is_tried_again_after_a_pause_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = {"bootstrap_servers": "127.0.0.1:1", "auto_offset_reset": "earliest"}
    async with Cluster(ConsumerOptions.read(given)) as cluster:
        here = Positioning(None, Link(), cluster, ConsumerOptions.read({**given, **LONG}))  # type: ignore[arg-type]
        (state,) = here.go_on(ZERO)
        await eventually(lambda: state.failures == 1)
        assert here.pause_of(state) > 0
        await here.positioner.close()
        await here.fetcher.close()
    assert logged(caplog) == []
    assert sum(record.getMessage().startswith("no broker answers") for record in caplog.records) == 1


async def test_a_new_leader_is_asked_before_more_is_fetched() -> None:
    def led_anew(answer: MetadataResponse, client: str | None) -> None:
        for topic in answer.topics:
            for partition in topic.partitions:
                partition.leader_epoch += 7

    async with positioning() as here:
        (state,) = here.add(ZERO)
        state.move(4, 0)
        state.paused = False
        here.link.change[METADATA] = led_anew
        await here.cluster.refresh(["t"])
        here.positioner.find_positions()
        await here.asked(EPOCH_END)
        assert not here.link.asked[FETCH]


# Waiting and closing


async def test_progress_asks_and_waits_until_something_is_answered() -> None:
    async with positioning(**LONG) as here:
        (state,) = here.add(ZERO)
        async with asyncio.timeout(10):
            await here.positioner.progress()
        assert state.position == 0


async def test_progress_waits_for_retry_backoff_ms_while_nothing_is_answered() -> None:
    loop = asyncio.get_running_loop()
    async with positioning(retry_backoff_ms=20) as here:
        (state,) = here.go_on(ZERO)
        await eventually(found(state))
        here.link.held[LIST_OFFSETS] = asyncio.Event()
        for asks in (False, True):
            if asks:
                state.lose(OffsetSpec.LATEST)
            began = loop.time()
            await here.positioner.progress()
            assert loop.time() - began > 0.019


async def test_closing_ends_what_is_under_way_and_nothing_is_asked_afterwards() -> None:
    async with positioning() as here:
        here.link.held[LIST_OFFSETS] = asyncio.Event()
        here.go_on(ZERO)
        await here.asked(LIST_OFFSETS)
        await here.positioner.close()
        assert not waiting()
        here.positioner.find_positions()
        assert not waiting()
