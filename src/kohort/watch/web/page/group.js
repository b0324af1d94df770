// One group: figures, what to do, its partitions over time, and its tables.

import { get, groupPath } from "./api.js";
import { refusal } from "./app.js";
import { h, named, set, setText, visible } from "./dom.js";
import { showFindings } from "./findings.js";
import { count, seconds } from "./format.js";
import { memberTable, membersOf, partitionsOf, partitionTable, rebalanceTable } from "./group_tables.js";
import { stateBadge } from "./groups.js";
import { ownersOf } from "./palette.js";
import { sparkline } from "./sparkline.js";
import { parseSorting, sortingText } from "./table.js";
import { TimelineView } from "./timeline.js";

export function groupView(page, feed, groupId) {
  const owners = ownersOf(groupId);
  const timeline = new TimelineView(page, groupId);
  const figures = h("dl", { class: "figures" });
  const findings = h("div");
  const badges = h("span", { class: "badges" });
  const head = h("div", { class: "title-line" }, h("h1", { tabindex: "-1" }, named(groupId)), badges);
  const about = h("p", { class: "about" });
  const tabs = tabStrip(page, {
    rebalances: ["Rebalances", rebalanceTable(page, groupId)],
    members: ["Members", memberTable(page, owners)],
    partitions: ["Partitions", partitionTable(page, owners)],
  });
  const body = h("div", {}, figures, findings, timeline.element, tabs.element);
  const element = h("section", { class: "group-view" },
    h("nav", { class: "crumbs", "aria-label": "Breadcrumb" }, h("a", { href: "/", "data-up": "" }, "All groups")), head, about, body);
  let group = null;
  let stopped = false;
  let parameters = new URLSearchParams();
  let refused = false;
  let last = 0; // number of the last request or event
  let shown = 0; // number of the one whose figures are shown

  function show(detail) {
    group = detail;
    // Owners get their colours in the order of this list, whichever part of the page is ready first.
    for (const member of detail.member_list) owners.number(member.member_id);
    owners.met(detail.member_list);
    timeline.start();
    set(badges, stateBadge(detail.state), " ", detail.hurts ? h("span", { class: "badge wrong" }, "▲ hurts") : null);
    setText(about, aboutText(detail));
    showFigures();
    showFindings(findings, detail.findings ?? [], detail.hurts_because ?? []);
    tabs.show({
      rebalances: detail.rebalances, members: membersOf(detail), partitions: partitionsOf(detail, owners),
    });
  }

  function showFigures() {
    const now = page.now();
    const dark = group.dark_now > 0 ? h("span", { class: "dark-now" }, h("span", { class: "dark-square", "aria-hidden": "true" }), count(group.dark_now)) : count(group.dark_now);
    const items = [
      ["Lag", count(group.lag), "records"],
      ["Behind", [seconds(group.lag_seconds), sparkline(group.lag_series ?? [], now, { width: 120, height: 30 })], null],
      ["Members", count(group.members), null],
      ["Partitions", count(group.partitions), null],
      ["Dark now", dark, "partitions"],
      ["Dark in the last hour", seconds(group.dark_seconds_1h), group.dark_seconds_1h === null ? "no source tells it" : "summed over partitions"],
      ["Rebalances", count(group.rebalances_1h), "in the last hour"],
    ];
    set(figures, items.map(([label, value, note]) => h("div", {}, h("dt", {}, label), h("dd", {}, h("span", { class: "figure" }, value), note && h("span", { class: "faint" }, note)))));
  }

  async function load() {
    const number = ++last;
    let detail;
    try {
      detail = await get(`/api${groupPath(groupId)}`);
    } catch (problem) {
      if (stopped || number < shown || (group && problem.status !== 404)) return;
      refused = true;
      if (problem.status === 404) shown = number; // an answer from before the group was deleted may arrive later
      set(element, h("nav", { class: "crumbs" }, h("a", { href: "/", "data-up": "" }, "All groups")), refusal(problem, "This group"));
      return;
    }
    // What an event brought meanwhile may be newer, and the server does not repeat it.
    if (stopped || number < shown) return;
    shown = number;
    if (refused) {
      refused = false;
      set(element, h("nav", { class: "crumbs", "aria-label": "Breadcrumb" }, h("a", { href: "/", "data-up": "" }, "All groups")), head, about, body);
    }
    show(detail);
  }

  feed.addEventListener("group", (event) => {
    if (refused) {
      load(); // it may be back; an event from before it was deleted may arrive late, too
      return;
    }
    shown = ++last;
    show(event.detail);
  });
  feed.addEventListener("groups", (event) => {
    if (event.detail.gone?.includes(groupId)) load();
  });
  feed.addEventListener("rebalance", (event) => {
    if (event.detail.group !== groupId) return;
    const { record } = event.detail;
    page.announce(`Rebalance ${record.generation}: ${record.cause ? visible(record.cause) : "cause unknown"}`);
    timeline.changed();
  });

  page.setTitle(visible(groupId, 60));
  const header = () => get("/api/groups").then((document) => {
    if (stopped) return;
    page.setCluster(document.cluster);
    page.setSources(document.sources);
  }, () => {}); // without it, the view is still worth showing
  feed.addEventListener("source", header);
  header();
  return {
    element,
    start(query) {
      parameters = query;
      tabs.query(parameters);
      timeline.query(parameters);
      load();
    },
    query(query) {
      tabs.query(query);
      timeline.query(query);
    },
    refresh() {
      load();
      header();
    },
    tick() {
      timeline.tick();
      if (group && !refused) tabs.tick();
    },
    close() {
      stopped = true;
      timeline.close();
      tabs.close();
    },
  };
}

function aboutText(group) {
  const protocol = {
    classic: "Classic protocol",
    consumer: "Consumer protocol (KIP-848)",
    streams: "Streams protocol (KIP-1071): only state, offsets and lag are known",
  }[group.type];
  if (!protocol) return "Offsets that no group has, such as those of manual assignments";
  const parts = [protocol];
  if (group.protocol) parts.push(`assignor ${visible(group.protocol)}`);
  if (group.protocol_type && group.protocol_type !== "consumer") parts.push(`type ${visible(group.protocol_type)}`);
  if (group.epoch !== null && group.epoch !== undefined) parts.push(`${group.type === "classic" ? "generation" : "group epoch"} ${group.epoch}`);
  if (group.target_epoch !== null && group.target_epoch !== undefined && group.target_epoch !== group.epoch) parts.push(`target epoch ${group.target_epoch}`);
  return parts.join(" · ");
}

/** Tabs: their place is in the URL (`tab`), and so is the sorting of each table (`sort`). */
function tabStrip(page, tables) {
  const names = Object.keys(tables);
  let chosen = names[0];
  const buttons = {};
  const panels = {};
  const numbers = {};
  const strip = h("div", { role: "tablist", class: "tabs", "aria-label": "Details" });
  for (const name of names) {
    const [label, { table }] = tables[name];
    const number = h("span", { class: "number" });
    buttons[name] = h("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}`,
      on: { click: () => choose(name), keydown: (event) => keys(event, name) },
    }, label, " ", number);
    panels[name] = h("div", { role: "tabpanel", id: `panel-${name}`, "aria-labelledby": `tab-${name}`, class: "card" }, tables[name][1].note ?? null, table.element);
    numbers[name] = number;
    strip.append(buttons[name]);
    table.onSort = (sorting) => {
      table.sortBy(sorting);
      page.setQuery({ sort: sortingText(sorting) });
      render(name);
    };
  }

  function choose(name, toUrl = true) {
    chosen = name;
    for (const each of names) {
      buttons[each].setAttribute("aria-selected", String(each === name));
      buttons[each].tabIndex = each === name ? 0 : -1;
      panels[each].hidden = each !== name;
    }
    if (toUrl) page.setQuery({ tab: name === names[0] ? null : name, sort: null });
    render(name);
  }

  function keys(event, name) {
    const place = names.indexOf(name);
    const next = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: names.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const wanted = names[(next + names.length) % names.length];
    choose(wanted);
    buttons[wanted].focus();
  }

  const rows = {};
  function render(name) {
    const { table } = tables[name][1];
    if (rows[name]) table.show(table.sorted(rows[name]));
  }

  return {
    element: h("div", { class: "tab-place" }, strip, names.map((name) => panels[name])),
    show(found) {
      for (const name of names) {
        rows[name] = found[name] ?? [];
        setText(numbers[name], count(rows[name].length));
      }
      render(chosen);
    },
    query(parameters) {
      const wanted = parameters.get("tab");
      const name = names.includes(wanted) ? wanted : names[0];
      const { table, columns } = tables[name][1];
      const sorting = parseSorting(parameters.get("sort"), columns);
      if (sorting) table.sortBy(sorting);
      choose(name, false);
    },
    tick: () => render(chosen),
    close() {
      for (const name of names) tables[name][1].table.close();
    },
  };
}
