// What the sources tell, what they cannot know, and what is wrong.

import { h, set, visible } from "./dom.js";
import { ago } from "./format.js";

const NAMES = {
  log: "Log of the groups (__consumer_offsets)",
  admin: "Admin APIs, asked periodically",
  journal: "Journal of Kohort's brokers",
  telemetry: "Metrics that clients push (KIP-714)",
};
const OF_GROUPS = new Set(["log", "admin"]);
const WRONG = new Set(["failed", "forbidden"]);
const WELL = new Set(["following", "loading"]);

/** Lines for sources that fail: they belong to the top of every view, because the figures may be old. */
export function failures(sources) {
  return sources.filter((source) => WRONG.has(source.state)).map((source) =>
    h("div", { class: "notice" }, h("strong", {}, `${NAMES[source.kind] ?? visible(source.kind)}: ${visible(source.state)}. `), source.detail ? visible(source.detail, 1000) : ""));
}

/** Whether no source follows the groups, so that nothing on the page is of now. The others only add to what these tell. */
export const isBlind = (sources) => !sources.some((source) => OF_GROUPS.has(source.kind) && WELL.has(source.state));

/** Fill `place` with the sources and problems; the sources are folded. */
export function showKnowledge(place, sources, problems, now) {
  const open = place.querySelector("details")?.open ?? false;
  const lines = sources.map((source) => {
    const cannot = [source.cannot ?? []].flat();
    return h("li", {}, h("span", { class: "source-name" }, NAMES[source.kind] ?? visible(source.kind)),
      h("span", { class: `badge ${WRONG.has(source.state) ? "wrong" : source.state === "following" ? "calm" : "idle"}` }, visible(source.state)),
      h("span", { class: "faint" }, ` since ${ago(source.since, now).replace(" ago", "")}`),
      source.detail && !WRONG.has(source.state) ? h("p", {}, visible(source.detail, 1000)) : null,
      cannot.length ? h("ul", { class: "cannot" }, cannot.map((text) => h("li", {}, visible(text, 1000)))) : null);
  });
  const problemList = problems.length ? [h("h3", {}, "Problems"), h("ul", { class: "problems" }, problems.map((text) => h("li", {}, visible(text, 1000))))] : [];
  const summary = `What this page knows, and what it cannot know${problems.length ? ` (${problems.length} problem${problems.length === 1 ? "" : "s"})` : ""}`;
  set(place, h("details", { class: "knowledge", open: open || problems.length > 0 && problems.length < 4 }, h("summary", {}, summary), h("ul", { class: "sources" }, lines), problemList));
}
