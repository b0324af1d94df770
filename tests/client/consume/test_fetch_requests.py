"""The fetcher's next request: in a session, after a change, and after an error."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from kohort import ErrorCode
from kohort.wire.messages.fetch import FetchResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.client.conftest import eventually
from tests.client.fetching import FETCH, LONG, METADATA, ONE, ZERO, fetches, fetching, partitions_of


async def test_the_metadata_of_what_is_fetched_is_kept_and_no_longer() -> None:
    asked: list[list[str | None]] = []

    def watch(request: MetadataRequest) -> None:
        asked.append([topic.name for topic in request.topics or ()])

    async with fetching() as here:
        here.link.watch[METADATA] = watch
        for end in ("its removal", "closing"):
            here.fetcher.add([ZERO])
            await here.cluster.refresh()
            assert asked[-1] == ["t"]
            if end == "closing":
                await here.fetcher.close()
            else:
                here.fetcher.remove([ZERO])
            await here.cluster.refresh()
            assert asked[-1] == []


async def test_quiet_partitions_are_asked_for_in_one_session_without_naming_them_again() -> None:
    async with fetching() as here:
        states = here.fetch(ZERO, ONE)
        await here.asked(4)
        first, *others = here.requests
        assert (first.session_epoch, partitions_of(first)) == (0, [0, 1])
        assert [(request.session_epoch, partitions_of(request)) for request in others[:3]] == [
            (1, []),
            (2, []),
            (3, []),
        ]
        assert all(request.session_id for request in others)
        assert all(state.failures == 0 and state.slot is not None for state in states)
        assert (here.news, here.lost) == ([], [])


@pytest.mark.parametrize("ended_by", ["a pause", "its removal"])
async def test_a_quiet_partition_is_taken_out_of_the_session(ended_by: str) -> None:
    async with fetching() as here:
        state, _ = here.fetch(ZERO, ONE)
        await here.asked(2)
        if ended_by == "a pause":
            here.fetcher.pause(state)
        else:
            here.fetcher.remove([ZERO])
        await eventually(lambda: any(request.forgotten_topics_data for request in here.requests))
        (forgotten,) = next(request.forgotten_topics_data for request in here.requests if request.forgotten_topics_data)
        assert forgotten.partitions == [0]


async def test_a_seek_in_a_quiet_partition_is_asked_for_at_once() -> None:
    async with fetching() as here:
        await here.write(3)
        (state,) = here.fetch(ZERO, position=3)
        await here.asked(2)
        state.move(1)
        here.fetcher.fetch_more()
        await eventually(lambda: bool(here.news))
        assert [record.offset for record in here.fetcher.take(10)] == [1, 2]


async def test_each_empty_fetch_is_held_longer_than_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.client.consume.fetcher._LONGEST_WAIT_MS", 100)
    async with fetching(fetch_max_wait_ms=20) as here:
        here.fetch(ZERO)
        await eventually(lambda: any(request.max_wait_ms == 100 for request in here.requests))
        waits = [request.max_wait_ms for request in here.requests]
        del waits[waits.index(100) + 1 :]  # it may have gone on
        # New metadata begins again with the shortest.
        assert all(after in (20, min(2 * before, 100)) for before, after in pairwise(waits))
        assert waits[-4:] == [20, 40, 80, 100]
        await here.write(1)
        await eventually(lambda: any(request.max_wait_ms == 20 for request in here.requests[len(waits) :]))


@pytest.mark.parametrize("options", [{"fetch_min_bytes": 2}, {"fetch_max_wait_ms": 5_000}])
async def test_a_fetch_is_held_as_long_as_configured_if_it_waits_for_bytes_or_is_long(options: dict[str, Any]) -> None:
    # A fetch that may wait for more bytes delays records that are already there.
    async with fetching(**options) as here:
        here.fetch(ZERO)
        await here.asked()
        assert here.fetcher._wait_ms((0, 0), here.options.fetch_max_wait_ms) == here.options.fetch_max_wait_ms


async def test_a_seek_does_not_wait_for_the_fetch_that_the_broker_holds() -> None:
    async with fetching(fetch_max_wait_ms=600_000) as here:
        await here.write(3)
        (state,) = here.fetch(ZERO, position=3)
        await here.asked()
        state.move(1)
        here.fetcher.fetch_more()
        await eventually(lambda: bool(here.news))
        assert [record.offset for record in here.fetcher.take(10)] == [1, 2]


async def test_partitions_that_were_added_one_after_the_other_are_fetched_together_while_they_are_idle() -> None:
    async with fetching() as here:
        here.hold()
        first, second = *here.fetch(ZERO), *here.fetch(ONE)
        await eventually(lambda: len(here.requests) == 2)
        assert first.slot != second.slot
        here.release()
        await eventually(lambda: first.slot == second.slot and len(fetches()) == 1)
        await here.write(2, partitions=2)
        await eventually(lambda: first.buffered > 0 and second.buffered > 0)
        assert len(here.fetcher.take(10)) == 2


async def test_a_fetch_beside_another_one_is_not_held_longer() -> None:
    # Both would be in use, and a change would wait for one of them to return.
    async with fetching() as here:
        (first,) = here.fetch(ZERO)
        assert first.slot is not None and here.fetcher._wait_ms(first.slot, 40) == 80
        (second,) = here.fetch(ONE)
        assert second.slot is not None
        assert [here.fetcher._wait_ms(slot, 40) for slot in (first.slot, second.slot)] == [20, 20]


async def test_a_fetch_of_another_broker_lets_it_be_held_longer() -> None:
    async with fetching() as here:
        (state,) = here.fetch(ZERO)
        assert state.slot is not None
        assert here.fetcher._wait_ms((state.slot[0] + 1, 0), 40) == 80
        assert not here.fetcher._takes_over((state.slot[0] + 1, 0))


async def test_idle_fetches_of_different_brokers_stay_apart() -> None:
    async with fetching() as here:
        (state,) = here.fetch(ZERO)
        await eventually(lambda: state.slot in here.fetcher._idle)
        assert state.slot is not None and not here.fetcher._takes_over((state.slot[0] + 1, 0))
        assert state.slot in here.fetcher._idle


async def test_a_fetch_that_ended_is_not_idle_any_more() -> None:
    async with fetching() as here:
        (state,) = here.fetch(ZERO)
        await eventually(lambda: state.slot in here.fetcher._idle)
        here.fetcher.remove([ZERO])
        await eventually(lambda: not here.fetcher._fetches)
        assert not here.fetcher._idle


async def test_a_partition_for_which_no_slot_is_free_ends_a_fetch_that_only_repeats_an_empty_one() -> None:
    async with fetching() as here:
        here.hold()
        state, _ = *here.fetch(ZERO), *here.fetch(ONE)
        await eventually(lambda: len(here.requests) == 2)
        before = here.fetcher._changes
        here.fetcher._start_fetches()
        assert here.fetcher._changes == before, "nothing is wanted"
        state.move(0)
        here.fetcher._start_fetches()
        assert here.fetcher._changes > before


async def test_a_new_leader_of_a_quiet_partition_is_noticed() -> None:
    def led_anew(answer: MetadataResponse, client: str | None) -> None:
        for partition in answer.topics[0].partitions:
            partition.leader_epoch += 7

    async with fetching() as here:
        await here.write(3)
        (state,) = here.fetch(ZERO)
        await eventually(lambda: bool(here.news))
        here.fetcher.take(10)
        here.link.change[METADATA] = led_anew
        await here.cluster.refresh(["t"])
        await eventually(lambda: bool(here.lost))
        await eventually(lambda: not fetches())
        assert here.fetcher.must_check(state)


async def test_a_fetch_may_take_as_long_as_it_waits_at_the_broker() -> None:
    async with fetching(request_timeout_ms=30, fetch_max_wait_ms=60) as here:
        (state,) = here.fetch(ZERO)
        await here.asked(2)
        assert state.failures == 0


async def test_after_a_broken_connection_all_partitions_are_requested_again_after_a_pause() -> None:
    async with fetching(retry_backoff_ms=1_000, retry_backoff_max_ms=1_000) as here:
        (state,) = here.fetch(ZERO)
        await here.asked(2)
        before = here.link.asked[METADATA]
        here.link.cut_at[FETCH] = [False]
        await eventually(lambda: state.failures == 1)
        assert state.slot is None and state.retry_at > asyncio.get_running_loop().time() + 0.5
        await eventually(lambda: here.link.asked[METADATA] > before)
        state.retry_at = 0.0
        again = len(here.requests)
        here.fetcher.fetch_more()
        await here.asked()
        assert (here.requests[again].session_epoch, partitions_of(here.requests[again])) == (0, [0])


async def test_a_seek_during_a_fetch_that_fails_is_not_held_up() -> None:
    async with fetching(**LONG) as here:
        moved, other = here.fetch(ZERO, ONE)
        await here.asked(2)
        here.link.cut_at[FETCH] = [False]
        moved.move(0)
        await eventually(lambda: other.failures == 1)
        assert (moved.failures, moved.retry_at) == (0, 0.0)


async def test_a_session_that_the_broker_lost_is_restarted_at_once() -> None:
    def lost_once(answer: FetchResponse, client: str | None) -> None:
        answer.error_code, answer.responses = ErrorCode.FETCH_SESSION_ID_NOT_FOUND, []
        del here.link.change[FETCH]

    async with fetching(**LONG) as here:
        (state,) = here.fetch(ZERO)
        await here.asked(2)
        here.link.change[FETCH] = lost_once
        await eventually(lambda: sum(request.session_epoch == 0 for request in here.requests) == 2)
        await here.asked()
        assert [partitions_of(request) for request in here.requests if request.session_epoch == 0] == [[0], [0]]
        assert state.failures == 0


async def test_a_broker_that_loses_every_session_is_asked_again_after_a_pause() -> None:
    async with fetching(**LONG) as here:
        here.answer_all(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
        (state,) = here.fetch(ZERO)
        await eventually(lambda: state.failures == 1)
        assert len(here.requests) == 2


async def test_a_cancelled_fetch_begins_no_other_and_leaves_the_session() -> None:
    async with fetching() as here:
        (state,) = here.fetch(ZERO)
        await here.asked(2)
        (task,) = fetches()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() and state.slot is None and not fetches()
        here.fetcher.fetch_more()
        before = len(here.requests)
        await here.asked()
        assert here.requests[before].session_epoch == 0
