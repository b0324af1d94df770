// Numbers, durations and times as people read them. Times are milliseconds since 1970; unknown is "–".

export const UNKNOWN = "–";

const whole = new Intl.NumberFormat();
const compact = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const one = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const clockFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const millisFormat = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23",
});
const minuteFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const dayFormat = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const fullFormat = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
});

export function count(value) {
  if (value === null || value === undefined) return UNKNOWN;
  return Math.abs(value) >= 10_000_000 ? compact.format(value) : whole.format(value);
}

/** "1 partition", "2,000 partitions" */
export function plural(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

export function seconds(value) {
  return value === null || value === undefined ? UNKNOWN : millis(value * 1000);
}

/** A duration of `value` milliseconds, with two units at most. */
export function millis(value) {
  if (value === null || value === undefined) return UNKNOWN;
  if (value < 0) return `−${millis(-value)}`;
  if (value === 0) return "0 s";
  if (value < 1000) return `${whole.format(Math.max(1, Math.round(value)))} ms`;
  const all = value / 1000;
  if (all < 59.95) return `${one.format(all)} s`;
  const rounded = Math.round(all);
  const parts = [
    [Math.floor(rounded / 86400), "d"], [Math.floor(rounded / 3600) % 24, "h"], [Math.floor(rounded / 60) % 60, "min"], [rounded % 60, "s"],
  ];
  const first = parts.findIndex(([amount]) => amount > 0);
  return parts.slice(first, first + 2).filter(([amount]) => amount > 0).map(([amount, unit]) => `${whole.format(amount)} ${unit}`).join(" ");
}

/** "3 min ago", without seconds after the first minute, so that a table does not flicker. */
export function ago(at, now) {
  if (at === null || at === undefined) return UNKNOWN;
  const all = Math.max(0, now - at);
  if (all < 5000) return "now";
  const [size, unit] = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1000, "s"]].find(([size]) => all >= size);
  return `${Math.floor(all / size)} ${unit} ago`;
}

export const clock = (at) => (known(at) ? clockFormat.format(at) : UNKNOWN);
export const clockMillis = (at) => (known(at) ? millisFormat.format(at) : UNKNOWN);
export const clockMinute = (at) => minuteFormat.format(at);
export const day = (at) => dayFormat.format(at);
export const full = (at) => (known(at) ? fullFormat.format(at) : UNKNOWN);

/** The time, with the day if it is not the day of `now`. */
export function when(at, now) {
  if (!known(at)) return UNKNOWN;
  return dayFormat.format(at) === dayFormat.format(now) ? clock(at) : `${day(at)}, ${clock(at)}`;
}

export function zone() {
  const parts = new Intl.DateTimeFormat(undefined, { timeZoneName: "short" }).formatToParts(Date.now());
  const short = parts.find((part) => part.type === "timeZoneName")?.value ?? "";
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return name === short || !short ? name : `${name} (${short})`;
}

/** Whether a time is known and possible: a stranger may write any into the cluster's topics. */
const known = (at) => at !== null && at !== undefined && Math.abs(at) <= 8_640_000_000_000_000;
