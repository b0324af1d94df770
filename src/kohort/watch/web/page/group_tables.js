// The tables of one group: rebalances, members, partitions.

import { rebalancePath } from "./api.js";
import { h, named, visible } from "./dom.js";
import { ago, count, full, millis, seconds, UNKNOWN, when } from "./format.js";
import { hostOf, swatch } from "./palette.js";
import { VirtualTable } from "./table.js";

function tableOf(options) {
  const table = new VirtualTable({ ...options, onSort: (sorting) => table.onSort(sorting) });
  return { table, columns: options.columns };
}

export function rebalanceTable(page, groupId) {
  const columns = [
    {
      key: "at", label: "When", rowHeader: true, first: -1, sort: (row) => row.ended_at,
      signature: (row) => `${row.generation} ${ago(row.ended_at, page.now())}`,
      cell: (row) => [h("a", { href: rebalancePath(groupId, row.generation), class: "name" }, when(row.ended_at, page.now())), h("span", { class: "faint" }, ago(row.ended_at, page.now()))],
    },
    { key: "generation", label: "Generation", number: true, first: -1, sort: (row) => row.generation, cell: (row) => String(row.generation) },
    {
      key: "cause", label: "Cause", sort: (row) => row.cause, signature: (row) => JSON.stringify([row.cause, row.triggers, row.pending]),
      cell: (row) => [h("span", { class: "cause" }, row.cause ? visible(row.cause) : "unknown"), row.pending ? h("span", { class: "badge moving" }, "not over") : null, h("span", { class: "faint" }, triggerText(row.triggers))],
    },
    {
      key: "moved", label: "Moved", number: true, first: -1, sort: (row) => row.moved, hint: "Partitions that changed their owner; in brackets, those that need not have",
      cell: (row) => `${count(row.moved)}${row.needless ? ` (${count(row.needless)} needless)` : ""}`,
    },
    { key: "took", label: "Took", number: true, first: -1, sort: took, cell: (row) => millis(took(row)), hint: "From the first trigger to the assignment" },
    {
      key: "longest", label: "Longest dark", number: true, first: -1, sort: (row) => row.longest_dark_ms, cell: (row) => millis(row.longest_dark_ms),
      hint: "Longest time for which a partition had no reader",
    },
    { key: "dark", label: "Dark in sum", number: true, first: -1, sort: (row) => row.dark_ms_total, cell: (row) => millis(row.dark_ms_total) },
    { key: "after", label: "Members", number: true, first: -1, sort: (row) => row.members_after, cell: (row) => count(row.members_after), hint: "Members after the rebalance" },
  ];
  return tableOf({
    name: "rebalances", label: "Rebalances", columns, key: (row) => `${row.generation} ${row.ended_at}`, heights: [48, 128],
    sorting: { key: "at", direction: -1 }, empty: "No rebalance in the history that the watcher has.",
  });
}

const took = (row) => (row.started_at === null || row.started_at === undefined ? null : row.ended_at - row.started_at);

function triggerText(triggers) {
  const more = (triggers ?? []).slice(1).map((trigger) => visible(String(trigger.cause ?? trigger)));
  return more.length ? `then ${[...new Set(more)].join(", ")}` : "";
}

export function membersOf(group) {
  const lag = new Map();
  for (const partition of group.partition_list) {
    if (partition.owner !== null && partition.lag !== null) lag.set(partition.owner, (lag.get(partition.owner) ?? 0) + partition.lag);
  }
  return group.member_list.map((member) => ({ ...member, lag: lag.get(member.member_id) ?? null, leader: member.member_id === group.leader_id }));
}

export function memberTable(page, owners) {
  const columns = [
    {
      key: "client", label: "Member", rowHeader: true, sort: (row) => row.client_id,
      signature: (row) => JSON.stringify([row.member_id, row.client_id, row.instance_id, row.leader, row.flapping]),
      cell: (row) => [
        h("span", { class: "name-line" }, swatch(owners.number(row.member_id)), h("span", { class: "name", title: visible(row.client_id) }, named(owners.name(row.member_id))),
          row.leader ? h("span", { class: "badge idle" }, "leader") : null, row.instance_id ? h("span", { class: "badge idle", title: visible(row.instance_id) }, "static") : null,
          row.flapping ? h("span", { class: "badge wrong", title: "It leaves and comes back again and again" }, "▲ flapping") : null),
        h("span", { class: "faint id", title: visible(row.member_id) }, named(row.member_id)),
      ],
    },
    { key: "host", label: "Host", sort: (row) => row.client_host, cell: (row) => visible(hostOf(row) || UNKNOWN) },
    {
      key: "software", label: "Client", sort: (row) => row.client_software ?? null, signature: (row) => String(row.client_software),
      cell: (row) => (row.client_software ? named(String(row.client_software)) : h("span", { class: "faint" }, "not known")),
    },
    {
      key: "owns", label: "Owns", number: true, first: -1, sort: (row) => row.partitions.length, signature: (row) => row.partitions.join(),
      cell: (row) => [h("span", { title: row.partitions.slice(0, 100).map((each) => visible(each)).join(", ") }, count(row.partitions.length)), h("span", { class: "faint list" }, ownedText(row.partitions))],
    },
    { key: "lag", label: "Lag", number: true, first: -1, sort: (row) => row.lag, cell: (row) => count(row.lag), hint: "Records of its partitions that are not committed" },
    {
      key: "since", label: "Since", first: -1, sort: (row) => row.since ?? null, signature: (row) => `${row.since} ${ago(row.since, page.now())}`,
      cell: (row) => h("span", { title: full(row.since) }, row.since ? ago(row.since, page.now()).replace(" ago", "") : UNKNOWN),
    },
    { key: "joins", label: "Joins", number: true, first: -1, sort: (row) => row.joins_1h, cell: (row) => count(row.joins_1h), hint: "Times it joined in the last hour, under any member ID" },
    {
      key: "revocation", label: "Slowest revocation", number: true, first: -1, sort: (row) => row.slowest_revocation_ms, cell: (row) => millis(row.slowest_revocation_ms),
      hint: "Longest time from the start of a rebalance until it gave up its partitions",
    },
    {
      key: "telemetry", label: "Telemetry", signature: (row) => JSON.stringify(row.telemetry), cell: (row) => telemetryCell(row.telemetry), hint: "What the client reports itself (KIP-714)",
    },
  ];
  return tableOf({
    name: "members", label: "Members", columns, key: (row) => row.member_id, heights: [56, 190], sorting: { key: "client", direction: 1 }, empty: "The group has no members.",
  });
}

/** "orders 0, 3; payments 1" from "orders-0", "orders-3", "payments-1" */
function ownedText(partitions) {
  const topics = new Map();
  for (const partition of partitions.slice(0, 40)) {
    const dash = partition.lastIndexOf("-");
    const topic = partition.slice(0, dash);
    topics.set(topic, [...(topics.get(topic) ?? []), partition.slice(dash + 1)]);
  }
  return [...topics].map(([topic, numbers]) => `${visible(topic)} ${numbers.join(", ")}`).join("; ");
}

function telemetryCell(telemetry) {
  const values = Object.entries(telemetry ?? {});
  if (!values.length) return h("span", { class: "faint" }, "none");
  const text = values.map(([name, value]) => `${visible(name)}: ${typeof value === "number" ? Math.round(value * 1000) / 1000 : visible(String(value))}`);
  const short = text[0].replace("org.apache.kafka.consumer.", "");
  return h("span", { class: "list", title: text.join("\n") }, values.length > 1 ? `${short} and ${values.length - 1} more` : short);
}

export function partitionsOf(group, owners) {
  return group.partition_list.map((row) => ({
    ...row, number: row.owner === null ? null : owners.number(row.owner), ownerName: row.owner === null ? null : owners.name(row.owner),
  }));
}

const METHODS = {
  "caught up": "everything is committed",
  timestamps: "from the timestamps of records",
  interpolated: "from when the end passed the committed offset",
  "at least": "the oldest record that is not committed is not dated: it is at least this old",
};

export function partitionTable(page, owners) {
  const columns = [
    {
      key: "partition", label: "Partition", rowHeader: true, sort: (row) => `${row.topic}\u0000${String(row.partition).padStart(10, "0")}`,
      signature: (row) => `${row.topic}-${row.partition}`, cell: (row) => h("span", { class: "name" }, named(row.topic), `-${row.partition}`),
    },
    {
      key: "owner", label: "Owner", sort: (row) => row.ownerName, signature: (row) => `${row.owner}`,
      cell: (row) => (row.owner === null ? h("span", { class: "faint" }, "none") : h("span", { class: "name-line", title: visible(row.owner) }, swatch(row.number), h("span", { class: "name" }, named(row.ownerName)))),
    },
    { key: "committed", label: "Committed", number: true, sort: (row) => row.committed, cell: (row) => count(row.committed) },
    { key: "end", label: "End", number: true, sort: (row) => row.end, cell: (row) => count(row.end) },
    { key: "lag", label: "Lag", number: true, first: -1, sort: (row) => row.lag, cell: (row) => count(row.lag) },
    {
      key: "behind", label: "Behind", number: true, first: -1, sort: (row) => row.lag_seconds, signature: (row) => `${row.lag_seconds} ${row.method}`,
      cell: (row) => h("span", { title: METHODS[row.method] ?? "" }, row.method === "at least" ? "≥ " : "", seconds(row.lag_seconds)),
    },
    {
      key: "at", label: "Committed at", first: -1, sort: (row) => row.committed_at, signature: (row) => `${row.committed_at} ${ago(row.committed_at, page.now())}`,
      cell: (row) => h("span", { title: full(row.committed_at) }, ago(row.committed_at, page.now())),
    },
  ];
  return tableOf({
    name: "partitions", label: "Partitions", columns, key: (row) => `${row.topic}-${row.partition}`, heights: [40, 132],
    sorting: { key: "behind", direction: -1 }, empty: "No partition has an owner or a committed offset.",
  });
}

