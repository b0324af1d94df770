"""A real browser, Debian's Chromium, and tabs of it that notice everything that goes wrong on a page."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright

SIZES = {"phone": (390, 844), "tablet": (768, 1024), "desk": (1200, 800), "wide": (1920, 1080)}


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """Chromium, one per test process; skips where it is missing."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is missing: install Debian's package `chromium`")
    # Chromium cannot make its sandbox as root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=arguments)
        yield browser
        await browser.close()


class Tab:
    """A page of the browser, and its complaints: errors of scripts, console errors, violations of the policy."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on(
            "console",
            lambda message: self.complaints.append(message.text) if message.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    async def sideways(self) -> int:
        """Number of pixels by which the page is wider than the window."""
        width: int = await self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        return width


OpenTab = Callable[..., Awaitable[Tab]]


@pytest_asyncio.fixture(loop_scope="session")
async def open_tab(chromium: Browser) -> AsyncIterator[OpenTab]:
    """Open a URL in a new tab: `await open_tab(url, size="phone", scheme="dark")`. No tab may complain."""
    tabs: list[Tab] = []
    async with AsyncExitStack() as stack:

        async def open_one(url: str, size: str = "desk", scheme: Any = "light", **options: Any) -> Tab:
            width, height = SIZES[size]
            context = await chromium.new_context(
                viewport={"width": width, "height": height},
                color_scheme=scheme,
                locale="en-US",
                timezone_id="Europe/Berlin",
                **options,
            )
            stack.push_async_callback(context.close)
            tab = Tab(await context.new_page())
            tabs.append(tab)
            await tab.page.goto(url)
            return tab

        yield open_one
    assert [tab.complaints for tab in tabs if tab.complaints] == []


@pytest.fixture
def fresh_name() -> str:
    """A name that no topic and no group has."""
    return f"shop-{uuid.uuid4().hex[:8]}"
