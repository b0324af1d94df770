"""The pages of one group and of one rebalance, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Page, expect

from tests.watch.page.clusters import MadeCluster, showcase
from tests.watch.page.conftest import SIZES, OpenTab
from tests.watch.page.made import MINUTE, NOW, Json, MadeGroup
from tests.watch.page.serve import MadeServer, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUP = "/groups/checkout-enricher"


@pytest.fixture
def server() -> Iterator[MadeServer]:
    with serving(showcase()) as made:
        yield made


async def colour_at(page: Page, at: float, row: int) -> list[int]:
    """Colour of the timeline at a part (0 to 1) of its width, in the middle of a row of 24."""
    colour: list[int] = await page.evaluate(
        """([part, row]) => {
            const canvas = document.querySelector("canvas.base");
            const ratio = canvas.width / canvas.clientWidth;
            const plot = (canvas.clientHeight - 26 - 24) / 24;
            const copy = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
            copy.drawImage(canvas, -canvas.width * part, -(26 + (row + 0.5) * plot) * ratio);
            return [...copy.getImageData(0, 0, 1, 1).data];
        }""",
        [at, row],
    )
    return colour


async def shown(page: Page) -> None:
    await expect(page.get_by_text(re.compile("24 partitions, .* rebalance"))).to_be_visible()


async def test_dark_partitions_are_black_and_hatched(open_tab: OpenTab, server: MadeServer) -> None:
    group = server.cluster.groups["checkout-enricher"]
    dark = next(index for index, spans in enumerate(group.spans.values()) if spans[-1][2] == -1)
    since = group.spans[group.partitions[dark]][-1][0]
    tab = await open_tab(f"{server.url}{GROUP}?from={since + 2000}&to={NOW - 2000}")
    await shown(tab.page)
    colours = [tuple(await colour_at(tab.page, 0.5 + step / 1000, dark)) for step in range(12)]
    assert (0, 0, 0, 255) in colours
    assert any(min(colour[:3]) > 100 for colour in colours), "a hatch is brighter"
    other = (dark + 1) % 24
    assert max((await colour_at(tab.page, 0.5, other))[:3]) > 50


async def test_a_rebalance_is_opened_by_a_click_and_has_a_url(open_tab: OpenTab, server: MadeServer) -> None:
    record = server.cluster.groups["checkout-enricher"].records[-3]
    start, end = record.ended_at - MINUTE // 4, record.ended_at + MINUTE // 4
    tab = await open_tab(f"{server.url}{GROUP}?from={start}&to={end}")
    await shown(tab.page)
    box = tab.page.get_by_role("application", name="Partitions over time")
    place = await box.bounding_box()
    left = await tab.page.evaluate("Number.parseFloat(document.querySelector('canvas.base').clientWidth)")
    assert place is not None
    gutter = min(190, 60 + 7 * (len("payments") + 3))
    await box.hover(position={"x": gutter + (left - gutter) / 2, "y": 12})
    await expect(tab.page.locator(".tip")).to_contain_text(f"Rebalance {record.generation}")
    await box.click(position={"x": gutter + (left - gutter) / 2, "y": 12})
    await expect(tab.page).to_have_url(f"{server.url}{GROUP}/rebalances/{record.generation}")
    await expect(tab.page.get_by_role("heading", name=f"Rebalance {record.generation}")).to_be_visible()
    await tab.page.reload()
    await expect(tab.page.get_by_role("heading", name=f"Why: {record.cause}")).to_be_visible()
    await tab.page.go_back()
    await expect(tab.page).to_have_url(f"{server.url}{GROUP}?from={start}&to={end}")
    await shown(tab.page)


async def test_the_steps_of_an_instant_have_a_scale_of_different_times(open_tab: OpenTab, server: MadeServer) -> None:
    group = server.cluster.groups["checkout-enricher"]
    index, record = next(each for each in enumerate(group.records) if each[1].cause == "member left")
    at = record.ended_at
    parts = tuple(replace(part, revoked_at=at, assigned_at=at, first_read_at=at) for part in record.partitions)
    group.records[index] = replace(record, started_at=at, partitions=parts)
    tab = await open_tab(f"{server.url}{GROUP}/rebalances/{record.generation}")
    ticks = tab.page.locator(".waterfall .scale .tick")
    await expect(ticks).to_have_text(["0", "1 ms", "2 ms", "3 ms", "4 ms"])


async def test_a_rebalance_says_why_who_waited_and_what_moved(open_tab: OpenTab, server: MadeServer) -> None:
    group = server.cluster.groups["checkout-enricher"]
    record = next(record for record in group.records if record.cause == "member left")
    tab = await open_tab(f"{server.url}{GROUP}/rebalances/{record.generation}")
    await expect(tab.page.get_by_role("heading", name="Why: member left")).to_be_visible()
    await expect(tab.page.get_by_text("A member left by itself")).to_be_visible()
    bars = tab.page.get_by_role("table", name="Steps of each member")
    await expect(bars.get_by_role("row")).to_have_count(1 + len(record.before))
    await expect(bars.get_by_text(re.compile(r"^revoke: .* partitions?$")).first).to_be_attached()
    await expect(bars.get_by_text("waited for").first).to_be_visible()
    moves = tab.page.get_by_role("table", name="Partitions that changed")
    await expect(moves).to_have_attribute("aria-rowcount", str(1 + len(record.partitions)))
    await expect(tab.page.get_by_role("heading", name="Went (1)")).to_be_visible()
    later = tab.page.get_by_role("link", name="Later")
    await later.click()
    await expect(tab.page.get_by_role("heading", name=f"Rebalance {record.generation + 1}")).to_be_visible()


async def test_the_range_is_in_the_url_and_outlives_a_reload(open_tab: OpenTab, server: MadeServer) -> None:
    tab = await open_tab(f"{server.url}{GROUP}")
    await shown(tab.page)
    await tab.page.get_by_role("button", name="15 min").click()
    await expect(tab.page).to_have_url(f"{server.url}{GROUP}?last=900000")
    box = tab.page.get_by_role("application", name="Partitions over time")
    await box.scroll_into_view_if_needed()
    place = await box.bounding_box()
    assert place is not None
    await tab.page.mouse.move(place["x"] + 500, place["y"] + 100)
    await tab.page.mouse.down()
    # In one step: between two steps, the page may write the range of the first into the URL.
    await tab.page.mouse.move(place["x"] + 700, place["y"] + 100)
    await tab.page.mouse.up()
    await expect(tab.page).to_have_url(re.compile(r"from=\d+&to=\d+"))
    query = parse_qs(urlsplit(tab.page.url).query)
    assert abs(int(query["to"][0]) - int(query["from"][0]) - 15 * MINUTE) <= 1
    assert int(query["to"][0]) < NOW
    await tab.page.reload()
    await expect(tab.page.get_by_role("button", name="Live")).to_have_attribute("aria-pressed", "false")
    await shown(tab.page)  # what is above the picture is there, so it stays under the pointer
    before = int(query["from"][0])
    await box.hover(position={"x": 600, "y": 100})
    await tab.page.keyboard.down("Control")
    await tab.page.mouse.wheel(0, -300)
    await tab.page.keyboard.up("Control")
    await expect(tab.page).not_to_have_url(re.compile(f"from={before}"))
    query = parse_qs(urlsplit(tab.page.url).query)
    assert int(query["to"][0]) - int(query["from"][0]) < 8 * MINUTE


async def test_the_keyboard_reaches_and_opens_everything(open_tab: OpenTab, server: MadeServer) -> None:
    tab = await open_tab(server.url)
    page = tab.page
    await expect(page.get_by_role("link", name="checkout-enricher")).to_be_visible()
    await page.keyboard.press("/")
    await expect(page.get_by_role("searchbox")).to_be_focused()
    await page.keyboard.type("checkout")
    await expect(page.get_by_text("1 of 14 groups")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("searchbox")).to_have_value("")
    await walk_to(page, "a", "checkout-enricher")
    await page.keyboard.press("ArrowDown")
    await expect(page.get_by_role("link", name="settlement")).to_be_focused()
    await page.keyboard.press("End")
    await expect(page.locator("tr:last-child a")).to_be_focused()
    await page.keyboard.press("Home")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="checkout-enricher", level=1)).to_be_focused()
    await shown(page)
    await walk_to(page, "div", "")
    await expect(page.get_by_role("application")).to_be_focused()
    await page.keyboard.press("End")
    await expect(page.locator("#announcer")).to_contain_text("18 of 18")
    await page.keyboard.press("ArrowLeft")
    await expect(page.locator("#announcer")).to_contain_text("17 of 18")
    await page.keyboard.press("ArrowDown")
    await expect(page.locator("#announcer")).to_contain_text("orders-0")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Rebalance 56")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("heading", name="checkout-enricher", level=1)).to_be_focused()
    await shown(page)
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("heading", name="Consumer groups")).to_be_focused()
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def walk_to(page: Page, tag: str, text: str) -> None:
    """Press Tab until an element has the focus; each on the way shows that it has it."""
    for _ in range(60):
        await page.keyboard.press("Tab")
        found = await page.evaluate(
            """() => {
                const element = document.activeElement;
                const style = getComputedStyle(element);
                return [element.tagName.toLowerCase(), element.tagName === "DIV" ? "" : element.textContent,
                    style.outlineStyle !== "none" && Number.parseFloat(style.outlineWidth) >= 1];
            }"""
        )
        assert found[2], f"the focus is not visible on {found[:2]}"
        if found[:2] == [tag, text]:
            return
    raise AssertionError(f"Tab does not reach {tag} {text!r}")


async def test_partitions_with_equal_figures_are_in_the_order_of_their_numbers(open_tab: OpenTab) -> None:
    class AllCaughtUp(MadeGroup):
        def detail(self) -> Json:
            detail = super().detail()
            for each in detail["partition_list"]:
                each |= {"lag": 0, "lag_seconds": 0.0, "method": "caught up"}
            return detail

    cluster = MadeCluster({"g": AllCaughtUp("g", {"orders": 12}, 2)})
    async with open_tab.of(serving(cluster)) as server:
        tab = await open_tab(f"{server.url}/groups/g?tab=partitions")
        names = tab.page.locator("table.partitions td.c-partition")
        await expect(names).to_have_text([f"orders-{number}" for number in range(12)])


async def test_tabs_and_their_sorting_are_in_the_url(open_tab: OpenTab, server: MadeServer) -> None:
    tab = await open_tab(f"{server.url}{GROUP}")
    await shown(tab.page)  # what is above the tabs would else push them out of sight later
    await tab.page.get_by_role("tab", name="Rebalances").focus()
    await tab.page.keyboard.press("ArrowRight")
    members = tab.page.get_by_role("table", name="Members")
    await expect(members.get_by_role("row")).to_have_count(7)
    await expect(tab.page).to_have_url(f"{server.url}{GROUP}?tab=members")
    await members.get_by_role("button", name="Joins").click()
    await expect(members.locator("tbody").get_by_role("row").first).to_contain_text("flapping")
    await tab.page.reload()
    await expect(tab.page.get_by_role("tab", name="Members")).to_have_attribute("aria-selected", "true")
    await expect(members.get_by_role("columnheader", name="Joins")).to_have_attribute("aria-sort", "descending")


async def test_an_event_shows_what_is_new(open_tab: OpenTab, server: MadeServer) -> None:
    tab = await open_tab(f"{server.url}{GROUP}")
    await shown(tab.page)
    await tab.live()
    group = server.cluster.groups["checkout-enricher"]
    group._restart(NOW - MINUTE)  # two more rebalances
    group.state = "PreparingRebalance"
    server.push("group", group.detail())
    await expect(tab.page.locator(".title-line")).to_contain_text("PreparingRebalance")
    await expect(tab.page.get_by_role("tab", name="Rebalances 20")).to_be_visible()
    await expect(tab.page.get_by_text("24 partitions, 20 rebalances")).to_be_visible()
    server.push("rebalance", {"group": group.group_id, "record": {"generation": 59, "cause": "member joined"}})
    await expect(tab.page.locator("#announcer")).to_have_text("Rebalance 59: member joined")


async def test_an_answer_that_an_event_overtakes_is_not_shown(open_tab: OpenTab, server: MadeServer) -> None:
    tab = await open_tab(f"{server.url}{GROUP}")
    await shown(tab.page)
    await tab.live()
    made, may_arrive = await tab.delay(f"**/api{GROUP}")
    server.push("groups", {"at": NOW, "changed": [], "gone": ["checkout-enricher"]})  # the page asks whether it is
    await made.wait()
    group = server.cluster.groups["checkout-enricher"]
    group.state = "PreparingRebalance"
    server.push("group", group.detail())
    await expect(tab.page.locator(".badges")).to_contain_text("PreparingRebalance")
    await tab.take(f"/api{GROUP}", may_arrive)
    assert "PreparingRebalance" in await tab.page.locator(".badges").inner_text()


@pytest.mark.parametrize("is_deleted", [True, False])
async def test_an_answer_that_a_later_one_overtakes_is_not_shown(
    open_tab: OpenTab, server: MadeServer, is_deleted: bool
) -> None:
    tab = await open_tab(f"{server.url}{GROUP}")
    await shown(tab.page)
    await tab.live()
    made, may_arrive = await tab.delay(f"**/api{GROUP}")
    asks = {"at": NOW, "changed": [], "gone": ["checkout-enricher"]}  # the page asks whether it is
    server.push("groups", asks)
    await made.wait()
    await tab.page.route(f"**/api{GROUP}", lambda route: route.continue_())  # later requests are not delayed
    if is_deleted:
        del server.cluster.groups["checkout-enricher"]
        tab.may_complain()  # the browser reports the answer 404
        news = tab.page.get_by_role("heading", name="This group is not known")
    else:
        server.cluster.groups["checkout-enricher"].state = "PreparingRebalance"
        news = tab.page.locator(".badges").get_by_text("PreparingRebalance")
    server.push("groups", asks)
    await expect(news).to_be_visible()
    await tab.take(f"/api{GROUP}", may_arrive)
    assert await news.is_visible()


async def test_a_deleted_group_that_is_back_is_shown_again(open_tab: OpenTab, server: MadeServer) -> None:
    tab = await open_tab(f"{server.url}{GROUP}")
    await shown(tab.page)
    await tab.live()
    tab.may_complain()  # the browser reports the answer 404
    group = server.cluster.groups.pop("checkout-enricher")
    server.push("groups", {"at": NOW, "changed": [], "gone": ["checkout-enricher"]})
    await expect(tab.page.get_by_role("heading", name="This group is not known")).to_be_visible()
    server.cluster.groups["checkout-enricher"] = group
    group.state = "PreparingRebalance"
    server.push("group", group.detail())
    await expect(tab.page.locator(".badges")).to_contain_text("PreparingRebalance")
    await expect(tab.page.get_by_role("heading", name="This group is not known")).to_have_count(0)


async def test_a_group_that_is_not_known_is_no_blank_page(open_tab: OpenTab, server: MadeServer) -> None:
    tab = await open_tab(f"{server.url}/groups/nobody")
    await expect(tab.page.get_by_role("heading", name="This group is not known")).to_be_visible()
    await tab.page.get_by_role("link", name="All groups").first.click()
    await expect(tab.page.get_by_role("heading", name="Consumer groups")).to_be_visible()
    await tab.page.goto(f"{server.url}{GROUP}/rebalances/999")
    await expect(tab.page.get_by_role("heading", name="This rebalance is not known")).to_be_visible()
    await tab.page.goto(f"{server.url}/nowhere")
    await expect(tab.page.get_by_role("heading", name="There is no such page")).to_be_visible()
    tab.may_complain()  # the browser reports each 404


async def test_a_server_with_a_token_asks_for_it(open_tab: OpenTab, server: MadeServer) -> None:
    server.token = "s3cret"
    tab = await open_tab(f"{server.url}/?sort=lag")
    await tab.page.get_by_label("Token").fill("wrong")
    await tab.page.get_by_role("button", name="Open").click()
    await expect(tab.page.get_by_text("This is not the token.")).to_be_visible()
    # Nothing was ever shown, so no connection to it was lost.
    await expect(tab.page.get_by_text("The connection to the server was lost")).to_have_count(0)
    await expect(tab.page.get_by_text("Reconnecting")).to_be_hidden()
    await tab.page.get_by_label("Token").fill("s3cret")
    await tab.page.keyboard.press("Enter")
    await expect(tab.page.get_by_role("link", name="checkout-enricher")).to_be_visible()
    await expect(tab.page.get_by_text("Live", exact=True)).to_be_visible()
    assert tab.page.url == f"{server.url}/?sort=lag"
    tab.may_complain()  # the browser reports each 401


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
async def test_text_has_the_contrast_of_wcag_aa(open_tab: OpenTab, server: MadeServer, size: str, scheme: str) -> None:
    tab = await open_tab(server.url, size, scheme)
    for path, text in (
        ("/", "fraud-scoring"),
        (f"{GROUP}?tab=members", "flapping"),
        (f"{GROUP}/rebalances/45", "Who waited for whom"),
    ):
        await tab.page.goto(server.url + path)
        await expect(tab.page.get_by_text(text).first).to_be_visible()
        assert await tab.page.evaluate(CONTRAST) == []


CONTRAST = """() => {
    const parse = (text) => {
        const numbers = text.match(/[\\d.]+/g).map(Number);
        return text.startsWith("color(") ? [...numbers.slice(0, 3).map((part) => part * 255), numbers[3] ?? 1] : [...numbers.slice(0, 3), numbers[3] ?? 1];
    };
    const light = (colour) => {
        const [r, g, b] = colour.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (element) => {
        for (let each = element; each; each = each.parentElement) {
            const style = getComputedStyle(each);
            const [r, g, b, alpha] = parse(style.backgroundColor);
            if (alpha > 0.99) return [r, g, b];
            if (style.backgroundImage.includes("gradient") && each.classList.contains("bar")) {
                return parse(style.backgroundImage.match(/(rgb|color)\\([^)]*\\)/)[0]).slice(0, 3);
            }
        }
        return [255, 255, 255];
    };
    const bad = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const element = node.parentElement;
        if (!node.textContent.trim() || element.closest(".unseen, noscript, [hidden], .skip") || !element.checkVisibility()) continue;
        const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground(element))].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        if (ratio < 4.5) bad.push(`${ratio.toFixed(2)} ${element.className} ${node.textContent.trim().slice(0, 40)}`);
    }
    return [...new Set(bad)];
}"""  # noqa: E501


async def test_members_of_one_client_id_are_told_apart_and_a_short_history_fills_the_picture(
    open_tab: OpenTab, server: MadeServer
) -> None:
    group = MadeGroup("twins", {"orders": 4}, 2)
    group.seen = [replace(each, client_id="app", client_host="/203.0.113.9") for each in group.members]
    group.members = group.seen
    for spans in group.spans.values():
        spans[:] = [[NOW - 2 * MINUTE, None, spans[-1][2]]]
    server.cluster.groups["twins"] = group
    tab = await open_tab(f"{server.url}/groups/twins?tab=members")
    for member in group.members:
        name = f"app …{member.member_id[-6:]}"
        await expect(tab.page.get_by_role("button", name=f"{name} 203.0.113.9")).to_be_visible()
        await expect(tab.page.get_by_role("table", name="Members").get_by_text(name, exact=True)).to_be_visible()
    await expect(tab.page.get_by_role("button", name="5 min", exact=True)).to_have_attribute("aria-pressed", "true")
    await tab.page.get_by_role("button", name="1 h", exact=True).click()
    await expect(tab.page).to_have_url(re.compile("last=3600000"))
