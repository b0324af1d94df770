"""Pictures of the page in the documents. `--rewrite` takes them anew; look at each before you commit it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.watch.page.clusters import showcase
from tests.watch.page.conftest import OpenTab
from tests.watch.page.serve import serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

DOCS = Path(__file__).parents[3] / "docs"
PICTURES: dict[str, tuple[str, str, str, int]] = {
    "watch-groups.png": ("/", "desk", "light", 800),
    "watch-group.png": ("/groups/checkout-enricher", "desk", "light", 1240),
    "watch-rebalance.png": ("/groups/checkout-enricher/rebalances/45", "desk", "dark", 1000),
    "watch-phone.png": ("/groups/settlement", "phone", "dark", 1560),
}
"""Path, size and theme of each picture, and its height in pixels."""


@pytest.mark.parametrize("name", PICTURES)
async def test_the_document_shows_the_page(open_tab: OpenTab, request: pytest.FixtureRequest, name: str) -> None:
    path, size, scheme, height = PICTURES[name]
    async with open_tab.of(serving(showcase())) as server:
        tab = await open_tab(server.url + path, size, scheme)
        width = (tab.page.viewport_size or {"width": 0})["width"]
        await tab.page.set_viewport_size({"width": width, "height": height})
        texts: Any = {
            "/": "fraud-scoring",
            "/groups/checkout-enricher": "24 partitions, 18 rebalances",
            "/groups/settlement": "12 partitions, 8 rebalances",
        }
        await expect(tab.page.get_by_text(texts.get(path, "Who waited for whom")).first).to_be_visible()
        await expect(tab.page.locator("#cluster")).to_have_text("orders-eu")
        await expect(tab.page.get_by_text("Live", exact=True).first).to_be_visible()
        await tab.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert await tab.sideways() <= 0
        picture = await tab.page.screenshot()
    file = DOCS / "images" / name
    if request.config.getoption("--rewrite"):
        file.write_bytes(picture)
    # Fonts differ between machines, so only the sizes are compared.
    assert struct.unpack(">II", file.read_bytes()[16:24]) == (width, height)
    assert f"images/{name}" in (DOCS / "watch.md").read_text()
