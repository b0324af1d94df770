"""A real browser, Debian's Chromium, and tabs of it that notice everything that goes wrong on a page."""

from __future__ import annotations

import asyncio
import os
import shutil
import uuid
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import pytest
import pytest_asyncio
from playwright.async_api import Browser, ConsoleMessage, Page, Route, async_playwright, expect

T = TypeVar("T")

WAIT_MS = 45_000
"""How long a test waits for what the page must show: long, since other tests keep the machine busy. No test waits for
the opposite so long."""
expect.set_options(timeout=WAIT_MS)
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
        self._may_complain = False
        page.on("console", self._heard)
        page.on("pageerror", lambda problem: self._complains(str(problem)))
        page.on("dialog", lambda dialog: self._complains(f"dialog: {dialog.message}"))

    def may_complain(self) -> None:
        """Allow complaints from the start to the end, such as the browser's own about each failed request."""
        self._may_complain = True
        self.complaints.clear()

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._complains(message.text)

    def _complains(self, text: str) -> None:
        if not self._may_complain:
            self.complaints.append(text)

    async def live(self) -> None:
        """Wait until the page receives the server's events: its figures may be there earlier."""
        await expect(self.page.locator("#connection-text")).to_have_text("Live")

    async def delay(self, pattern: str) -> tuple[asyncio.Event, asyncio.Event]:
        """Delay answers to these requests until the second event is set; the first is set when one was made."""
        made, may_arrive = asyncio.Event(), asyncio.Event()

        async def delayed(route: Route) -> None:
            answer = await route.fetch()
            made.set()
            await may_arrive.wait()
            await route.fulfill(response=answer)

        await self.page.route(pattern, delayed)
        return made, may_arrive

    async def take(self, path: str, may_arrive: asyncio.Event) -> None:
        """Let a delayed answer arrive, and wait until the page would have shown it: two frames later."""
        async with self.page.expect_request_finished(lambda request: path in request.url):
            may_arrive.set()
        await self.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    async def sideways(self) -> int:
        """Number of pixels by which the page is wider than the window."""
        width: int = await self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        return width


class OpenTab:
    """Opens a URL in a new tab: `await open_tab(url, size="phone", scheme="dark")`."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts = AsyncExitStack()
        self._tabs: list[Tab] = []

    async def __call__(self, url: str, size: str = "desk", scheme: Any = "light", **options: Any) -> Tab:
        width, height = SIZES[size]
        context = await self._browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            locale="en-US",
            timezone_id="Europe/Berlin",
            **options,
        )
        self._contexts.push_async_callback(context.close)
        context.set_default_timeout(WAIT_MS)
        tab = Tab(await context.new_page())
        self._tabs.append(tab)
        await tab.page.goto(url)
        return tab

    @asynccontextmanager
    async def of(self, server: AbstractAsyncContextManager[T] | AbstractContextManager[T]) -> AsyncIterator[T]:
        """Run a server. All tabs close before it ends: a page whose server ends complains that it is gone."""
        async with AsyncExitStack() as stack:
            if isinstance(server, AbstractAsyncContextManager):
                served = await stack.enter_async_context(server)
            else:
                served = stack.enter_context(server)
            stack.push_async_callback(self.close)
            yield served

    async def close(self) -> None:
        """Close all tabs."""
        await self._contexts.aclose()

    def check(self) -> None:
        """Fail if a tab complained."""
        assert [tab.complaints for tab in self._tabs if tab.complaints] == []


@pytest.fixture
def server() -> None:
    """The server of a module's tests, if the module has one of its own."""


@pytest_asyncio.fixture(loop_scope="session")
async def open_tab(chromium: Browser, server: object) -> AsyncIterator[OpenTab]:
    """Tabs of the browser. They close before `server` ends, and none may complain."""
    del server
    tabs = OpenTab(chromium)
    yield tabs
    await tabs.close()
    tabs.check()


@pytest.fixture
def fresh_name() -> str:
    """A name that no topic and no group has."""
    return f"shop-{uuid.uuid4().hex[:8]}"
