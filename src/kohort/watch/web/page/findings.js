// What to do about a group: the findings of the watcher, the most severe first.

import { h, set, visible } from "./dom.js";

const ORDER = ["critical", "warning", "info"];
const ICONS = { critical: "▲", warning: "△", info: "ℹ" };

/** Fill `place` with the findings, if they differ from those that it has. Evidence that a reader opened stays open. */
export function showFindings(place, findings, because) {
  const signature = JSON.stringify([findings, because]);
  if (place.signature === signature) return;
  place.signature = signature;
  const open = new Set([...place.querySelectorAll("details[open]")].map((details) => details.dataset.code));
  set(place, findingCards(findings, because));
  for (const details of place.querySelectorAll("details")) details.open = open.has(details.dataset.code);
}

function findingCards(findings, because) {
  if (!findings.length && !because.length) return null;
  const sorted = [...findings].sort((a, b) => ORDER.indexOf(a.severity) - ORDER.indexOf(b.severity));
  return h("section", { class: "findings", "aria-labelledby": "findings-title" }, h("h2", { id: "findings-title" }, "What to do"),
    because.length && !findings.length ? h("ul", {}, because.map((text) => h("li", {}, visible(text, 500)))) : null,
    h("div", { class: "cards" }, sorted.map(card)));
}

function card(finding) {
  const severity = ORDER.includes(finding.severity) ? finding.severity : "info";
  const members = finding.member_ids ?? [];
  const evidence = Object.entries(finding.evidence ?? {});
  return h("article", { class: `finding ${severity}` },
    h("h3", {}, h("span", { class: "icon", "aria-hidden": "true" }, ICONS[severity]), h("span", { class: "unseen" }, `${severity}: `), visible(finding.title, 200)),
    h("p", {}, visible(finding.text, 1000)),
    finding.advice ? h("p", { class: "advice" }, h("strong", {}, "Do: "), visible(finding.advice, 1000)) : null,
    evidence.length || members.length
      ? h("details", { dataset: { code: String(finding.code) } }, h("summary", {}, "Evidence"),
        h("dl", {}, evidence.map(([name, value]) => [h("dt", {}, visible(name.replaceAll("_", " "))), h("dd", {}, visible(typeof value === "string" ? value : JSON.stringify(value), 300))]),
          members.length ? [h("dt", {}, "members"), h("dd", {}, members.slice(0, 20).map((id) => h("code", {}, visible(id))), members.length > 20 ? ` and ${members.length - 20} more` : "")] : null))
      : null,
    h("p", {}, h("a", { href: `/static/findings.html#${encodeURIComponent(finding.code)}` }, "More about this")));
}
