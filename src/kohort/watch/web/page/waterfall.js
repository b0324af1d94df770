// Who waited for whom in a rebalance: a row per member, a bar per step, on one time axis.

import { h, svg, visible } from "./dom.js";
import { clockMillis, count, millis, plural } from "./format.js";

const MOST = 100; // members
const KINDS = {
  leave: "left or was removed",
  revoke: "stopped its partitions",
  join: "joined and waited",
  assign: "waited for partitions",
  "first read": "had not read yet",
};

export function waterfallTable(record, member, owners) {
  const members = (record.waterfall ?? []).filter((each) => each.steps.length);
  const times = members.flatMap((each) => each.steps.flatMap((step) => [step.from, step.to])).filter((time) => time !== null && time !== undefined);
  const title = h("div", { class: "card-title" }, h("h2", { id: "waterfall-title" }, "Who waited for whom"), legend(members));
  const section = (...children) => h("section", { class: "card waterfall", "aria-labelledby": "waterfall-title" }, title, children);
  if (!members.length) return section(h("p", { class: "nothing" }, "No member had to stop or to wait, as far as the sources tell."));
  const from = Math.min(...times, record.started_at ?? Infinity);
  const to = Math.max(...times, record.ended_at, from + 4); // the scale has four parts, of whole milliseconds
  const longest = [...members].sort((a, b) => duration(b) - duration(a)).slice(0, MOST);
  const shown = members.filter((each) => longest.includes(each));
  const rows = shown.map((each) => row(each, from, to, member, owners));
  return section(
    h("table", { class: "bars" }, h("caption", { class: "unseen" }, "Steps of each member, in the order of their first steps"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Member"), h("th", { scope: "col" }, scale(from, to)))), h("tbody", {}, rows)),
    members.length > shown.length ? h("p", { class: "faint note" }, `${count(members.length - shown.length)} members with shorter steps are left out.`) : null);
}

function duration(each) {
  const times = each.steps.flatMap((step) => [step.from, step.to]).filter((time) => time !== null && time !== undefined);
  return times.length ? Math.max(...times) - Math.min(...times) : 0;
}

function legend(members) {
  const kinds = new Set(members.flatMap((each) => each.steps.map((step) => step.name)));
  return h("ul", { class: "legend small" }, Object.entries(KINDS).filter(([kind]) => kinds.has(kind)).map(([kind, text]) =>
    h("li", {}, h("span", { class: `step-swatch ${kindClass(kind)}`, "aria-hidden": "true" }), h("span", {}, kind), h("span", { class: "faint" }, text))));
}

const kindClass = (kind) => (kind in KINDS ? `step-${kind.replace(" ", "-")}` : "step-other");

function scale(from, to) {
  const parts = [0, 0.25, 0.5, 0.75, 1];
  return h("span", { class: "scale" }, h("span", { class: "unseen" }, `Steps, from ${clockMillis(from)} to ${clockMillis(to)}`),
    parts.map((part) => h("span", { class: "tick", "aria-hidden": "true", style: { left: `${part * 100}%` } }, part === 0 ? "0" : millis(Math.round((to - from) * part)))));
}

function row(each, from, to, member, owners) {
  const percent = (time) => ((time - from) / (to - from)) * 100;
  const bars = each.steps.map((step) => {
    const [start, end] = [step.from ?? null, step.to ?? null];
    const text = stepText(step, owners, from);
    if (start === null && end === null) return h("li", { class: "unseen" }, text);
    const left = percent(start ?? end);
    const width = percent(end ?? (start === null ? to : Math.max(start, to))) - left;
    const open = end === null || start === null;
    return h("li", {
      class: `bar ${kindClass(step.name)}${open ? " open" : ""}`, title: text,
      style: { left: `${left}%`, width: `max(3px, ${width}%)` },
    }, width > 9 ? h("span", { class: "bar-name" }, visible(step.name)) : null, h("span", { class: "unseen" }, text));
  });
  const waits = [...new Set(each.steps.map((step) => step.waits_for).filter((id) => id !== null && id !== undefined))];
  return h("tr", {}, h("th", { scope: "row" }, member(each.member_id)), h("td", {}, h("ul", { class: "track" }, bars),
    waits.length ? h("p", { class: "waits" }, waitIcon(), "waited for ", waits.map((id, index) => [index ? " and " : "", member(id, true)])) : null));
}

function waitIcon() {
  return svg("svg", { viewBox: "0 0 16 16", width: 12, height: 12, "aria-hidden": "true", class: "wait-icon" }, svg("path", { d: "M3 2v7h9M9 6l3 3-3 3" }));
}

function stepText(step, owners, from) {
  const time = step.from !== null && step.to !== null ? `${millis(step.to - step.from)}, from ${millis(step.from - from)} to ${millis(step.to - from)}`
    : step.to !== null ? `until ${millis(step.to - from)}, start not known` : step.from !== null ? `since ${millis(step.from - from)}, not over or not known` : "times not known";
  const waited = step.waits_for ? `, waited for ${visible(owners.name(step.waits_for), 80)}` : "";
  return `${visible(step.name)}: ${time}${step.partitions ? `, ${plural(step.partitions, "partition")}` : ""}${waited}`;
}
