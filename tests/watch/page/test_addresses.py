"""Groups with any name, shown by the real server in a real browser: each view has an address that can be opened."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from playwright.async_api import expect

from kohort.model import TopicPartition
from tests.watch.page.conftest import OpenTab
from tests.watch.web.site import Site, generation, now, site

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAMES = (
    "", ".", "..", "...", "/", "a/b", "../../healthz", "%", "%2F", "%2e%2e", "<script>alert(1)</script>", "a b", "a+b",
    "a?b#c&id=d", "\u05d0\u05d1\u05d2 \u202eabc", "群組", "\udcff\udce9", "e\u0301\ufeff", "x" * 10_000, '"\'\\',
)  # fmt: skip

UNCHANGED = "!'()*"
"""Characters that browsers leave as they are."""


def address(name: str, rest: str = "", query: str = "") -> str:
    """The address of a group's view, as docs/watch-page.md describes it."""
    in_path = name not in ("", ".", "..")
    path = f"/groups/{quote(name.encode('utf-8', 'surrogateescape'), safe=UNCHANGED)}" if in_path else "/group"
    parts = "&".join(filter(None, ("" if in_path else f"id={name}", query)))
    return path + rest + (f"?{parts}" if parts else "")


def filled(here: Site, name: str) -> None:
    """A group that rebalanced once, and does not keep up."""
    topic = TopicPartition("orders", 0)
    here.apply(generation(name, now() - 60_000, 1, a=(0, 1)), at=now() - 60_000)
    here.apply(generation(name, now() - 30_000, 2, a=(0,), b=(1,)), at=now() - 30_000)
    here.commit(name, 5)
    here.live.sampled({topic: 9}, now())


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
async def test_every_document_of_a_group_has_an_address(name: str) -> None:
    async with site() as here:
        filled(here, name)
        for rest in ("", "/rebalances", "/rebalances/2", "/timeline"):
            answer = await here.get("/api" + address(name, rest))
            assert answer.status == 200, rest
            value: Any = answer.value
            record = value["rebalances"][0] if rest == "/rebalances" else value
            assert record.get("group", name) == name
        async with here.events(f"?group={quote(name.encode('utf-8', 'surrogateescape'), safe='')}") as events:
            assert (await events.next("group"))[1]["group"] == name


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
async def test_every_view_of_a_group_has_an_address(open_tab: OpenTab, name: str) -> None:
    async with open_tab.of(site()) as here:
        filled(here, name)
        tab = await open_tab(here.server.url)
        page = tab.page
        await page.get_by_role("table", name="Consumer groups").get_by_role("link").click()
        await expect(page.get_by_text("2 partitions, 2 rebalances")).to_be_visible()
        assert page.url == here.server.url + address(name)
        await page.get_by_role("tab", name="Members").click()
        await expect(page.get_by_role("table", name="Members").get_by_role("row")).to_have_count(3)
        assert page.url == here.server.url + address(name, query="tab=members")
        await page.reload()
        await expect(page.get_by_role("table", name="Members").get_by_role("row")).to_have_count(3)
        await page.get_by_role("tab", name="Rebalances").click()
        await page.get_by_role("table", name="Rebalances").get_by_role("link").first.click()
        await expect(page.get_by_role("heading", name="Who waited for whom")).to_be_visible()
        assert page.url == here.server.url + address(name, "/rebalances/2")
        document = await page.get_by_role("link", name="This rebalance as JSON").get_attribute("href")
        assert document == "/api" + address(name, "/rebalances/2")
        await page.get_by_role("link", name="Earlier").click()
        await expect(page.get_by_role("heading", name="Rebalance 1")).to_be_visible()
        await page.reload()
        await expect(page.get_by_role("heading", name="Rebalance 1")).to_be_visible()
        assert await tab.sideways() <= 0
        await page.keyboard.press("Escape")
        await expect(page.get_by_text("2 partitions, 2 rebalances")).to_be_visible()
        await page.go_back()
        await expect(page.get_by_role("heading", name="Rebalance 1")).to_be_visible()


async def test_a_finding_leads_to_its_document(open_tab: OpenTab) -> None:
    async with open_tab.of(site()) as here:
        here.apply(generation("emptied", now() - 60_000, 1, a=(0,)), at=now() - 60_000)
        here.commit("emptied", 5)
        here.apply(generation("emptied", now(), 2))
        here.live.sampled({TopicPartition("orders", 0): 9}, now())
        finding = (await here.get("/api/groups/emptied")).value["findings"][0]
        assert finding["code"] == "group-emptied"
        tab = await open_tab(f"{here.server.url}/groups/emptied")
        await tab.page.get_by_role("link", name="More about this").first.click()
        assert tab.page.url == f"{here.server.url}/static/findings.html#group-emptied"
        await expect(tab.page.get_by_role("heading", name="group-emptied")).to_be_in_viewport()
        await tab.page.get_by_role("link", name="All groups").click()
        await expect(tab.page.get_by_role("link", name="emptied")).to_be_visible()


async def test_an_address_without_a_group_says_so(open_tab: OpenTab) -> None:
    async with open_tab.of(site()) as here:
        assert (await here.get("/api/group")).error == "Name a group, as in ?id=orders."
        assert json.loads((await here.get("/api/group?id=none")).body)["error"]
        tab = await open_tab(f"{here.server.url}/group")
        await expect(tab.page.get_by_role("heading", name="There is no such page")).to_be_visible()
