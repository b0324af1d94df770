// The page: it shows the view of the URL, and keeps the header, the keyboard and the connection's state.

import { Feed, fromSegment, Refused } from "./api.js";
import { h, set, setText, visible } from "./dom.js";
import { clock, zone } from "./format.js";
import { groupsView } from "./groups.js";
import { failures, isBlind } from "./knowledge.js";

const main = document.getElementById("main");
const banner = document.getElementById("banner");
const announcer = document.getElementById("announcer");

let view = null;
let feed = null;
let shown = "";
let skew = 0;
let blind = false;
let sourcesText = "";
let lostAt = null;
const sourceNotices = h("div");

/** What a view may use of the page. */
const page = {
  /** Present time by the server's clock. */
  now: () => Date.now() + skew,
  tookClock(at) {
    skew = at - Date.now();
  },
  go(path) {
    history.pushState(null, "", path);
    show();
  },
  /** Change the query of the URL without a new view. Empty values are left out. */
  setQuery(changes, push = false) {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === "") query.delete(name);
      else query.set(name, value);
    }
    const text = query.toString();
    const url = location.pathname + (text ? `?${text}` : "");
    if (url === location.pathname + location.search) return;
    if (push) history.pushState(null, "", url);
    else history.replaceState(null, "", url);
    shown = url;
  },
  /** Say it to screen readers. */
  announce(text) {
    announcer.textContent = text;
  },
  setTitle(text) {
    document.title = text ? `${text} – Kohort watch` : "Kohort watch";
  },
  /** Say which sources fail, above every view. */
  setSources(sources) {
    const text = JSON.stringify(sources);
    if (sourcesText === text) return;
    sourcesText = text;
    blind = isBlind(sources);
    const notices = failures(sources);
    if (blind) notices.unshift(h("div", { class: "notice lost" }, "The watcher cannot follow the cluster now. The figures are those of the past."));
    set(sourceNotices, notices);
    connectionChanged();
  },
  setCluster(cluster) {
    const name = cluster?.name || cluster?.bootstrap || cluster?.id;
    const element = document.getElementById("cluster");
    setText(element, name ? visible(String(name)) : "");
    element.title = [cluster?.bootstrap, cluster?.id].filter(Boolean).map((text) => visible(String(text))).join(" · ");
  },
};

function route() {
  const parts = location.pathname.split("/").slice(1);
  const decoded = parts.map(fromSegment);
  if (parts.length === 1 && parts[0] === "") return { name: "groups" };
  if (parts[0] === "groups" && parts.length === 2) return { name: "group", groupId: decoded[1] };
  if (parts[0] === "groups" && parts.length === 4 && parts[2] === "rebalances") {
    return { name: "rebalance", groupId: decoded[1], generation: decoded[3] };
  }
  const groupId = new URLSearchParams(location.search).get("id");
  if (parts[0] === "group" && groupId !== null) {
    if (parts.length === 1) return { name: "group", groupId };
    if (parts.length === 3 && parts[1] === "rebalances") return { name: "rebalance", groupId, generation: decoded[2] };
  }
  return { name: "missing" };
}

/** What the view shows; the rest of the URL is how. */
function placeOf({ pathname, search }) {
  return /^\/group(\/|$)/.test(pathname) ? `${pathname}?id=${new URLSearchParams(search).get("id")}` : pathname;
}

async function show() {
  const url = location.pathname + location.search;
  const [path, query] = [placeOf(location), new URLSearchParams(location.search)];
  if (view && view.path === path) {
    shown = url;
    view.query?.(query);
    return;
  }
  shown = url;
  view?.close?.();
  feed?.close();
  const found = route();
  feed = found.name === "missing" ? null : new Feed(found.groupId ?? null);
  feed?.addEventListener("state", connectionChanged);
  feed?.addEventListener("hello", (event) => page.tookClock(event.detail.at));
  feed?.addEventListener("open", () => view?.refresh?.());
  connectionChanged();
  lostAt = null;
  set(banner, sourceNotices);
  const made = await make(found);
  if (shown !== url && placeOf(location) !== path) return; // the reader went on while the view's module was loaded
  const first = view === null;
  view = made;
  view.path = path;
  set(main, view.element);
  view.start?.(query);
  scrollTo(0, 0);
  if (!first) main.querySelector("h1")?.focus({ preventScroll: true });
}

async function make(found) {
  if (found.name === "groups") return groupsView(page, feed);
  if (found.name === "group") return (await import("./group.js")).groupView(page, feed, found.groupId);
  if (found.name === "rebalance") return (await import("./rebalance.js")).rebalanceView(page, feed, found.groupId, found.generation);
  page.setTitle("No such page");
  const back = h("p", {}, h("a", { href: "/" }, "All groups"));
  return { element: h("section", { class: "plain" }, h("h1", { tabindex: "-1" }, "There is no such page"), back) };
}

function connectionChanged() {
  const state = feed?.state ?? "live";
  const element = document.getElementById("connection");
  const shownState = state === "live" && blind ? "blind" : state;
  element.dataset.state = shownState;
  const texts = { connecting: "Connecting", live: "Live", lost: "Reconnecting", blind: "Blind" };
  setText(document.getElementById("connection-text"), texts[shownState]);
  if (state === "lost" && lostAt === null) {
    lostAt = page.now();
    const text = `The connection to the server was lost at ${clock(lostAt)}. The figures are those of that time. The page reconnects by itself.`;
    banner.append(h("div", { class: "notice lost", id: "lost" }, text));
  }
  if (state === "live") {
    if (lostAt !== null) page.announce("The connection is back.");
    lostAt = null;
    document.getElementById("lost")?.remove();
  }
}

/** What a view shows where the server refuses. */
export function refusal(problem, what) {
  if (!(problem instanceof Refused)) throw problem;
  if (problem.status === 401) return tokenForm(problem);
  const title = problem.status === 404 ? `${what} is not known` : `${what} cannot be shown`;
  const hint = problem.status === 404 ? "It may be deleted, or older than the history that the watcher has." : null;
  return h("section", { class: "plain" }, h("h1", { tabindex: "-1" }, title), h("p", {}, visible(problem.message, 1000)),
    hint && h("p", {}, hint), h("p", {}, h("a", { href: "/" }, "All groups")));
}

function tokenForm(problem) {
  feed?.close(); // its events are refused as well
  document.getElementById("lost")?.remove();
  document.getElementById("connection").style.visibility = "hidden"; // on a phone, its place keeps the buttons at the right
  const input = h("input", { id: "token", type: "password", autocomplete: "off", class: "search-input" });
  const wrong = h("p", { role: "alert" });
  const open = async () => {
    const url = new URL(location.href);
    url.searchParams.set("token", input.value);
    setText(wrong, "");
    try {
      // To the right token, the server answers with a cookie and a redirection to the URL without it.
      const answer = await fetch(url, { redirect: "manual", cache: "no-store" });
      if (answer.type === "opaqueredirect") location.reload();
      else setText(wrong, "This is not the token.");
    } catch {
      setText(wrong, "The server does not answer.");
    }
  };
  input.addEventListener("keydown", (event) => event.key === "Enter" && open());
  return h("section", { class: "plain" }, h("h1", { tabindex: "-1" }, "This page needs a token"), h("p", {}, visible(problem.message, 1000)),
    h("p", {}, h("label", { for: "token" }, "Token "), input, " ", h("button", { class: "button", type: "button", on: { click: open } }, "Open")), wrong);
}

// -- links, keyboard, theme

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || link.target || !/^\/($|groups\/|group($|\/))/.test(url.pathname) || url.hash) return;
  event.preventDefault();
  page.go(url.pathname + url.search);
});
addEventListener("popstate", show);

const typing = (element) => element.matches?.("input, textarea, select, [contenteditable]");

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.key === "/" && !typing(event.target)) {
    const search = main.querySelector("input[type=search]");
    if (search) {
      event.preventDefault();
      search.focus();
      search.select();
    }
  } else if (event.key === "?" && !typing(event.target)) {
    showHelp();
  } else if (event.key === "Escape" && !typing(event.target) && !document.querySelector("dialog[open]")) {
    const up = main.querySelector("[data-up]");
    if (up) page.go(up.getAttribute("href"));
  }
});

const SHORTCUTS = [
  ["/", "search; ↓ goes to the first row, Enter opens the only one"],
  ["Escape", "clear the search; go up to the group, then to all groups"],
  ["↑ ↓ Home End", "in a table: move between rows; Enter opens one"],
  ["← →", "on the timeline: previous and next rebalance; Enter opens it"],
  ["↑ ↓", "on the timeline: previous and next partition"],
  ["Shift ← →", "on the timeline: earlier, later"],
  ["+ −", "on the timeline: zoom; Ctrl and the wheel do the same, and so do two fingers"],
  ["L", "on the timeline: follow the present"],
  ["?", "these lines"],
];

function showHelp() {
  const rows = SHORTCUTS.map(([keys, text]) => h("tr", {}, h("th", { scope: "row" }, keys.split(" ").map((key) => [h("kbd", {}, key), " "])), h("td", {}, text)));
  const close = h("button", { class: "button", type: "button", on: { click: () => dialog.close() } }, "Close");
  const dialog = h("dialog", { class: "help", "aria-labelledby": "help-title", on: { close: () => dialog.remove() } },
    h("h2", { id: "help-title" }, "Keyboard"), h("table", {}, h("tbody", {}, rows)), close);
  document.body.append(dialog);
  dialog.showModal();
}
document.getElementById("help").addEventListener("click", showHelp);

const themeButton = document.getElementById("theme");
const THEMES = { auto: "light", light: "dark", dark: "auto" };

function showTheme() {
  const theme = window.kohortTheme.read();
  const icon = { auto: "◐", light: "☀", dark: "☾" }[theme];
  set(themeButton, h("span", { "aria-hidden": "true" }, icon));
  const name = { auto: "as the system", light: "light", dark: "dark" }[theme];
  themeButton.setAttribute("aria-label", `Theme: ${name}`);
  themeButton.title = `Theme: ${name}`;
}
themeButton.addEventListener("click", () => {
  window.kohortTheme.set(THEMES[window.kohortTheme.read()]);
  showTheme();
  page.announce(themeButton.title);
});
showTheme();

const zoneElement = document.getElementById("zone");
zoneElement.textContent = zone();
zoneElement.title = "Time zone of all times on this page";

setInterval(() => view?.tick?.(page.now()), 1000);
show();
