// Drawing of the timeline on its two canvases: the partitions, and above them what follows the pointer.

import { visible } from "./dom.js";
import { clock, clockMillis, clockMinute, day } from "./format.js";
import { Fills } from "./palette.js";
import { DARK, firstEndingAfter, ticks, UNKNOWN_OWNER } from "./timeline_model.js";

export const TOP = 26; // height of the strip with the rebalances
export const BOTTOM = 24; // height of the time axis

/** Geometry of the picture: `width`, `height` and `left` in CSS pixels, times, and the rows in sight. */
export class Scene {
  width = 600;
  height = 300;
  left = 100;
  from = 0;
  to = 1;
  rowHeight = 10;
  firstRow = 0;

  x = (time) => this.left + ((time - this.from) / (this.to - this.from)) * (this.width - this.left);
  time = (x) => this.from + ((x - this.left) / (this.width - this.left)) * (this.to - this.from);
  y = (row) => TOP + (row - this.firstRow) * this.rowHeight;
  row = (y) => Math.floor((y - TOP) / this.rowHeight + this.firstRow);

  get plotHeight() {
    return this.height - TOP - BOTTOM;
  }
}

function prepared(canvas, scene) {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [Math.round(scene.width * ratio), Math.round(scene.height * ratio)];
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, scene.width, scene.height);
  return { context, ratio };
}

/** Colours of the theme, from the CSS variables of the canvas. */
function theme(canvas) {
  const style = getComputedStyle(canvas);
  const colour = (name) => style.getPropertyValue(name).trim();
  return {
    ink: colour("--ink"), muted: colour("--muted"), line: colour("--line"), accent: colour("--accent"), surface: colour("--surface"),
    plot: colour("--plot"), font: style.fontFamily,
  };
}

/** Draw everything that does not follow the pointer. `only` is the owner to show alone, or null. */
export function paint(canvas, scene, timeline, { now, only = null }) {
  const { context, ratio } = prepared(canvas, scene);
  const colours = theme(canvas);
  const bottom = scene.height - BOTTOM;
  context.fillStyle = colours.plot;
  context.fillRect(scene.left, TOP, scene.width - scene.left, scene.plotHeight);
  context.save();
  context.beginPath();
  context.rect(scene.left, TOP, scene.width - scene.left, scene.plotHeight);
  context.clip();
  paintSpans(context, scene, timeline, new Fills(context, ratio), ratio, now, only, () => paintLines(context, scene, timeline, colours));
  paintFuture(context, scene, colours, now);
  context.restore();
  paintLabels(context, scene, timeline, colours);
  paintAxis(context, scene, colours, bottom);
  paintMarks(context, scene, timeline, colours);
}

/**
 * Where a row has less than a device pixel, one row is drawn per pixel, and every dark span of all rows: what needs
 * attention is never left out. `between` draws what is above the owners and below the dark spans.
 */
function paintSpans(context, scene, timeline, fills, ratio, now, only, between) {
  const pixel = 1 / ratio;
  const step = Math.max(1, Math.floor(pixel / scene.rowHeight));
  const gap = scene.rowHeight >= 6 ? 1 : 0;
  const height = Math.max(pixel, scene.rowHeight - gap);
  const last = Math.min(timeline.rows.length, Math.ceil(scene.firstRow + scene.plotHeight / scene.rowHeight));
  const first = Math.max(0, Math.floor(scene.firstRow));
  const dark = [];
  for (let index = first; index < last; index++) {
    const { spans } = timeline.rows[index];
    const y = scene.y(index);
    const drawn = (index - first) % step === 0;
    for (let place = firstEndingAfter(spans, scene.from); place < spans.length; place++) {
      const span = spans[place];
      if (span.from >= scene.to) break;
      if (span.owner === UNKNOWN_OWNER || (!drawn && span.owner !== DARK)) continue;
      const x0 = Math.max(scene.left, scene.x(span.from));
      const x1 = Math.min(scene.width, scene.x(span.to ?? now));
      if (span.owner === DARK) {
        dark.push([x0, y, Math.max(pixel, x1 - x0)]);
        continue;
      }
      context.globalAlpha = only !== null && only !== span.owner ? 0.13 : 1;
      context.fillStyle = fills.owner(span.owner);
      const seam = x1 - x0 > 4 && scene.rowHeight >= 6 ? 0.75 : 0; // where one owner follows another
      context.fillRect(x0, y, Math.max(pixel, x1 - x0 - seam), height);
    }
  }
  context.globalAlpha = 1;
  between();
  context.globalAlpha = only === null || only === DARK ? 1 : 0.35;
  context.fillStyle = fills.dark();
  for (const [x, y, width] of dark) context.fillRect(x, y, width, height);
  context.globalAlpha = 1;
}

function paintFuture(context, scene, colours, now) {
  const x = scene.x(now);
  if (x >= scene.width - 0.5 || x < scene.left) return;
  context.fillStyle = colours.surface;
  context.fillRect(x, TOP, scene.width - x, scene.plotHeight);
  context.fillStyle = colours.accent;
  context.fillRect(x, TOP, 1.5, scene.plotHeight);
}

function paintLabels(context, scene, timeline, colours) {
  context.font = `11px ${colours.font}`;
  context.textAlign = "right";
  context.textBaseline = "middle";
  const bottom = scene.height - BOTTOM;
  let start = 0;
  for (let index = 0; index <= timeline.rows.length; index++) {
    const row = timeline.rows[index];
    if (index < timeline.rows.length && scene.rowHeight >= 12) {
      const y = scene.y(index) + scene.rowHeight / 2;
      if (y > TOP && y < bottom) {
        context.fillStyle = colours.muted;
        context.fillText(fitted(context, row.topic, `-${row.partition}`, scene.left - 10), scene.left - 6, y);
      }
    }
    if (index > 0 && row?.topic !== timeline.rows[index - 1].topic) {
      if (scene.rowHeight < 12) paintTopic(context, scene, colours, timeline.rows[start].topic, index - start, start, index);
      if (row) {
        const y = scene.y(index);
        context.fillStyle = colours.ink;
        if (y > TOP && y < bottom) context.fillRect(0, y - 0.75, scene.width, 0.75);
      }
      start = index;
    }
  }
}

function paintTopic(context, scene, colours, topic, size, start, end) {
  const top = Math.max(TOP, scene.y(start));
  const bottom = Math.min(scene.height - BOTTOM, scene.y(end));
  if (bottom - top < 12) return;
  context.fillStyle = colours.ink;
  const middle = (top + bottom) / 2;
  const two = bottom - top > 28;
  context.fillText(fitted(context, topic, "", scene.left - 10), scene.left - 6, two ? middle - 7 : middle);
  if (!two) return;
  context.fillStyle = colours.muted;
  const words = `${size} partitions`; // cut at its left edge, it would be another number
  context.fillText(context.measureText(words).width <= scene.left - 10 ? words : String(size), scene.left - 6, middle + 7);
}

/** The text, cut so that it fits with its ending into a width. */
function fitted(context, text, ending, width) {
  const shown = visible(text, 80);
  if (context.measureText(shown + ending).width <= width) return shown + ending;
  let length = shown.length;
  while (length > 1 && context.measureText(`${shown.slice(0, length)}…${ending}`).width > width) length--;
  return `${shown.slice(0, length)}…${ending}`;
}

function paintAxis(context, scene, colours, bottom) {
  const { step, times } = ticks(scene.from, scene.to, Math.max(2, (scene.width - scene.left) / 90));
  context.textBaseline = "top";
  context.textAlign = "center";
  context.font = `11px ${colours.font}`;
  for (const at of times) {
    const x = scene.x(at);
    context.fillStyle = colours.line;
    context.fillRect(x, bottom, 1, 5);
    context.fillStyle = colours.muted;
    const text = step >= 86_400_000 ? day(at) : step >= 60_000 ? clockMinute(at) : step >= 1000 ? clock(at) : clockMillis(at);
    const half = context.measureText(text).width / 2;
    if (x - half >= scene.left - 20 && x + half <= scene.width) context.fillText(text, x, bottom + 8);
  }
}

/** Thin lines at the rebalances, drawn below the dark spans, which they must not hide. */
function paintLines(context, scene, timeline, colours) {
  context.fillStyle = colours.ink;
  context.globalAlpha = 0.5;
  for (const { ended_at: at } of timeline.rebalances) {
    if (at >= scene.from && at <= scene.to) context.fillRect(Math.round(scene.x(at)), TOP, 1, scene.plotHeight);
  }
  context.globalAlpha = 1;
}

function paintMarks(context, scene, timeline, colours) {
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.font = `bold 10px ${colours.font}`;
  for (const mark of timeline.marks(scene.from, scene.to, scene.x, 20)) {
    const { x, rebalances } = mark;
    const text = rebalances.length > 1 ? `×${rebalances.length}` : "";
    const width = text ? context.measureText(text).width + 9 : 10;
    context.fillStyle = colours.accent;
    context.beginPath();
    if (text) {
      context.roundRect(x - width / 2, 4, width, 15, 4);
    } else {
      context.moveTo(x - 6, 6);
      context.lineTo(x + 6, 6);
      context.lineTo(x, 19);
      context.closePath();
    }
    context.fill();
    context.fillStyle = colours.surface;
    if (text) context.fillText(text, x, 12);
  }
}

/** Draw the reader's place: a line at a time, a frame around a row, a ring around a rebalance. */
export function paintCursor(canvas, scene, { time = null, row = null, rebalance = null, drag = null }) {
  const { context } = prepared(canvas, scene);
  const colours = theme(canvas);
  const bottom = scene.height - BOTTOM;
  if (time !== null) {
    context.fillStyle = colours.ink;
    context.globalAlpha = 0.6;
    context.fillRect(scene.x(time), TOP, 1, bottom - TOP);
    context.globalAlpha = 1;
  }
  if (row !== null && scene.rowHeight >= 3) {
    context.strokeStyle = colours.ink;
    context.lineWidth = 1.5;
    context.strokeRect(scene.left + 0.5, scene.y(row) - 0.5, scene.width - scene.left - 1, scene.rowHeight);
  }
  if (rebalance !== null) {
    const x = scene.x(rebalance.ended_at);
    context.strokeStyle = colours.ink;
    context.lineWidth = 2;
    context.strokeRect(x - 9, 2, 18, 19);
    context.fillStyle = colours.ink;
    context.fillRect(x - 1, TOP - 4, 2.5, bottom - TOP + 4);
  }
  if (drag !== null) {
    const [from, to] = drag.map(scene.x);
    context.fillStyle = colours.accent;
    context.globalAlpha = 0.25;
    context.fillRect(Math.min(from, to), TOP, Math.abs(to - from), bottom - TOP);
  }
}
