// All groups of the cluster, with those first that need attention.

import { get, groupPath, Refused } from "./api.js";
import { refusal } from "./app.js";
import { h, named, set, setText, visible } from "./dom.js";
import { ago, count, plural, seconds, UNKNOWN } from "./format.js";
import { showKnowledge } from "./knowledge.js";
import { sparkline } from "./sparkline.js";
import { parseSorting, sortingText, VirtualTable } from "./table.js";

const BEHIND_SECONDS = 60;
const SETTLED = new Set(["Stable", "Empty", "Dead"]);
const ORDERS = [{ key: "attention", label: "Attention", first: -1, sort: attention }];
const DEFAULT = { key: "attention", direction: -1 };

/** The figures above the table: each counts groups, and shows only these when it is pressed. */
const SHOWN = [
  ["", "Groups", () => true],
  ["hurts", "Hurting", (group) => group.hurts],
  ["rebalancing", "Rebalancing", (group) => !SETTLED.has(group.state)],
  ["dark", "With dark partitions", (group) => group.dark_now > 0],
  ["behind", "Over 1 min behind", (group) => (group.lag_seconds ?? 0) > BEHIND_SECONDS],
  ["empty", "Empty", (group) => group.members === 0],
];

export function stateBadge(state) {
  const kind = state === "Stable" ? "calm" : state === "Empty" || state === "Dead" ? "idle" : "moving";
  return h("span", { class: `badge ${kind}` }, visible(state));
}

/** How much a group asks for attention: it hurts, is dark, rebalances, lags. Lags in steps of 10 s, so that rows keep their places. */
function attention(group) {
  return (group.hurts ? 1e9 : 0) + Math.min(group.dark_now ?? 0, 1e4) * 1e4 + (SETTLED.has(group.state) ? 0 : 1e6) +
    Math.min(group.rebalances_1h ?? 0, 999) * 10 + Math.floor(Math.min(group.lag_seconds ?? 0, 9999) / 10) / 100;
}

export function groupsView(page, feed) {
  const groups = new Map();
  let query = { filter: "", show: "", sorting: DEFAULT };
  let historyFrom = null;
  let table = null;
  let order = [];
  let failed = false;
  let stopped = false;
  let asked = 0; // number of the last request for all groups
  let answered = 0; // number of the request whose answer is shown
  const waiting = new Set(); // numbers of the requests without an answer
  let news = []; // events since the oldest of them, each with the number of the last request before it

  const columns = [
    {
      key: "name", label: "Group", rowHeader: true, natural: true, sort: (group) => group.group,
      signature: (group) => JSON.stringify([group.group, group.hurts, group.hurts_because, group.type]), cell: nameCell,
    },
    { key: "state", label: "State", sort: (group) => group.state, cell: (group) => stateBadge(group.state), signature: (group) => group.state },
    { key: "members", label: "Members", number: true, first: -1, sort: (group) => group.members, cell: (group) => count(group.members) },
    { key: "partitions", label: "Partitions", number: true, first: -1, sort: (group) => group.partitions, cell: (group) => count(group.partitions) },
    { key: "lag", label: "Lag", number: true, first: -1, sort: (group) => group.lag, hint: "Records that are not committed", cell: (group) => count(group.lag) },
    {
      key: "lag_seconds", label: "Behind", number: true, first: -1, sort: (group) => group.lag_seconds,
      hint: "Age of the oldest record that is not committed", cell: (group) => seconds(group.lag_seconds),
    },
    {
      key: "series", label: "Last hour", hint: "Lag in seconds over the last hour",
      signature: (group) => `${group.lag_series?.length} ${group.lag_series?.at(-1)} ${Math.floor(page.now() / 60_000)}`,
      cell: (group) => sparkline(group.lag_series ?? [], page.now()),
    },
    {
      key: "rebalances", label: "Rebalances", number: true, first: -1, sort: (group) => group.rebalances_1h,
      hint: "Rebalances in the last hour", cell: (group) => count(group.rebalances_1h),
    },
    {
      key: "dark", label: "Dark", number: true, first: -1, sort: (group) => group.dark_seconds_1h,
      hint: "Time for which partitions had no reader, summed over partitions, in the last hour",
      signature: (group) => `${group.dark_now} ${group.dark_seconds_1h}`, cell: darkCell,
    },
    {
      key: "last", label: "Last rebalance", first: -1, sort: (group) => group.last_rebalance?.at ?? null,
      signature: (group) => `${group.last_rebalance?.generation} ${group.last_rebalance?.cause} ${ago(group.last_rebalance?.at, page.now())}`,
      cell: (group) => lastCell(group, page.now()),
    },
  ];

  const figures = SHOWN.map(([show, label]) => {
    const number = h("span", { class: "figure" }, UNKNOWN);
    const button = h("button", { type: "button", class: `tile ${show || "all"}`, "aria-pressed": "false", on: { click: () => change({ show: query.show === show ? "" : show }) } }, number, h("span", { class: "label" }, label));
    return { show, number, button };
  });
  const search = h("input", {
    type: "search", class: "search-input", id: "search", placeholder: "Search groups", autocomplete: "off", spellcheck: "false",
    on: {
      input: () => change({ filter: search.value }),
      keydown: (event) => {
        if (!["ArrowDown", "Enter", "Escape"].includes(event.key) || event.isComposing) return;
        event.preventDefault();
        if (event.key !== "Escape") {
          const link = table?.enter();
          if (event.key === "Enter" && order.length === 1) link?.click();
        } else if (search.value) change({ filter: (search.value = "") });
        else search.blur();
      },
    },
  });
  const found = h("span", { class: "found", role: "status" });
  const byAttention = h("button", {
    type: "button", class: "button by-attention", "aria-pressed": "true", on: { click: () => change({ sorting: DEFAULT }) },
    title: "Groups that hurt first, then those with dark partitions, then those that rebalance",
  }, "By attention");
  const place = h("div", { class: "table-loading" }, h("p", { class: "nothing" }, "Loading the groups …"));
  const knowledge = h("div");
  const element = h("section", { class: "groups-view" },
    h("div", { class: "title-line" }, h("h1", { tabindex: "-1" }, "Consumer groups"), h("span", { class: "since" })),
    h("div", { class: "tiles", role: "group", "aria-label": "Show groups" }, figures.map((each) => each.button)),
    h("div", { class: "search", role: "search" }, h("label", { for: "search", class: "unseen" }, "Search groups by name, state, type or cause"), search, h("kbd", { "aria-hidden": "true" }, "/"), found, byAttention),
    place, knowledge);

  function change(changes) {
    query = { ...query, ...changes };
    const standard = query.sorting.key === DEFAULT.key && query.sorting.direction === DEFAULT.direction;
    page.setQuery({ filter: query.filter, show: query.show, sort: standard ? null : sortingText(query.sorting) });
    table?.sortBy(query.sorting);
    render(true);
  }

  function take(parameters) {
    const show = parameters.get("show") ?? "";
    query = {
      filter: parameters.get("filter") ?? "",
      show: SHOWN.some(([known]) => known === show) ? show : "",
      sorting: parseSorting(parameters.get("sort"), [...ORDERS, ...columns]) ?? DEFAULT,
    };
    search.value = query.filter;
    table?.sortBy(query.sorting);
  }

  const matches = (group, words) => {
    const text = `${group.group} ${group.state} ${group.type ?? ""} ${group.last_rebalance?.cause ?? ""}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };

  /** Show the groups. Rows stay where they are while a reader is among them, unless the reader sorts or filters. */
  function render(asked = false) {
    if (!table) return;
    const all = [...groups.values()];
    for (const [index, [, , test]] of SHOWN.entries()) {
      const number = all.filter(test).length;
      setText(figures[index].number, count(number));
      figures[index].button.classList.toggle("zero", number === 0);
      figures[index].button.setAttribute("aria-pressed", String(figures[index].show === query.show));
    }
    const words = query.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const test = SHOWN.find(([show]) => show === query.show)[2];
    const chosen = all.filter((group) => test(group) && matches(group, words));
    if (asked || !table.held) {
      order = table.sorted(chosen).map((group) => group.group);
    } else {
      const still = new Set(chosen.map((group) => group.group));
      order = [...order.filter((id) => still.delete(id)), ...still];
    }
    byAttention.setAttribute("aria-pressed", String(query.sorting.key === DEFAULT.key));
    table.empty = all.length ? "No group matches." : "The cluster has no groups, as far as the sources tell.";
    table.show(order.map((id) => groups.get(id)));
    setText(found, chosen.length === all.length ? "" : `${count(chosen.length)} of ${plural(all.length, "group")}`);
  }

  async function load() {
    const number = ++asked;
    waiting.add(number);
    try {
      const document = await get("/api/groups");
      if (!stopped && number > answered) show(document, number); // else the answer to a later request was faster
    } catch (problem) {
      if (!(problem instanceof Refused)) throw problem;
      if (stopped || groups.size || number < answered) return;
      failed = true;
      set(place, refusal(problem, "The cluster"));
    } finally {
      waiting.delete(number);
      if (!waiting.size) news = [];
    }
  }

  function show(document, number) {
    answered = number;
    if (failed || !table) {
      failed = false;
      table?.close();
      table = new VirtualTable({
        name: "groups", label: "Consumer groups", columns, orders: ORDERS, key: (group) => group.group, heights: [52, 146], sorting: query.sorting,
        onSort: (sorting) => change({ sorting }), empty: "No group matches.",
      });
      set(place, table.element);
    }
    page.tookClock(document.at);
    page.setCluster(document.cluster);
    groups.clear();
    for (const group of document.groups) groups.set(group.group, group);
    // An event may overtake an answer that was made before it. The server does not repeat it, so it counts again; an
    // event that is older than the answer is followed by another one.
    for (const each of news) if (each.asked >= number) took(each.detail);
    historyFrom = document.history_from;
    setText(element.querySelector(".since"), historyFrom === null ? "Rebalances from now on" : `History since ${ago(historyFrom, page.now()).replace(" ago", "")} ago`);
    page.setSources(document.sources);
    showKnowledge(knowledge, document.sources, document.problems, page.now());
    render();
  }

  function took(detail) {
    for (const group of detail.changed) groups.set(group.group, group);
    for (const id of detail.gone) groups.delete(id);
  }

  feed.addEventListener("groups", ({ detail }) => {
    page.tookClock(detail.at);
    if (waiting.size) news.push({ asked, detail });
    took(detail);
    render();
  });
  feed.addEventListener("source", load);
  feed.addEventListener("problem", load);
  feed.addEventListener("solved", load);

  page.setTitle("Groups");
  return {
    element,
    start(parameters) {
      take(parameters);
      load();
    },
    query(parameters) {
      take(parameters);
      render(true);
    },
    refresh: load,
    tick: () => render(),
    close() {
      stopped = true;
      table?.close();
    },
  };
}

function nameCell(group) {
  const name = h("span", { class: "name", title: visible(group.group) }, named(group.group));
  const link = h("a", { href: groupPath(group.group) }, name);
  const because = (group.hurts_because ?? []).map((text) => visible(text)).join("; ");
  const mark = group.hurts ? h("span", { class: "mark", title: because }, h("span", { "aria-hidden": "true" }, "▲"), h("span", { class: "unseen" }, "hurts: ")) : null;
  const types = { classic: "classic protocol", consumer: "consumer protocol", streams: "streams protocol, members are not known" };
  const type = types[group.type] ?? "offsets without members";
  return [h("span", { class: "name-line" }, mark, link), h("span", { class: `because${group.hurts ? " hurts" : ""}`, title: because || type }, group.hurts && because ? because : type)];
}

function darkCell(group) {
  if (group.dark_now > 0) {
    return h("span", { class: "dark-now", title: `${plural(group.dark_now, "partition")} without a reader now` }, h("span", { class: "dark-square", "aria-hidden": "true" }), `${count(group.dark_now)} now`);
  }
  return seconds(group.dark_seconds_1h);
}

function lastCell(group, now) {
  const last = group.last_rebalance;
  if (!last) return h("span", { class: "faint" }, UNKNOWN);
  const text = last.cause ? visible(last.cause) : "cause unknown";
  return [h("span", { class: "cause", title: text }, text), h("span", { class: "faint" }, `${ago(last.at, now)}${last.moved ? `, ${count(last.moved)} moved` : ""}`)];
}
