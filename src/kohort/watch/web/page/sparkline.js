// A line of lags over the last hour.

import { svg } from "./dom.js";
import { seconds } from "./format.js";

const HOUR = 3_600_000;

/** `series`: [[at, seconds or null], ...]. The scale begins at 0 and ends at the maximum, at least one second. */
export function sparkline(series, now, { width = 110, height = 26, span = HOUR, label = "Lag" } = {}) {
  const known = series.filter(([, value]) => value !== null);
  const most = Math.max(1, ...known.map(([, value]) => value));
  const x = (at) => Math.round((1 - (now - at) / span) * (width - 4) * 10) / 10 + 2;
  const y = (value) => Math.round((height - 2 - (value / most) * (height - 5)) * 10) / 10;
  const lines = [];
  let line = [];
  for (const [at, value] of series) {
    if (value === null || at < now - span) {
      if (line.length) lines.push(line);
      line = [];
    } else {
      line.push([x(at), y(value)]);
    }
  }
  if (line.length) lines.push(line);
  const text = known.length
    ? `${label} in the last hour: at most ${seconds(Math.max(...known.map(([, value]) => value)))}, last ${seconds(known.at(-1)[1])}`
    : `${label}: not known`;
  const picture = svg("svg", { class: "sparkline", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": text },
    svg("title", {}, text), svg("line", { class: "floor", x1: 0, x2: width, y1: height - 1.5, y2: height - 1.5 }));
  for (const points of lines) {
    const path = points.map(([px, py]) => `${px},${py}`).join(" ");
    picture.append(
      svg("polygon", { class: "area", points: `${points[0][0]},${height - 2} ${path} ${points.at(-1)[0]},${height - 2}` }),
      svg("polyline", { class: "line", points: points.length > 1 ? path : `${path} ${points[0][0] + 1},${points[0][1]}` }),
    );
  }
  return picture;
}
