"""The page of all groups, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.async_api import expect

from tests.watch.page.clusters import showcase
from tests.watch.page.conftest import SIZES, OpenTab
from tests.watch.page.made import NOW
from tests.watch.page.serve import MadeServer, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def server() -> Iterator[MadeServer]:
    with serving(showcase()) as made:
        yield made


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
async def test_no_view_is_wider_than_the_window(open_tab: OpenTab, server: MadeServer, size: str, scheme: str) -> None:
    tab = await open_tab(server.url, size, scheme)
    await expect(tab.page.get_by_role("row", name=re.compile("checkout-enricher"))).to_be_visible()
    assert await tab.sideways() <= 0
    await tab.page.goto(f"{server.url}/groups/checkout-enricher")
    await expect(tab.page.get_by_text("24 partitions, 18 rebalances")).to_be_visible()
    assert await tab.sideways() <= 0
    for name in ("Members", "Partitions"):
        await tab.page.get_by_role("tab", name=name).click()
        assert await tab.sideways() <= 0
    await tab.page.goto(f"{server.url}/groups/checkout-enricher/rebalances/45")
    await expect(tab.page.get_by_role("heading", name="Who waited for whom")).to_be_visible()
    assert await tab.sideways() <= 0


async def test_groups_that_hurt_are_first_and_say_why(open_tab: OpenTab, server: MadeServer) -> None:
    tab = await open_tab(server.url)
    rows = tab.page.get_by_role("table", name="Consumer groups").get_by_role("row")
    await expect(rows.nth(1)).to_contain_text("checkout-enricher")
    await expect(rows.nth(1)).to_contain_text("A partition has no reader; A member leaves and returns again and again")
    await expect(rows.nth(2)).to_contain_text("settlement")
    await expect(tab.page.get_by_role("button", name="2 Hurting")).to_be_visible()


async def test_the_search_the_sorting_and_the_choice_are_in_the_url(open_tab: OpenTab, server: MadeServer) -> None:
    tab = await open_tab(server.url)
    rows = tab.page.get_by_role("table", name="Consumer groups").locator("tbody").get_by_role("row")
    await expect(rows).to_have_count(14)
    await tab.page.get_by_role("button", name="Behind", exact=True).click()
    await expect(rows.first).to_contain_text("billing-export")
    await tab.page.get_by_role("button", name="Behind", exact=True).click()
    await expect(rows.first).to_contain_text("email-notifications")
    await expect(rows.last).to_contain_text("ledger-snapshot")  # not known is last in either direction
    await tab.page.get_by_role("searchbox").fill("consumer c")
    await expect(rows).to_have_count(6)
    await expect(tab.page.get_by_text("6 of 14 groups")).to_be_visible()
    assert tab.page.url == f"{server.url}/?sort=lag_seconds&filter=consumer+c"
    await tab.page.reload()
    await expect(rows).to_have_count(6)
    await expect(tab.page.get_by_role("searchbox")).to_have_value("consumer c")
    await expect(tab.page.get_by_role("columnheader", name="Behind")).to_have_attribute("aria-sort", "ascending")
    await tab.page.get_by_role("searchbox").fill("")
    await tab.page.get_by_role("button", name="1 Empty").click()
    await expect(rows).to_have_count(1)
    await expect(tab.page).to_have_url(re.compile("show=empty"))


async def test_a_group_is_searched_and_opened_with_the_keyboard_alone(open_tab: OpenTab, server: MadeServer) -> None:
    tab = await open_tab(server.url)
    page = tab.page
    rows = page.get_by_role("table", name="Consumer groups").locator("tbody").get_by_role("row")
    await expect(rows).to_have_count(14)
    await page.keyboard.press("/")
    await page.keyboard.type("audit")
    await expect(rows).to_have_count(1)
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{server.url}/groups/audit-archive")
    await page.go_back()
    await page.get_by_role("searchbox").fill("no such group")
    await page.keyboard.press("Enter")
    await page.keyboard.press("ArrowDown")
    await expect(page.get_by_role("searchbox")).to_be_focused()
    await page.get_by_role("searchbox").fill("")
    await page.keyboard.press("Enter")  # opens none of several
    await expect(page.get_by_role("link", name="checkout-enricher")).to_be_focused()
    await page.get_by_role("searchbox").focus()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{server.url}/groups/settlement")


async def test_groups_are_sorted_by_name_with_the_keyboard(open_tab: OpenTab, server: MadeServer) -> None:
    tab = await open_tab(server.url)
    links = tab.page.get_by_role("table", name="Consumer groups").locator("tbody").get_by_role("link")
    await expect(links.first).to_have_text("checkout-enricher")
    attention = tab.page.get_by_role("button", name="By attention")
    await expect(attention).to_have_attribute("aria-pressed", "true")
    heading = tab.page.get_by_role("columnheader", name="Group")
    await heading.get_by_role("button").focus()
    for sort, order in (("name", "ascending"), ("-name", "descending")):
        await tab.page.keyboard.press("Enter")
        await expect(heading).to_have_attribute("aria-sort", order)
        await expect(tab.page).to_have_url(f"{server.url}/?sort={sort}")
        names = sorted(server.cluster.groups, reverse=order == "descending")
        await expect(links).to_have_text(names)
    await tab.page.reload()
    await expect(links).to_have_text(names)
    await expect(attention).to_have_attribute("aria-pressed", "false")
    await attention.click()
    await expect(links.first).to_have_text("checkout-enricher")
    await expect(heading).not_to_have_attribute("aria-sort", "descending")
    await expect(tab.page).to_have_url(f"{server.url}/")


async def test_groups_are_sorted_by_name_on_a_phone(open_tab: OpenTab, server: MadeServer) -> None:
    tab = await open_tab(server.url, "phone")
    links = tab.page.get_by_role("table", name="Consumer groups").locator("tbody").get_by_role("link")
    await tab.page.get_by_label("Sort by").select_option("Group")
    await expect(links.first).to_have_text(min(server.cluster.groups))
    await tab.page.get_by_label("Sort by").select_option("Attention")
    await expect(links.first).to_have_text("checkout-enricher")


async def test_an_event_changes_a_row_and_the_counts(open_tab: OpenTab, server: MadeServer) -> None:
    tab = await open_tab(server.url)
    row = tab.page.get_by_role("row", name=re.compile("audit-archive"))
    await expect(row).to_contain_text("12.4 s")
    await tab.live()
    changed = server.cluster.groups["audit-archive"].summary() | {
        "lag_seconds": 95.0,
        "state": "PreparingRebalance",
        "lag": 70_123,
    }
    server.push("groups", {"at": NOW + 1000, "changed": [changed], "gone": ["billing-export"]})
    await expect(row).to_contain_text("1 min 35 s")
    await expect(row).to_contain_text("70,123")
    await expect(row).to_contain_text("PreparingRebalance")
    await expect(tab.page.get_by_role("button", name="13 Groups")).to_be_visible()
    await expect(tab.page.get_by_role("row", name=re.compile("billing-export"))).to_have_count(0)


async def test_answers_that_an_event_overtakes_hide_it_from_no_reader(open_tab: OpenTab, server: MadeServer) -> None:
    tab = await open_tab(server.url)
    row = tab.page.get_by_role("row", name=re.compile("audit-archive"))
    await expect(row).to_contain_text("12.4 s")
    await tab.live()
    made, may_arrive = await tab.delay("**/api/groups")
    for problem in ("The ends of topic secret cannot be read.", "The names of some topics cannot be read."):
        made.clear()
        server.cluster.problems.append(problem)
        server.push("problem", {"text": problem})
        await made.wait()
    changed = server.cluster.groups["audit-archive"].summary() | {"lag_seconds": 95.0}
    server.push("groups", {"at": NOW, "changed": [changed], "gone": ["billing-export"]})
    await expect(row).to_contain_text("1 min 35 s")
    may_arrive.set()
    await expect(tab.page.get_by_text("(2 problems)")).to_be_visible()
    assert "1 min 35 s" in await row.inner_text()
    assert await tab.page.get_by_role("button", name="13 Groups").is_visible()


async def test_an_answer_that_a_later_one_overtakes_is_not_shown(open_tab: OpenTab, server: MadeServer) -> None:
    tab = await open_tab(server.url)
    await expect(tab.page.get_by_role("row", name=re.compile("audit-archive"))).to_be_visible()
    await tab.live()
    made, may_arrive = await tab.delay("**/api/groups")
    for problem in ("The ends of topic secret cannot be read.", "The names of some topics cannot be read."):
        server.cluster.problems.append(problem)
        server.push("problem", {"text": problem})
        await made.wait()
        await tab.page.route("**/api/groups", lambda route: route.continue_())  # the second request is not delayed
    await expect(tab.page.get_by_text("(2 problems)")).to_be_visible()
    await tab.take("/api/groups", may_arrive)
    assert await tab.page.get_by_text("(2 problems)").is_visible()


async def test_rows_stay_in_place_while_a_reader_is_among_them(open_tab: OpenTab, server: MadeServer) -> None:
    tab = await open_tab(server.url)
    rows = tab.page.get_by_role("table", name="Consumer groups").locator("tbody").get_by_role("row")
    await tab.page.get_by_role("link", name="audit-archive").focus()
    await tab.live()
    before = await rows.all_inner_texts()
    changed = server.cluster.groups["price-watch"].summary() | {"hurts": True, "hurts_because": ["it is late"]}
    server.push("groups", {"at": NOW, "changed": [changed], "gone": []})
    await expect(tab.page.get_by_role("button", name="3 Hurting")).to_be_visible()
    names = [text.split("\n")[0] for text in await rows.all_inner_texts() if "it is late" not in text]
    assert names == [text.split("\n")[0] for text in before if "price-watch" not in text]
    await tab.page.get_by_role("searchbox").focus()
    await expect(rows.nth(2)).to_contain_text("price-watch")


async def test_a_lost_connection_is_said_and_the_figures_are_read_again(open_tab: OpenTab, server: MadeServer) -> None:
    tab = await open_tab(server.url)
    await tab.live()
    server.refuses_streams = True
    server.drop()
    await expect(tab.page.get_by_text("Reconnecting")).to_be_visible()
    await expect(tab.page.get_by_text("The connection to the server was lost at")).to_be_visible()
    del server.cluster.groups["settlement"]
    server.refuses_streams = False
    await tab.live()
    await expect(tab.page.get_by_text("The connection to the server was lost at")).to_have_count(0)
    await expect(tab.page.get_by_role("button", name="13 Groups")).to_be_visible()
    tab.may_complain()  # the browser reports each failed connection


async def test_the_page_says_what_its_sources_cannot_know(open_tab: OpenTab, server: MadeServer) -> None:
    server.cluster.problems.append("The ends of topic secret cannot be read.")
    tab = await open_tab(server.url)
    await expect(tab.page.get_by_text("(1 problem)")).to_be_visible()
    await expect(tab.page.get_by_text("The ends of topic secret cannot be read.")).to_be_visible()
    await expect(
        tab.page.get_by_text("A member that left and a member whose session expired write the same record.")
    ).to_be_visible()


async def test_times_are_in_the_browsers_zone_which_is_named(open_tab: OpenTab, server: MadeServer) -> None:
    tab = await open_tab(server.url)
    await expect(tab.page.get_by_text("Europe/Berlin (GMT+1)")).to_be_visible()


async def test_the_table_is_a_table_for_screen_readers(open_tab: OpenTab, server: MadeServer) -> None:
    tab = await open_tab(server.url)
    table = tab.page.get_by_role("table", name="Consumer groups")
    await expect(table).to_have_attribute("aria-rowcount", "15")
    await expect(tab.page.get_by_role("banner")).to_be_visible()
    await expect(tab.page.get_by_role("main")).to_be_visible()
    await expect(table).to_match_aria_snapshot(
        """
        - table "Consumer groups":
          - rowgroup:
            - row:
              - columnheader "Group"
              - columnheader "State"
          - rowgroup:
            - row:
              - rowheader /hurts. checkout-enricher/:
                - link "checkout-enricher":
                  - /url: /groups/checkout-enricher
              - cell "Stable"
              - cell "6"
              - cell "24"
        """
    )


async def test_the_theme_follows_the_system_until_it_is_chosen(open_tab: OpenTab, server: MadeServer) -> None:
    tab = await open_tab(server.url, scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = await tab.page.evaluate(ground)
    await tab.page.get_by_role("button", name="Theme: as the system").click()
    light = await tab.page.evaluate(ground)
    assert light != dark
    await tab.page.reload()
    assert await tab.page.evaluate(ground) == light
    await tab.page.get_by_role("button", name="Theme: light").click()
    assert await tab.page.evaluate(ground) == dark
