from __future__ import annotations

import asyncio

from kohort.model import TopicPartition
from kohort.watch import Live, SourceKind
from kohort.watch.changes import GroupDeleted
from kohort.watch.history import Histories
from kohort.watch.web import ClusterName
from kohort.watch.web.documents import Documents
from kohort.watch.web.feed import Feed
from tests.watch.web.site import generation, now, site


async def test_a_page_learns_of_changes_rebalances_problems_and_sources() -> None:
    async with site() as here, here.events() as events:
        assert (await events.next())[0] == "hello"
        here.apply(generation("g", now(), 1, a=(0,)))
        _, told = await events.next("rebalance")
        assert (told["group"], told["record"]["generation"], told["record"]["pending"]) == ("g", 1, False)
        _, told = await events.next("groups")
        assert ([each["group"] for each in told["changed"]], told["gone"]) == (["g"], [])
        here.live.problem("Topic secrets cannot be read.", now(), about="topic secrets")
        assert await events.next("problem") == ("problem", {"text": "Topic secrets cannot be read."})
        here.live.solved("topic secrets", now())
        assert await events.next("solved") == ("solved", {"text": "Topic secrets cannot be read."})
        here.live.source(SourceKind.LOG, "failed", now(), "No broker answers.")
        _, told = await events.next("source")
        assert (told["kind"], told["state"], told["detail"]) == ("log", "failed", "No broker answers.")


async def test_a_page_learns_that_a_group_is_gone() -> None:
    async with site() as here:
        here.apply(generation("g", now(), 1, a=(0,)))
        async with here.events() as events:
            await events.next("hello")
            here.apply(GroupDeleted("g", now(), "classic"))
            while not (told := (await events.next("groups"))[1])["gone"]:
                pass
            assert told["gone"] == ["g"]


async def test_the_page_of_one_group_learns_of_no_other() -> None:
    async with site() as here:
        here.apply(generation("mine/1", now(), 1, a=(0,)), generation("other", now(), 1, a=(0,)))
        async with here.events("?group=mine%2F1") as events:
            _, told = await events.next("group")
            assert (told["group"], told["members"]) == ("mine/1", 1)
            here.apply(generation("other", now(), 2, b=(0,)), generation("mine/1", now(), 2, b=(0,)))
            _, told = await events.next("rebalance")
            assert (told["group"], told["record"]["generation"]) == ("mine/1", 2)
            _, told = await events.next("groups")
            assert {each["group"] for each in told["changed"]} == {"mine/1"}
            _, told = await events.next("group")
            assert [member["member_id"] for member in told["member_list"]] == ["b"]


async def test_a_lag_that_grows_is_told_although_nothing_happens() -> None:
    async with site() as here:
        here.apply(generation("g", now(), 1, a=(0,)))
        here.commit("g", 5)
        here.live.sampled({TopicPartition("orders", 0): 9}, now())
        async with here.events() as events:
            seen: set[float | None] = set()
            while len(seen) < 2:
                for told in (await events.next("groups"))[1]["changed"]:
                    seen.add(told["lag_seconds"])


async def test_a_page_learns_of_what_a_request_saw_first() -> None:
    async with site() as here, here.events() as events:
        await events.next("hello")
        here.apply(generation("g", now(), 1, a=(0,)))
        assert (await here.get("/api/groups")).value["groups"]
        assert [group["group"] for group in (await events.next("groups"))[1]["changed"]] == ["g"]


async def test_nothing_is_kept_of_a_page_that_left() -> None:
    live = Live()
    live.apply([generation("g", now(), 1, a=(0,))], now())
    feed = Feed(live, Documents(live, Histories(live), ClusterName("kafka:9092")), now)
    running = asyncio.create_task(feed.run())
    page = feed.open("g", "127.0.0.1")
    assert page is not None
    while b"event: group\n" not in (await page.take(30.0) or b""):
        assert not page.closed
    feed.leave(page)
    another = feed.open("unknown", "127.0.0.1")
    assert another is not None
    feed.leave(another)
    assert (feed._details, feed._changed_groups) == ({}, set())
    running.cancel()


async def test_a_server_that_ends_listens_no_more() -> None:
    async with site() as here:
        assert here.live._sinks
    assert not here.live._sinks
