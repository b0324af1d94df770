// A group's partitions over time, as numbers that can be drawn and asked. Nothing here touches the document.

export const DARK = -1;
export const UNKNOWN_OWNER = -2;

/** Rows of partitions with their spans. Owners are the numbers of `owners` (palette.js). */
export class Timeline {
  rows = [];
  members = [];
  rebalances = [];
  from = 0;
  to = 0;

  /** `document` is the answer of /api/groups/{id}/timeline. */
  constructor(document, owners) {
    this.from = document.from;
    this.to = document.to;
    this.members = document.members.map((member) => ({ ...member, number: owners.number(member.member_id) }));
    this.byNumber = new Map(this.members.map((member) => [member.number, member]));
    this.rebalances = [...document.rebalances].sort((a, b) => a.ended_at - b.ended_at);
    this.rows = document.partitions
      .map(({ topic, partition, spans }) => ({ topic, partition, spans: spans.map(([from, to, owner]) => ({ from, to, owner: this.#owner(owner) })) }))
      .sort((a, b) => (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.partition - b.partition));
    for (const row of this.rows) row.spans.sort((a, b) => a.from - b.from);
  }

  #owner(index) {
    if (index === null || index === undefined) return UNKNOWN_OWNER;
    return index < 0 ? DARK : (this.members[index]?.number ?? UNKNOWN_OWNER);
  }

  /** Time from which an owner is known; Infinity if there is none. */
  get knownFrom() {
    let from = Infinity;
    for (const { spans } of this.rows) {
      const first = spans.find((span) => span.owner !== UNKNOWN_OWNER);
      if (first && first.from < from) from = first.from;
    }
    return from;
  }

  /** The span of a row at a time, or null. */
  at(row, time) {
    const index = firstEndingAfter(row.spans, time);
    const span = row.spans[index];
    return span && span.from <= time ? span : null;
  }

  /** Owners that have a partition in the last span of a row. */
  get present() {
    return new Set(this.rows.map((row) => row.spans.at(-1)).filter((span) => span && span.to === null).map((span) => span.owner));
  }

  darkNow() {
    return this.rows.filter((row) => row.spans.at(-1)?.to === null && row.spans.at(-1).owner === DARK).length;
  }

  /** Time in milliseconds for which partitions were dark between two times, summed over partitions. */
  darkTime(from, to) {
    let total = 0;
    for (const row of this.rows) {
      for (let index = firstEndingAfter(row.spans, from); index < row.spans.length && row.spans[index].from < to; index++) {
        const span = row.spans[index];
        if (span.owner === DARK) total += Math.min(span.to ?? to, to) - Math.max(span.from, from);
      }
    }
    return total;
  }

  /** Rebalances whose markers are closer than `gap` pixels are one mark. `x` gives the pixel of a time. */
  marks(from, to, x, gap) {
    const marks = [];
    for (const rebalance of this.rebalances) {
      const at = rebalance.ended_at;
      if (at < from || at > to) continue;
      const last = marks.at(-1);
      if (last && x(at) - last.x < gap) {
        last.rebalances.push(rebalance);
      } else {
        marks.push({ x: x(at), rebalances: [rebalance] });
      }
    }
    return marks;
  }
}

/** Index of the first span that ends after `time`; the number of spans if there is none. */
export function firstEndingAfter(spans, time) {
  let low = 0;
  let high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((spans[middle].to ?? Infinity) > time) high = middle;
    else low = middle + 1;
  }
  return low;
}

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000,
  1_800_000, 3_600_000, 7_200_000, 10_800_000, 21_600_000, 43_200_000, 86_400_000, 172_800_000, 604_800_000];

/** Times of ticks between two times, at most `most`, at round times of the browser's zone; and their step. */
export function ticks(from, to, most) {
  const step = STEPS.find((each) => (to - from) / each <= most) ?? STEPS.at(-1);
  const zone = -new Date(from).getTimezoneOffset() * 60_000;
  const times = [];
  for (let at = Math.ceil((from + zone) / step) * step - zone; at <= to; at += step) times.push(at);
  return { step, times };
}
