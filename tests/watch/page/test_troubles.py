"""The page without data, while the watcher is blind, and on paper."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import expect

from tests.watch.page.clusters import MadeCluster, showcase
from tests.watch.page.conftest import OpenTab
from tests.watch.page.made import NOW, Json
from tests.watch.page.serve import serving

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Blind(MadeCluster):
    """A cluster whose sources fail."""

    state = "failed"

    def document(self) -> Json:
        source: dict[str, Any] = {"kind": "log", "since": NOW, "detail": "No broker answers at <b>.", "cannot": []}
        journal = {"kind": "journal", "state": "following", "since": NOW, "detail": None, "cannot": []}
        return super().document() | {"sources": [source | {"state": self.state}, journal]}


@pytest.mark.parametrize("size", ["phone", "desk"])
@pytest.mark.parametrize("path", ["/", "/groups/settlement", "/groups/settlement/rebalances/40"])
async def test_every_view_says_that_the_watcher_is_blind(open_tab: OpenTab, path: str, size: str) -> None:
    cluster = Blind(showcase().groups)
    async with open_tab.of(serving(cluster)) as server:
        tab = await open_tab(server.url + path, size)
        notice = tab.page.get_by_text("The watcher cannot follow the cluster now.")
        await expect(notice).to_be_in_viewport()
        await expect(tab.page.get_by_text("No broker answers at <b>.")).to_be_in_viewport()
        await expect(tab.page.get_by_text("Blind", exact=True)).to_be_visible()
        cluster.state = "following"
        server.push("source", cluster.document()["sources"][0])
        await expect(notice).to_have_count(0)
        await expect(tab.page.get_by_text("Live", exact=True).first).to_be_visible()


@pytest.mark.parametrize("path", ["/", "/groups/settlement", "/groups/settlement/rebalances/40"])
async def test_a_watcher_that_sees_again_before_the_page_is_connected_again_is_not_called_blind(
    open_tab: OpenTab, path: str
) -> None:
    cluster = Blind(showcase().groups)
    async with open_tab.of(serving(cluster)) as server:
        tab = await open_tab(server.url + path)
        notice = tab.page.get_by_text("The watcher cannot follow the cluster now.")
        await expect(tab.page.get_by_text("Blind", exact=True)).to_be_visible()
        server.refuses_streams = True
        server.drop()
        await expect(tab.page.get_by_text("Reconnecting")).to_be_visible()
        cluster.state = "following"
        server.refuses_streams = False
        await tab.live()
        await expect(notice).to_have_count(0)
        tab.may_complain()  # the browser reports each failed connection


async def test_a_cluster_without_groups_is_no_search_without_a_result(open_tab: OpenTab) -> None:
    async with open_tab.of(serving(MadeCluster({}))) as server:
        tab = await open_tab(server.url)
        await expect(tab.page.get_by_text("The cluster has no groups, as far as the sources tell.")).to_be_visible()


@pytest.mark.parametrize("size", ["phone", "tablet", "desk"])
async def test_no_figure_is_cut_off(open_tab: OpenTab, size: str) -> None:
    cut = """() => [...document.querySelectorAll("table.rows tbody td.number, table.rows tbody td.c-state")]
        .filter((cell) => cell.offsetParent
            && (cell.scrollWidth > cell.clientWidth + 1 || cell.getBoundingClientRect().right > innerWidth))
        .map((cell) => cell.className + ": " + cell.textContent)"""
    async with open_tab.of(serving(showcase())) as server:
        tab = await open_tab(server.url, size)
        await expect(tab.page.get_by_role("link", name="fraud-scoring")).to_be_visible()
        assert await tab.page.evaluate(cut) == []
        for path in ("", "?tab=members", "?tab=partitions", "/rebalances/45"):
            await tab.page.goto(f"{server.url}/groups/checkout-enricher{path}")
            # Rows that are out of sight have no elements.
            await tab.page.locator("table.rows:visible").scroll_into_view_if_needed()
            await expect(tab.page.locator("table.rows:visible tbody tr").first).to_be_attached()
            assert await tab.page.evaluate(cut) == [], path


async def test_paper_has_all_rows_in_light_colours(open_tab: OpenTab) -> None:
    async with open_tab.of(serving(showcase())) as server:
        tab = await open_tab(f"{server.url}/groups/clickstream-sessions?tab=partitions", "tablet", "dark")
        table = tab.page.get_by_role("table", name="Partitions")
        await expect(table).to_have_attribute("aria-rowcount", "121")
        assert await table.locator("tbody tr").count() < 60
        await tab.page.emulate_media(media="print", color_scheme="dark")
        await tab.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert await table.locator("tbody tr").count() == 120
        assert await tab.page.evaluate("getComputedStyle(document.body).color") == "rgb(26, 29, 36)"
        assert (await tab.page.pdf()).startswith(b"%PDF")
        await tab.page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert await table.locator("tbody tr").count() < 60
