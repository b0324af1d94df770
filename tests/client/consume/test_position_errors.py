"""The effect of errors of position lookups."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from kohort import ErrorCode, KafkaError, TopicPartition
from kohort.client import NoOffsetError
from kohort.wire.messages.offset_fetch import OffsetFetchResponse
from tests.client.conftest import eventually
from tests.client.positioning import (
    LIST_OFFSETS,
    LONG,
    METADATA,
    OFFSET_FETCH,
    ONE,
    ZERO,
    fails,
    found,
    logged,
    positioning,
    waiting,
)


async def test_an_error_of_several_partitions_is_raised_once_and_again_while_it_lasts() -> None:
    async with positioning() as here:
        here.refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED, ZERO, ONE)
        states = here.go_on(ZERO, ONE)
        for round_ in (1, 2):
            await here.asked(LIST_OFFSETS, round_)
            await eventually(lambda at=round_: len(here.news) == at)  # type: ignore[misc]
            await eventually(lambda: all(here.pause_of(state) < 0 for state in states))
            here.positioner.find_positions()
            assert not waiting()  # not before the application has got the error
            with pytest.raises(KafkaError) as raised:
                here.positioner.raise_error()
            assert raised.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            here.positioner.raise_error()


async def test_each_partition_without_an_offset_is_an_error_of_its_own() -> None:
    async with positioning(group_id="g", auto_offset_reset="none", **LONG) as here:
        states = here.go_on(ZERO, ONE)
        await eventually(lambda: len(here.news) == 2)
        for name in ("t-0", "t-1"):
            with pytest.raises(NoOffsetError, match=f"{name} has no committed offset"):
                here.positioner.raise_error()
        assert all(here.pause_of(state) > 40 for state in states)


async def test_without_a_group_and_a_policy_no_broker_is_asked() -> None:
    async with positioning(auto_offset_reset="none", **LONG) as here:
        (state,) = here.go_on(ZERO)
        assert (len(here.news), state.failures, waiting()) == (1, 1, [])
        with pytest.raises(NoOffsetError):
            here.positioner.raise_error()


async def test_a_seek_withdraws_the_error_of_a_lookup_that_is_under_way() -> None:
    async with positioning(**LONG) as here:
        here.refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED, ZERO, ONE)
        here.link.held[LIST_OFFSETS] = asyncio.Event()
        zero, one = here.go_on(ZERO, ONE)
        await here.asked(LIST_OFFSETS)
        zero.move(0)
        here.link.held[LIST_OFFSETS].set()
        await eventually(lambda: one.failures == 1)
        assert (zero.failures, zero.position, len(here.news)) == (0, 0, 1)


async def test_a_partition_whose_leader_may_have_moved_is_asked_for_after_pauses_that_double() -> None:
    async with positioning(retry_backoff_ms=1_000, retry_backoff_max_ms=600_000) as here:
        here.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER, ZERO)
        (state,) = here.add(ZERO)
        state.failures = 2
        await here.cluster.refresh(["t"])
        before = here.link.asked[METADATA]
        here.positioner.find_positions()
        await eventually(lambda: state.failures == 3)
        assert 3 < here.pause_of(state) < 5
        await here.asked(METADATA, before + 1)
        here.positioner.raise_error()  # nothing that the application could do
        assert here.news == []


async def test_a_partition_is_asked_for_again_when_its_pause_is_over() -> None:
    async with positioning() as here:
        here.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER, ZERO)
        (state,) = here.go_on(ZERO)
        await here.asked(LIST_OFFSETS, 3)
        del here.link.change[LIST_OFFSETS]
        await eventually(found(state))


async def test_partitions_whose_lookup_failed_together_are_asked_for_together() -> None:
    # One by one, a client would ask as often as it has partitions on a broker that fails.
    async with positioning() as here:
        here.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER, ZERO, ONE)
        zero, one = here.go_on(ZERO, ONE)
        for failures in (0, 3):
            await eventually(lambda more_than=failures: zero.failures > more_than)  # type: ignore[misc]
            assert (one.failures, one.retry_at) == (zero.failures, zero.retry_at)


async def test_failures_are_logged_until_they_end_or_are_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    async with positioning() as here:
        here.refuse(ErrorCode.KAFKA_STORAGE_ERROR, ZERO, ONE)
        zero, one = here.go_on(ZERO, ONE)
        await eventually(lambda: min(zero.failures, one.failures) > 1)
        assert [line.split(": ")[:2] for line in logged(caplog)] == [["no position yet", "t-0, t-1"]]
        here.positioner.forget([ONE])
        failures = one.failures
        await eventually(lambda: one.failures > failures)
        here.refuse(ErrorCode.KAFKA_STORAGE_ERROR, ZERO)
        await eventually(found(one))
        lines = logged(caplog)
        assert [line.split(": ")[1] for line in lines] == ["t-0, t-1", "t-1", "t-1"]
        assert lines[2].startswith("position found after ")


async def test_an_error_is_logged_although_the_cluster_has_another_one(caplog: pytest.LogCaptureFixture) -> None:
    async with positioning(**LONG) as here:
        here.link.change[METADATA] = fails
        with pytest.raises(KafkaError):
            await here.cluster.refresh(["t"])
        assert here.cluster.problem is not None
        here.refuse(ErrorCode.KAFKA_STORAGE_ERROR, ZERO)
        (state,) = here.go_on(ZERO)
        await eventually(lambda: state.failures == 1)
    assert [line.split(": ")[1] for line in logged(caplog)] == ["t-0"]


async def test_an_error_of_the_group_is_logged_for_a_topic_that_is_not_known(caplog: pytest.LogCaptureFixture) -> None:
    def loads(answer: OffsetFetchResponse, client: str | None) -> None:
        answer.groups[0].error_code, answer.groups[0].topics = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, []

    async with positioning(group_id="g", **LONG) as here:
        here.link.change = {METADATA: fails, OFFSET_FETCH: loads}
        (state,) = here.go_on(TopicPartition("u", 0))
        await eventually(lambda: state.failures == 1)
        assert "u" not in here.cluster.metadata.topics
    assert [line.split(": ")[1] for line in logged(caplog)] == ["u-0"]


async def test_a_partition_of_a_topic_that_metadata_does_not_have_yet_waits_for_it() -> None:
    # Its member has been assigned the new topic, and this client's metadata still has the one before.
    async with positioning() as here:
        (state,) = here.add(ZERO)
        state.granted = UUID(int=7)
        state.lose(None)
        here.positioner.find_positions()
        assert (state.failures, waiting()) == (1, [])
        await eventually(lambda: state.failures > 2)
        assert not here.link.asked[LIST_OFFSETS]
        state.granted = here.broker.topics.all()["t"].topic_id
        state.lose(None)
        await eventually(found(state))
