// What the pointer and the keyboard do on the timeline, and the tip that follows them.

import { rebalancePath } from "./api.js";
import { h, named, set, visible } from "./dom.js";
import { clock, millis, when } from "./format.js";
import { swatch } from "./palette.js";
import { DARK, UNKNOWN_OWNER } from "./timeline_model.js";
import { BOTTOM, paintCursor, TOP } from "./timeline_paint.js";

const SHORTEST_DRAG = 200; // milliseconds

/** Drag pans, Shift and drag selects a time, wheel and two fingers zoom, a click opens; keys do the same. */
export class TimelineInput {
  #view;
  #box;
  #tip;
  #canvas;
  #cursor = {}; // {time, row} that are looked at
  #rebalance = null; // the one that the keyboard selected
  #pointers = new Map();
  #moved = false;
  #drag = null;
  #pinch = null;

  constructor(view, box, canvas, tip) {
    this.#view = view;
    this.#box = box;
    this.#canvas = canvas;
    this.#tip = tip;
    this.#listen();
  }

  /** Draw what follows the pointer and the keyboard. */
  paint() {
    paintCursor(this.#canvas, this.#view.scene, { ...this.#cursor, rebalance: this.#rebalance, drag: this.#drag?.range ?? null });
  }

  #listen() {
    const box = this.#box;
    box.addEventListener("keydown", (event) => this.#key(event));
    box.addEventListener("blur", () => { this.#cursor = {}; this.#rebalance = null; this.#hideTip(); });
    box.addEventListener("pointerleave", () => { if (!this.#pointers.size) { this.#cursor = {}; this.#hideTip(); } });
    box.addEventListener("pointerdown", (event) => this.#down(event));
    box.addEventListener("pointermove", (event) => this.#moves(event));
    for (const name of ["pointerup", "pointercancel"]) box.addEventListener(name, (event) => this.#up(event));
    box.addEventListener("dblclick", (event) => this.#view.zoom(0.5, this.#view.scene.time(this.#place(event).x)));
    box.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
  }

  #place(event) {
    const box = this.#box.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  #wheel(event) {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.#view.zoom(Math.exp(event.deltaY / 300), this.#view.scene.time(this.#place(event).x));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      const pixels = event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX;
      this.#view.pan((pixels / (this.#view.scene.width - this.#view.scene.left)) * this.#view.span);
    } else if (this.#view.tall) {
      const before = this.#view.scene.firstRow;
      this.#scrollRows(event.deltaY / this.#view.scene.rowHeight);
      if (this.#view.scene.firstRow !== before) event.preventDefault();
    }
  }

  #scrollRows(rows) {
    const scene = this.#view.scene;
    const most = Math.max(0, this.#view.timeline.rows.length - scene.plotHeight / scene.rowHeight);
    scene.firstRow = Math.max(0, Math.min(most, scene.firstRow + rows));
    this.#view.redraw();
  }

  #down(event) {
    if (event.button !== 0) return;
    this.#pointers.set(event.pointerId, this.#place(event));
    this.#moved = false;
    if (this.#pointers.size === 2) {
      const [a, b] = [...this.#pointers.values()];
      this.#pinch = { distance: Math.abs(a.x - b.x), span: this.#view.span };
      this.#moved = true;
    } else if (event.shiftKey) {
      const time = this.#view.scene.time(this.#place(event).x);
      this.#drag = { start: time, range: [time, time] };
    }
    this.#box.setPointerCapture(event.pointerId);
  }

  #moves(event) {
    const place = this.#place(event);
    const before = this.#pointers.get(event.pointerId);
    if (!before) {
      this.#hover(place);
      return;
    }
    if (Math.abs(place.x - before.x) < 3 && Math.abs(place.y - before.y) < 3 && !this.#moved) return;
    this.#moved = true;
    this.#hideTip();
    if (this.#drag) {
      this.#drag.range = [this.#drag.start, this.#view.scene.time(place.x)];
      this.paint();
      return;
    }
    this.#pointers.set(event.pointerId, place);
    if (this.#pinch) {
      const [a, b] = [...this.#pointers.values()];
      const wanted = (this.#pinch.span * this.#pinch.distance) / Math.max(10, Math.abs(a.x - b.x));
      this.#view.zoom(wanted / this.#view.span, this.#view.scene.time((a.x + b.x) / 2));
      return;
    }
    this.#view.pan((-(place.x - before.x) / (this.#view.scene.width - this.#view.scene.left)) * this.#view.span);
    if (this.#view.tall) this.#scrollRows(-(place.y - before.y) / this.#view.scene.rowHeight);
  }

  #up(event) {
    if (!this.#pointers.delete(event.pointerId)) return;
    this.#pinch = null;
    if (this.#drag) {
      const [from, to] = this.#drag.range;
      this.#drag = null;
      if (Math.abs(to - from) > SHORTEST_DRAG && this.#moved) this.#view.show(Math.min(from, to), Math.max(from, to));
      this.paint();
    } else if (!this.#moved && event.type === "pointerup") {
      this.#click(this.#place(event));
    }
  }

  #mark(place) {
    if (!this.#view.timeline) return null;
    const near = place.y <= TOP ? 13 : 4;
    let best = null;
    for (const mark of this.#view.timeline.marks(this.#view.scene.from, this.#view.scene.to, this.#view.scene.x, 20)) {
      const distance = Math.min(...mark.rebalances.map((each) => Math.abs(this.#view.scene.x(each.ended_at) - place.x)));
      if (distance <= near && (best === null || distance < best.distance)) best = { ...mark, distance };
    }
    return best;
  }

  #click(place) {
    const mark = this.#mark(place);
    if (!mark) return;
    if (mark.rebalances.length === 1) {
      this.#view.page.go(rebalancePath(this.#view.groupId, mark.rebalances[0].generation));
      return;
    }
    const times = mark.rebalances.map((each) => each.ended_at);
    const [first, last] = [Math.min(...times), Math.max(...times)];
    const margin = Math.max(500, (last - first) * 0.4);
    this.#view.show(first - margin, last + margin);
    this.#view.page.announce(`${mark.rebalances.length} rebalances, zoomed in`);
  }

  #hover(place) {
    const timeline = this.#view.timeline;
    if (!timeline) return;
    const mark = this.#mark(place);
    this.#box.classList.toggle("on-mark", mark !== null);
    const row = this.#view.scene.row(place.y);
    const inside = place.x >= this.#view.scene.left && place.y > TOP && row >= 0 && row < timeline.rows.length && place.y < this.#view.scene.height - BOTTOM;
    if (mark) {
      this.#cursor = {};
      this.#showTip(place, this.#markText(mark));
    } else if (inside) {
      const time = this.#view.scene.time(place.x);
      this.#cursor = { time, row };
      this.#showTip(place, this.#cellText(row, time));
    } else {
      this.#cursor = {};
      this.#hideTip();
    }
    this.paint();
  }

  #markText(mark) {
    if (mark.rebalances.length > 1) return [h("strong", {}, `${mark.rebalances.length} rebalances`), h("span", {}, "Select to zoom in")];
    const [rebalance] = mark.rebalances;
    return [h("strong", {}, `Rebalance ${rebalance.generation}`), h("span", {}, rebalance.cause ? visible(rebalance.cause) : "cause unknown"), h("span", { class: "faint" }, when(rebalance.ended_at, this.#view.page.now()))];
  }

  #cellText(row, time) {
    const { topic, partition } = this.#view.timeline.rows[row];
    const span = this.#view.timeline.at(this.#view.timeline.rows[row], time);
    const lines = [h("strong", {}, named(topic, 60), `-${partition}`)];
    if (!span || span.owner === UNKNOWN_OWNER || time > this.#view.page.now()) return [...lines, h("span", {}, time > this.#view.page.now() ? "the future" : "owner not known")];
    const member = this.#view.timeline.byNumber.get(span.owner);
    const owner = span.owner === DARK ? h("span", {}, swatch("dark"), " dark: no reader") : h("span", {}, swatch(span.owner), " ", visible(`${this.#view.owners.name(member.member_id)} ${this.#view.owners.host(member.member_id)}`.trim(), 120));
    const end = span.to ?? this.#view.page.now();
    return [...lines, owner, h("span", { class: "faint" }, `${clock(span.from)} – ${span.to === null ? "now" : clock(span.to)} (${millis(end - span.from)})`)];
  }

  #showTip(place, nodes) {
    set(this.#tip, nodes);
    this.#tip.hidden = false;
    const { width } = this.#view.scene;
    const size = this.#tip.getBoundingClientRect();
    const x = Math.max(4, Math.min(width - size.width - 4, place.x + 14));
    const below = place.y + 18 + size.height < this.#view.scene.height + 40;
    this.#tip.style.setProperty("transform", `translate(${x}px, ${below ? place.y + 18 : place.y - size.height - 12}px)`);
  }

  #hideTip() {
    this.#tip.hidden = true;
    this.paint();
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.#view.timeline) return;
    const keys = {
      ArrowLeft: () => (event.shiftKey ? this.#view.pan(-this.#view.span / 5) : this.#step(-1)),
      ArrowRight: () => (event.shiftKey ? this.#view.pan(this.#view.span / 5) : this.#step(1)),
      ArrowUp: () => this.#stepRow(-1),
      ArrowDown: () => this.#stepRow(1),
      Home: () => this.#step(-Infinity),
      End: () => this.#step(Infinity),
      Enter: () => this.#rebalance && this.#view.page.go(rebalancePath(this.#view.groupId, this.#rebalance.generation)),
      "+": () => this.#view.zoom(0.5, this.#rebalance?.ended_at ?? null),
      "=": () => this.#view.zoom(0.5, this.#rebalance?.ended_at ?? null),
      "-": () => this.#view.zoom(2, null),
      l: () => this.#view.follow(),
      L: () => this.#view.follow(),
      Escape: () => {
        if (this.#rebalance === null && this.#cursor.row === undefined && !this.#view.clearChoice()) return false;
        this.#rebalance = null;
        this.#cursor = {};
        this.#view.clearChoice();
        this.#hideTip();
        return true;
      },
    };
    if (!(event.key in keys)) return;
    if (keys[event.key]() === false) return; // Escape with nothing selected goes up
    event.preventDefault();
  }

  /** Go to the next rebalance in a direction, and bring it into sight. */
  #step(direction) {
    const all = this.#view.timeline.rebalances;
    if (!all.length) {
      this.#view.page.announce("No rebalances in this time.");
      return;
    }
    const place = this.#rebalance === null ? null : all.findIndex((each) => each.generation === this.#rebalance.generation);
    const next = place === null ? (direction === 1 || direction === -Infinity ? 0 : all.length - 1) : place + direction;
    const index = Math.max(0, Math.min(all.length - 1, next));
    this.#rebalance = all[index];
    const at = this.#rebalance.ended_at;
    if (at < this.#view.scene.from || at > this.#view.scene.to) this.#view.pan(at - (this.#view.scene.from + this.#view.scene.to) / 2);
    this.#cursor = {};
    this.#showTip({ x: this.#view.scene.x(at), y: TOP }, this.#markText({ rebalances: [this.#rebalance] }));
    this.paint();
    this.#view.page.announce(`Rebalance ${this.#rebalance.generation}, ${index + 1} of ${all.length}: ${this.#rebalance.cause ? visible(this.#rebalance.cause) : "cause unknown"}, ${when(at, this.#view.page.now())}`);
  }

  #stepRow(direction) {
    const last = this.#view.timeline.rows.length - 1;
    if (last < 0) return;
    const row = this.#cursor.row === undefined ? (direction > 0 ? 0 : last) : Math.max(0, Math.min(last, this.#cursor.row + direction));
    const time = this.#rebalance?.ended_at ?? Math.min(this.#view.page.now(), this.#view.scene.to) - 1;
    this.#cursor = { time, row };
    if (this.#view.tall) {
      const rows = this.#view.scene.plotHeight / this.#view.scene.rowHeight;
      if (row < this.#view.scene.firstRow) this.#scrollRows(row - this.#view.scene.firstRow);
      else if (row + 1 > this.#view.scene.firstRow + rows) this.#scrollRows(row + 1 - this.#view.scene.firstRow - rows);
    }
    const nodes = this.#cellText(row, time);
    this.#showTip({ x: this.#view.scene.x(time), y: this.#view.scene.y(row) }, nodes);
    this.paint();
    this.#view.page.announce(nodes.map((node) => node.textContent.trim()).join(", "));
  }
}
