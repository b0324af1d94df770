// One rebalance: why, who waited for whom, what moved, and who came and went.

import { get, groupPath, rebalancePath } from "./api.js";
import { refusal } from "./app.js";
import { h, named, set, visible } from "./dom.js";
import { clockMillis, count, full, millis, plural } from "./format.js";
import { ownersOf, swatch } from "./palette.js";
import { VirtualTable } from "./table.js";
import { waterfallTable } from "./waterfall.js";

/** Where the figures of a rebalance are from. */
const SOURCES = {
  journal: "From the journal of Kohort's brokers: causes and times are exact.",
  log: "From the log of the groups: dark times are estimated from commits, and a leave looks like an expiry.",
  polled: "From two descriptions of the group: it may merge several rebalances, and causes are unknown.",
};

/** What a cause means, and what the source cannot tell. */
const CAUSES = {
  "first member": "The group was empty, and its first member joined.",
  "member joined": "A new member joined.",
  "member left": "A member left by itself, such as when it was closed.",
  "session expired": "No heartbeat of a member arrived for its session timeout: it crashed, hung or lost its connection.",
  "connection lost": "The connection of a member broke.",
  "sync missed": "A member joined, and did not ask for its assignment in time.",
  "poll timeout": "A member did not poll for its max.poll.interval.ms, so it left.",
  "subscription changed": "A member subscribed to other topics.",
  "owned partitions changed": "A member gave up partitions, so a cooperative group rebalances again to assign them.",
  "leader rejoined": "The leader joined again, which Kafka takes as a wish to assign anew.",
  "static member returned": "A static member came back under its instance ID.",
  "rebalance timeout": "A member did not join the rebalance in time, and was removed.",
  "removed by an admin": "An administrator removed a member.",
  "group larger than group.max.size": "The group had more members than group.max.size allows.",
  "topics changed": "Partitions of the subscribed topics changed.",
  "assignor changed": "The group's assignor changed.",
  "load changed": "The broker's assignor moved load between members.",
  "weight changed": "A member changed its weight.",
  "rebalance enforced": "A member asked for a rebalance.",
  "records lost": "The coordinator lost records of the group.",
  "member left or expired": "A member is gone. The log of the cluster cannot tell whether it left by itself or its session expired.",
  unknown: "Nothing in the log explains this rebalance. One example is a member that joined again and kept its subscription.",
};

export function rebalanceView(page, feed, groupId, generation) {
  const owners = ownersOf(groupId);
  const content = h("div", {}, h("p", { class: "nothing" }, "Loading the rebalance …"));
  const steps = h("nav", { class: "steps", "aria-label": "Other rebalances" });
  const element = h("section", { class: "rebalance-view" }, h("div", { class: "crumb-line" },
    h("nav", { class: "crumbs", "aria-label": "Breadcrumb" }, h("a", { href: "/" }, "All groups"), h("span", { "aria-hidden": "true" }, " › "),
      h("a", { href: groupPath(groupId), "data-up": "" }, named(groupId, 60))), steps),
    h("h1", { tabindex: "-1" }, `Rebalance ${visible(String(generation), 20)}`), content);
  let stopped = false;
  let table = null;
  let signature = null;

  /** A member as its colour, name and, unless `brief`, host. */
  const member = (memberId, brief = false) => {
    if (memberId === null || memberId === undefined) return h("span", { class: "faint" }, "nobody");
    return h("span", { class: "name-line", title: visible(memberId) }, swatch(owners.number(memberId)), h("span", { class: "name" }, named(owners.name(memberId), 80)),
      owners.host(memberId) && !brief ? h("span", { class: "faint" }, visible(owners.host(memberId), 60)) : null);
  };

  function show(record) {
    const text = JSON.stringify(record);
    if (text === signature) return;
    signature = text;
    owners.met(record.before);
    owners.met(record.after);
    const parts = [why(record, member), figuresOf(record), waterfallTable(record, member, owners), moves(record), people(record, member), reasons(record, member)];
    set(content, h("p", { class: "about" }, `${full(record.ended_at)}${record.protocol ? ` · assignor ${visible(record.protocol)}` : ""}`),
      h("p", { class: "faint" }, SOURCES[record.source ?? (record.polled ? "polled" : "log")] ?? ""),
      record.pending ? h("p", { class: "notice", role: "status" }, "This rebalance is not over, or more of it will be known soon: some owners have not read yet.") : null,
      parts, h("p", {}, h("a", { class: "raw", href: `/api${rebalancePath(groupId, record.generation)}` }, "This rebalance as JSON")));
    table.show(table.sorted(record.partitions));
  }

  function moves(record) {
    table?.close();
    const columns = moveColumns(member);
    table = new VirtualTable({
      name: "moves", label: "Partitions that changed", columns, key: (row) => `${row.topic}-${row.partition}`, heights: [40, 150],
      sorting: { key: "dark", direction: -1 }, empty: "No partition changed its owner, and none was dark.",
      onSort: (sorting) => {
        table.sortBy(sorting);
        table.show(table.sorted(record.partitions));
      },
    });
    const unknown = record.partitions.some((each) => each.dark_ms === null && each.owner !== null);
    return h("section", { class: "card", "aria-labelledby": "moves-title" },
      h("div", { class: "card-title" }, h("h2", { id: "moves-title" }, "Partitions"), h("span", { class: "faint" }, `${plural(record.partitions.length, "partition")} changed or became dark; the others were not disturbed`)),
      unknown ? h("p", { class: "faint note" }, "“–” is a time that no source told.") : null, table.element);
  }

  async function load() {
    // The group gives its present members their colours, and the rebalance's neighbours. Without it, the rebalance is
    // still worth showing.
    const path = `/api${rebalancePath(groupId, encodeURIComponent(generation))}`;
    const [group, record] = await Promise.allSettled([get(`/api${groupPath(groupId)}`), get(path)]);
    if (stopped) return;
    if (group.status === "fulfilled") showNeighbours(group.value);
    if (record.status === "fulfilled") show(record.value);
    else if (signature === null) set(content, refusal(record.reason, "This rebalance"));
  }

  function showNeighbours(group) {
    for (const each of group.member_list) owners.number(each.member_id);
    owners.met(group.member_list);
    const place = group.rebalances.findIndex((each) => String(each.generation) === String(generation));
    const link = (rebalance, text) => (rebalance ? h("a", { href: rebalancePath(groupId, rebalance.generation), class: "button" }, text) : null);
    if (place >= 0) set(steps, link(group.rebalances[place + 1], "← Earlier"), link(group.rebalances[place - 1], "Later →"));
  }

  feed.addEventListener("rebalance", (event) => {
    const { group, record } = event.detail;
    if (group === groupId && String(record.generation) === String(generation)) load();
  });
  page.setTitle(`Rebalance ${visible(String(generation), 20)} of ${visible(groupId, 60)}`);
  const header = () => get("/api/groups").then((document) => {
    if (stopped) return;
    page.setCluster(document.cluster);
    page.setSources(document.sources);
  }, () => {}); // without it, the view is still worth showing
  feed.addEventListener("source", header);
  header();
  return { element, start: load, refresh() { load(); header(); }, close() { stopped = true; table?.close(); } };
}

function why(record, member) {
  const triggers = record.triggers ?? [];
  const first = triggers[0];
  const cause = record.cause ?? "unknown";
  return h("section", { class: "why card", "aria-labelledby": "why-title" },
    h("h2", { id: "why-title" }, "Why: ", h("span", { class: "cause" }, visible(cause))),
    h("p", {}, CAUSES[cause] ?? "", first?.member_id ? [" ", h("span", { class: "by" }, member(first.member_id))] : null),
    first?.reason ? h("p", {}, "It said: ", h("q", {}, visible(first.reason, 500))) : null,
    triggers.length > 1
      ? h("details", {}, h("summary", {}, `${plural(triggers.length - 1, "more trigger")} before it was over`),
        h("ul", {}, triggers.slice(1, 200).map((trigger) => h("li", {}, visible(trigger.cause), trigger.member_id ? [": ", member(trigger.member_id)] : null, trigger.reason ? ` (${visible(trigger.reason, 300)})` : null))))
      : null,
    record.follow_up_of !== null && record.follow_up_of !== undefined ? h("p", {}, `It follows rebalance ${record.follow_up_of}, whose assignment took partitions from members that had to give them up first.`) : null);
}

function figuresOf(record) {
  const dark = record.partitions.map((each) => each.dark_ms).filter((value) => value !== null && value !== undefined);
  const emptyBefore = record.cause === "first member";
  const size = record.size ?? record.after.length;
  const items = [
    ["Took", millis(record.wall_ms), record.wall_ms === null ? "its start is not known" : `${clockMillis(record.started_at)} – ${clockMillis(record.ended_at)}`],
    ["Moved", count(record.moved), "partitions"],
    ["Longest dark", emptyBefore ? "0 s" : millis(dark.length ? Math.max(...dark) : null), emptyBefore ? "the group was empty" : dark.length ? "one partition" : "no source tells it"],
    ["Dark in sum", emptyBefore ? "0 s" : millis(dark.length ? dark.reduce((a, b) => a + b, 0) : null), dark.length ? `of ${plural(dark.length, "partition")}` : null],
    ["Members after", count(size), record.came.length || record.went.length ? `${record.came.length} came, ${record.went.length} went` : "the same as before"],
  ];
  return h("dl", { class: "figures" }, items.map(([label, value, note]) => h("div", {}, h("dt", {}, label), h("dd", {}, h("span", { class: "figure" }, value), note && h("span", { class: "faint" }, note)))));
}

function moveColumns(member) {
  const time = (key, label, hint) => ({
    key, label, number: true, hint, sort: (row) => row[key] ?? null, cell: (row) => clockMillis(row[key]),
  });
  return [
    {
      key: "partition", label: "Partition", rowHeader: true, sort: (row) => `${row.topic}\u0000${String(row.partition).padStart(10, "0")}`,
      signature: () => "once", cell: (row) => h("span", { class: "name" }, named(row.topic), `-${row.partition}`),
    },
    { key: "from", label: "From", sort: (row) => row.previous_owner ?? null, signature: (row) => String(row.previous_owner), cell: (row) => member(row.previous_owner) },
    {
      key: "to", label: "To", sort: (row) => row.owner ?? null, signature: (row) => String(row.owner),
      cell: (row) => (row.owner !== null && row.owner === row.previous_owner ? h("span", { class: "faint" }, "the same") : member(row.owner)),
    },
    time("revoked_at", "Stopped", "Time by which the previous owner had stopped"),
    time("assigned_at", "Assigned", "Time of the assignment"),
    time("first_read_at", "First read", "Time of the new owner's first read"),
    { key: "dark", label: "Dark", number: true, first: -1, sort: (row) => row.dark_ms ?? null, cell: (row) => millis(row.dark_ms) },
  ];
}

function people(record, member) {
  const gone = new Map((record.gone ?? []).map((each) => [each.member_id, each]));
  const list = (title, ids, note) => (ids.length
    ? h("div", {}, h("h3", {}, `${title} (${count(ids.length)})`), h("ul", { class: "people" }, ids.slice(0, 200).map((id) => h("li", {}, member(id), note(id))),
      ids.length > 200 ? h("li", {}, `and ${count(ids.length - 200)} more`) : null))
    : null);
  const stayed = record.after.map((each) => each.member_id).filter((id) => !record.came.includes(id));
  const lists = [
    list("Came", record.came, () => null),
    list("Went", record.went, (id) => (gone.has(id) ? h("span", { class: "faint" }, ` ${visible(gone.get(id).cause)}${gone.get(id).reason ? `: ${visible(gone.get(id).reason, 300)}` : ""}`) : null)),
    list("Stayed", stayed, () => null),
  ].filter(Boolean);
  if (!lists.length) return null;
  return h("section", { class: "card", "aria-labelledby": "people-title" }, h("h2", { id: "people-title" }, "Members"), h("div", { class: "columns" }, lists));
}

function reasons(record, member) {
  const weighed = record.weighed ?? [];
  const refused = record.refused ?? [];
  if (!weighed.length && !refused.length) return null;
  const line = (each) => Object.entries(each).filter(([name]) => name !== "member_id").map(([name, value]) => `${name.replaceAll("_", " ")}: ${visible(String(value), 200)}`).join(", ");
  return h("section", { class: "card" }, h("h2", {}, "The assignor's reasons"),
    h("ul", {}, [...weighed, ...refused].slice(0, 200).map((each) => h("li", {}, each.member_id ? [member(each.member_id), " "] : null, line(each)))));
}

