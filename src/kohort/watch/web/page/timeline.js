// The timeline of a group: its range and its data, toolbar, canvas and legend.

import { get, groupPath } from "./api.js";
import { h, named, set, setText, visible } from "./dom.js";
import { clockMillis, count, millis, plural, when } from "./format.js";
import { hostOf, ownersOf, swatch } from "./palette.js";
import { TimelineInput } from "./timeline_input.js";
import { DARK, Timeline } from "./timeline_model.js";
import { BOTTOM, paint, Scene, TOP } from "./timeline_paint.js";

const SPANS = [["5 min", 300_000], ["15 min", 900_000], ["1 h", 3_600_000], ["6 h", 21_600_000], ["24 h", 86_400_000]];
const STANDARD = 3_600_000;
const SHORTEST = 200;
const LONGEST = 30 * 86_400_000;
const LEGEND = matchMedia("(max-width: 760px)").matches ? 8 : 24; // owners in the legend before the rest is folded
const RELOAD = 2000;

export class TimelineView {
  element;
  page;
  groupId;
  scene = new Scene();
  timeline = null;
  span = STANDARD;
  #following = true;
  #only = null;
  #chosen = false; // whether the reader chose the span
  tall = false;
  #frame = 0;
  #loading = null;
  #again = false;
  #stopped = false;
  #unfolded = false;
  #ready = false;
  #toUrl = null;
  #moved = 0; // pixels since the picture was painted
  #inSight = true;

  constructor(page, groupId) {
    this.page = page;
    this.groupId = groupId;
    this.owners = ownersOf(groupId);
    this.canvas = h("canvas", { class: "base", "aria-hidden": "true" });
    this.over = h("canvas", { class: "over", "aria-hidden": "true" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.summary = h("p", { id: "timeline-summary", class: "summary" });
    this.box = h("div", {
      class: "timeline-box", tabindex: "0", role: "application", "aria-roledescription": "timeline",
      "aria-label": "Partitions over time, coloured by owner", "aria-describedby": "timeline-summary timeline-keys",
    }, this.canvas, this.over, this.tip);
    this.buttons = SPANS.map(([label, span]) => ({ span, button: h("button", { type: "button", class: "button", on: { click: () => this.#choose(span) } }, label) }));
    this.live = h("button", { type: "button", class: "button live", on: { click: () => this.follow() } }, "Live");
    this.fit = h("button", { type: "button", class: "button", "aria-pressed": "false", on: { click: () => this.#toggleTall() } }, "Readable rows");
    const zoom = (label, text, factor) => h("button", { type: "button", class: "button square", "aria-label": label, title: label, on: { click: () => this.zoom(factor, null) } }, text);
    this.range = h("span", { class: "range" });
    this.legend = h("ul", { class: "legend", "aria-label": "Owners" });
    const toolbar = h("div", { class: "toolbar", role: "toolbar", "aria-label": "Timeline" },
      h("span", { class: "buttons" }, this.buttons.map((each) => each.button)),
      h("span", { class: "buttons" }, zoom("Zoom out", "−", 2), zoom("Zoom in", "+", 0.5), this.live), this.fit, this.range);
    this.element = h("section", { class: "timeline card", "aria-labelledby": "timeline-title" },
      h("div", { class: "card-title" }, h("h2", { id: "timeline-title" }, "Partitions over time"), toolbar), this.summary, this.box,
      h("p", { id: "timeline-keys", class: "unseen" }, "Left and right arrows go to rebalances, Enter opens one. Up and down arrows go to partitions. Shift and arrows move in time, plus and minus zoom, L follows the present."),
      this.legend);
    this.input = new TimelineInput(this, this.box, this.over, this.tip);
    this.observer = new ResizeObserver(() => this.#layout());
    this.observer.observe(this.box);
    this.sight = new IntersectionObserver(([entry]) => {
      this.#inSight = entry.isIntersecting;
      if (this.#inSight && this.#moved >= 0.5) this.redraw();
    });
    this.sight.observe(this.box);
    this.theme = () => this.#layout();
    addEventListener("themechange", this.theme);
  }

  close() {
    this.#stopped = true;
    this.observer.disconnect();
    this.sight.disconnect();
    removeEventListener("themechange", this.theme);
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#loading);
    clearTimeout(this.#toUrl);
  }

  /** Take the range of the URL; without one, follow the present. */
  query(parameters) {
    const [from, to] = [Number(parameters.get("from")), Number(parameters.get("to"))];
    const last = Number(parameters.get("last"));
    if (parameters.get("from") && parameters.get("to") && to > from && to - from <= LONGEST) {
      this.#following = false;
      this.span = Math.max(SHORTEST, to - from);
      this.scene.from = from;
      this.scene.to = from + this.span;
    } else {
      this.#following = true;
      this.#chosen = last >= SHORTEST && last <= LONGEST;
      this.span = this.#chosen ? last : STANDARD;
      this.#present();
    }
    this.#changed(false);
  }

  /** Load as soon as the present members have their colours, so that they have the first ones. */
  start() {
    this.#ready = true;
    this.changed();
  }

  tick() {
    if (!this.#following) return;
    const before = this.scene.to;
    this.#present();
    this.#moved += ((this.scene.to - before) / this.span) * this.scene.width;
    this.#showRange();
    if (this.#moved < 0.5 || !this.#inSight) return; // less than a pixel
    this.redraw();
  }

  /** Something happened: load anew, at most every two seconds. */
  changed() {
    if (!this.#ready) return;
    if (this.#loading === null) this.#loading = setTimeout(() => this.#load(), 0);
    else this.#again = true;
  }

  async #load() {
    // A quarter more on both sides, so that small moves show no gaps.
    const margin = this.span / 4;
    const path = `/api${groupPath(this.groupId, "/timeline", `from=${Math.floor(this.scene.from - margin)}&to=${Math.ceil(this.scene.to + margin)}`)}`;
    try {
      const document = await get(path);
      if (this.#stopped) return;
      this.timeline = new Timeline(document, this.owners);
      for (const member of document.members) this.owners.met([member]);
      this.#chooseSpan();
      this.#layout();
      this.#showLegend();
    } catch (problem) {
      if (this.#stopped) return;
      setText(this.summary, `The timeline cannot be shown: ${problem.message}`);
    }
    this.#loading = setTimeout(() => {
      this.#loading = null;
      if (this.#again) {
        this.#again = false;
        this.changed();
      }
    }, RELOAD);
  }

  // -- range

  #present() {
    const now = this.page.now();
    this.scene.to = now + this.span * 0.01;
    this.scene.from = this.scene.to - this.span;
  }

  /** Without a choice of the reader, show an hour, or less if the history is shorter. */
  #chooseSpan() {
    if (this.#chosen || !this.#following) return;
    const age = this.page.now() - this.timeline.knownFrom;
    const span = SPANS.map(([, each]) => each).find((each) => each >= Math.min(age, STANDARD));
    if (span === this.span) return;
    this.span = span;
    this.#present();
    this.#changed(false);
  }

  #choose(span) {
    this.span = span;
    this.#chosen = true;
    this.#following = true;
    this.#present();
    this.#changed();
  }

  follow() {
    this.#following = true;
    this.#present();
    this.#changed();
  }

  /** Zoom around a time; null is the present, or the middle. */
  zoom(factor, time) {
    const span = Math.min(LONGEST, Math.max(SHORTEST, this.span * factor));
    const scene = this.scene;
    this.#chosen = true;
    if (time === null && this.#following) {
      this.span = span;
      this.#present();
    } else {
      const around = time ?? (scene.from + scene.to) / 2;
      scene.from = around - ((around - scene.from) * span) / this.span;
      scene.to = scene.from + span;
      this.span = span;
      this.#following = false;
    }
    this.#changed();
  }

  pan(shift) {
    this.scene.from += shift;
    this.scene.to += shift;
    this.#following = this.scene.to >= this.page.now() && shift > 0;
    if (this.#following) this.#present();
    this.#changed();
  }

  show(from, to) {
    this.#following = false;
    this.span = Math.max(SHORTEST, to - from);
    this.scene.from = from;
    this.scene.to = from + this.span;
    this.#changed();
  }

  #changed(toUrl = true) {
    if (toUrl) {
      // Browsers allow few changes of the URL per second, and a drag makes many.
      clearTimeout(this.#toUrl);
      this.#toUrl = setTimeout(() => this.#writeUrl(), 150);
    }
    for (const { span, button } of this.buttons) button.setAttribute("aria-pressed", String(this.#following && Math.round(this.span) === span));
    this.live.setAttribute("aria-pressed", String(this.#following));
    this.#showRange();
    this.redraw();
    const covered = this.timeline && this.timeline.from <= this.scene.from && (this.timeline.to >= this.scene.to || this.#following);
    if (!covered) this.changed();
  }

  #writeUrl() {
    const { from, to } = this.scene;
    this.page.setQuery(this.#following
      ? { from: null, to: null, last: !this.#chosen ? null : String(Math.round(this.span)) }
      : { from: String(Math.round(from)), to: String(Math.round(to)), last: null });
  }

  #showRange() {
    const { from, to } = this.scene;
    const now = this.page.now();
    const end = this.#following ? "now" : to - from < 10_000 ? clockMillis(to) : when(to, from);
    setText(this.range, `${to - from < 10_000 ? clockMillis(from) : when(from, now)} – ${end}`);
  }

  // -- picture

  #toggleTall() {
    this.tall = !this.tall;
    this.fit.setAttribute("aria-pressed", String(this.tall));
    this.#layout();
  }

  #layout() {
    const width = this.box.clientWidth;
    if (!width || !this.timeline) return;
    const rows = Math.max(1, this.timeline.rows.length);
    const scene = this.scene;
    scene.width = width;
    scene.left = width < 560 ? 74 : Math.min(190, 60 + 7 * Math.max(...this.timeline.rows.map((row) => row.topic.length + 3), 4));
    const most = Math.max(220, Math.min(560, innerHeight * 0.6));
    const wanted = rows * 18;
    const plot = Math.min(Math.max(wanted, 60), most - TOP - BOTTOM);
    scene.height = TOP + BOTTOM + plot;
    scene.rowHeight = this.tall ? Math.max(16, plot / rows) : Math.min(26, plot / rows);
    scene.firstRow = this.tall ? Math.max(0, Math.min(scene.firstRow, rows - plot / scene.rowHeight)) : 0;
    this.fit.hidden = wanted <= plot;
    this.box.style.setProperty("height", `${scene.height}px`);
    this.redraw();
  }

  redraw() {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      if (!this.timeline || this.#stopped) return;
      this.#moved = 0;
      paint(this.canvas, this.scene, this.timeline, { now: this.page.now(), only: this.#only });
      this.input.paint();
      this.#showSummary();
    });
  }

  /** What the picture shows, in words: the alternative to the canvas. */
  #showSummary() {
    const timeline = this.timeline;
    const now = this.page.now();
    const inside = timeline.rebalances.filter((each) => each.ended_at >= this.scene.from && each.ended_at <= this.scene.to).length;
    const dark = timeline.darkTime(this.scene.from, Math.min(now, this.scene.to));
    const darkNow = timeline.darkNow();
    const text = `${plural(timeline.rows.length, "partition")}, ${plural(inside, "rebalance")}, dark for ${millis(Math.round(dark))} in sum` +
      `${darkNow ? `, ${count(darkNow)} dark now` : ""}. Select a rebalance to see its cause.`;
    setText(this.summary, timeline.rows.length ? text : "No owner of a partition is known in this time.");
  }

  #showLegend() {
    const timeline = this.timeline;
    const present = timeline.present;
    const members = [...timeline.members].sort((a, b) => present.has(b.number) - present.has(a.number) || a.number - b.number);
    const shown = this.#unfolded ? members : members.slice(0, LEGEND);
    const item = (kind, owner, ...text) => h("li", {}, h("button", {
      type: "button", "aria-pressed": String(this.#only === owner), class: present.has(owner) || owner < 0 ? "" : "gone",
      on: { click: () => this.#select(owner) },
    }, swatch(kind), text));
    set(this.legend,
      item("dark", DARK, h("span", {}, "dark: no reader")),
      h("li", { class: "plain-item" }, swatch("unknown"), "not known"),
      shown.map((member) => item(member.number, member.number, h("span", { class: "name" }, named(this.owners.name(member.member_id), 60)), h("span", { class: "faint" }, visible(hostOf(member), 60)))),
      members.length > shown.length ? h("li", {}, h("button", { type: "button", on: { click: () => { this.#unfolded = true; this.#showLegend(); } } }, `${members.length - shown.length} more`)) : null);
  }

  #select(owner) {
    this.#only = this.#only === owner ? null : owner;
    const place = [...this.legend.querySelectorAll("button")].indexOf(document.activeElement);
    this.#showLegend();
    this.legend.querySelectorAll("button")[place]?.focus();
    this.redraw();
  }

  /** Show all owners again. Returns whether one was chosen. */
  clearChoice() {
    if (this.#only === null) return false;
    this.#select(this.#only);
    return true;
  }
}
