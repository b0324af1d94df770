"""The page as a user meets it: `kohort watch` as a process, a real cluster, real members and a real browser."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import Page, expect

from kohort import Admin, NewTopic, Producer
from tests.interop.broker import Broker
from tests.interop.kohort import kohort
from tests.interop.members import KohortMember
from tests.interop.process import ServerProcess
from tests.watch.page.conftest import WAIT_MS, OpenTab

pytestmark = pytest.mark.asyncio(loop_scope="session")

PARTITIONS = 6
APPEARS = """([group, generation]) => new Promise((done) => {
    const look = () => {
        const rows = [...document.querySelectorAll("table.rebalances td.c-generation")];
        if (rows.some((row) => row.textContent === String(generation))) done(Date.now());
        else requestAnimationFrame(look);
    };
    look();
})"""
"""Resolves with the time at which the table of rebalances has a row of the generation."""


async def produced(at: str, topic: str, number: int) -> None:
    async with Producer(bootstrap_servers=at) as producer:
        for value in range(number):
            await producer.send(topic, str(value).encode())


async def stopped(member: KohortMember) -> None:
    await asyncio.to_thread(member.stop)


async def document(page: Page, path: str) -> Any:
    return await page.evaluate("async (path) => (await fetch(path)).json()", path)


async def test_a_rebalance_is_seen_as_it_happens(
    any_broker: Broker, open_tab: OpenTab, fresh_name: str, remark: Callable[[str], None]
) -> None:
    at, name = any_broker.bootstrap, fresh_name
    async with Admin(bootstrap_servers=at) as admin:
        await admin.create_topics([NewTopic(name, PARTITIONS)])
    await produced(at, name, 60)
    process = ServerProcess(kohort("watch", "--listen", "127.0.0.1:0", "--history", "10m", "--bootstrap", at))
    members: list[KohortMember] = []
    try:
        url = (await asyncio.to_thread(process.wait_for, r"^ready (http\S+)$", 60.0))[1]
        tab = await open_tab(url)
        page = tab.page
        await expect(page.get_by_role("heading", name="Consumer groups")).to_be_visible()

        members.append(KohortMember(at, name, name))
        await page.get_by_role("searchbox").fill(name)  # the table draws only the rows that are in sight
        row = page.get_by_role("row", name=re.compile(name))
        await expect(row).to_contain_text("Stable")
        await expect(row).to_contain_text("first member")
        await page.get_by_role("link", name=name).click()
        await expect(page.get_by_text(f"{PARTITIONS} partitions, 1 rebalance")).to_be_visible()

        generation = (await document(page, f"/api/groups/{name}"))["epoch"] + 1
        appears = asyncio.create_task(page.evaluate(APPEARS, [name, generation]))
        members.append(KohortMember(at, name, name))
        async with asyncio.timeout(WAIT_MS / 1000):
            shown_at = await appears
        record = await document(page, f"/api/groups/{name}/rebalances/{generation}")
        late = shown_at - record["ended_at"]
        remark(f"the page showed a rebalance {late} ms after its end")
        assert late < 5_000  # events leave at most once a second; the rest is for a busy machine

        # Its row leads to why it happened, who waited for whom, and what moved.
        await page.get_by_role("table", name="Rebalances").get_by_role("link").first.click()
        assert page.url == f"{url}/groups/{name}/rebalances/{generation}"
        await expect(page.get_by_role("heading", name="Why: member joined")).to_be_visible()
        await expect(page.get_by_role("heading", name="Who waited for whom")).to_be_visible()
        moves = page.get_by_role("table", name="Partitions that changed")
        await expect(moves.get_by_role("row").nth(1)).to_contain_text(f"{name}-")
        await expect(page.locator(".waterfall")).to_contain_text("kohort")

        await page.keyboard.press("Escape")
        await page.get_by_role("tab", name="Members").click()
        table = page.get_by_role("table", name="Members")
        await expect(table.get_by_role("row")).to_have_count(3)
        await expect(table.locator(".c-owns").nth(1)).to_contain_text("3")
        await page.get_by_role("tab", name="Partitions").click()
        await expect(page.get_by_role("table", name="Partitions").get_by_role("row")).to_have_count(PARTITIONS + 1)

        # All members leave, and records wait: the page says what to do.
        while members:
            await stopped(members.pop())
        await produced(at, name, 30)
        await expect(page.get_by_role("heading", name="The group has no members, and records wait")).to_be_visible()
        await expect(page.locator(".badges")).to_contain_text("Empty")
        await page.get_by_role("link", name="More about this").first.click()
        await expect(page.get_by_role("heading", name="group-emptied")).to_be_visible()

        # The watcher ends while the page is open, and the page says so.
        await page.goto(url)
        await expect(page.get_by_text("Live", exact=True)).to_be_visible()
        await page.get_by_role("searchbox").fill(name)  # the broker has other tests' groups, too
        assert tab.complaints == []
        tab.may_complain()  # the browser reports each failed connection
        assert await asyncio.to_thread(process.stop) == 0
        await expect(page.get_by_text("Reconnecting")).to_be_visible()
        await expect(page.get_by_role("link", name=name)).to_be_visible()
    finally:
        await open_tab.close()  # a page whose server ends complains, which would hide why the test failed
        for member in members:
            await stopped(member)
        process.kill()
