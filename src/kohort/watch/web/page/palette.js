// Fills of owners: the colours of kohort.charts, which colour-blind readers can tell apart, and hatches from the
// eleventh on. Sixty fills are distinct; then they repeat.

export const COLOURS = ["#4444BB", "#FF8800", "#00CC99", "#770066", "#FFDD11", "#008899", "#BB77EE", "#996622", "#BBCCFF", "#444400"];
const DEEP = new Set(["#4444BB", "#770066", "#008899", "#996622", "#444400"]);
const HATCHES = 6;
const SIZE = 8;

/** Owners of one group, by member ID. An owner keeps its number as long as the page shows the group. */
export class Owners {
  #numbers = new Map();
  #members = new Map();
  #shared = new Set(); // client IDs that several members have at the same time

  number(memberId) {
    if (!this.#numbers.has(memberId)) this.#numbers.set(memberId, this.#numbers.size);
    return this.#numbers.get(memberId);
  }

  /** Take members that were in the group at one time. */
  met(members) {
    const seen = new Set();
    for (const member of members) {
      this.#members.set(member.member_id, member);
      if (seen.has(member.client_id)) this.#shared.add(member.client_id);
      seen.add(member.client_id);
    }
  }

  /** Name of a member: its client ID, with the end of the member ID if others of the group have the same one. */
  name(memberId) {
    const clientId = this.#members.get(memberId)?.client_id;
    if (!clientId) return memberId;
    return this.#shared.has(clientId) ? `${clientId} …${memberId.slice(-6)}` : clientId;
  }

  host(memberId) {
    return hostOf(this.#members.get(memberId));
  }
}

/** Kafka writes a host as "name/address", with an empty name in most cases. */
export const hostOf = (member) => String(member?.client_host ?? "").replace(/^\//, "");

const groups = new Map();

/** The owners of a group, the same for all views of it. */
export function ownersOf(groupId) {
  if (!groups.has(groupId)) groups.set(groupId, new Owners());
  return groups.get(groupId);
}

export const colourOf = (number) => COLOURS[number % COLOURS.length];

/** Fill styles of a canvas. `ratio` is its number of device pixels per CSS pixel. */
export class Fills {
  #context;
  #ratio;
  #made = new Map();

  constructor(context, ratio) {
    this.#context = context;
    this.#ratio = ratio;
  }

  owner(number) {
    const index = number % (COLOURS.length * HATCHES);
    if (!this.#made.has(index)) {
      const colour = colourOf(index);
      const hatch = Math.floor(index / COLOURS.length);
      this.#made.set(index, hatch === 0 ? colour : this.#pattern(colour, DEEP.has(colour) ? "#FFFFFFCC" : "#222222CC", hatch));
    }
    return this.#made.get(index);
  }

  /** Partitions without a reader: black, with a hatch of its own. */
  dark() {
    if (!this.#made.has("dark")) this.#made.set("dark", this.#pattern("#000000", "#FFFFFF99", 1, 6));
    return this.#made.get("dark");
  }

  #pattern(colour, ink, hatch, size = SIZE) {
    const side = Math.round(size * this.#ratio);
    const tile = new OffscreenCanvas(side, side);
    const context = tile.getContext("2d");
    context.fillStyle = colour;
    context.fillRect(0, 0, side, side);
    context.strokeStyle = context.fillStyle = ink;
    context.lineWidth = this.#ratio * 1.2;
    context.beginPath();
    if (hatch === 1 || hatch === 4) diagonal(context, side, 1);
    if (hatch === 4) diagonal(context, side, -1);
    if (hatch === 2) context.arc(side / 2, side / 2, side / 5, 0, 7);
    if (hatch === 3) line(context, 0, side / 2, side, side / 2);
    if (hatch === 5) line(context, side / 2, 0, side / 2, side);
    if (hatch === 2) context.fill();
    else context.stroke();
    return this.#context.createPattern(tile, "repeat");
  }
}

function line(context, x0, y0, x1, y1) {
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
}

function diagonal(context, side, direction) {
  for (const shift of [-side, 0, side]) {
    if (direction > 0) line(context, shift, side, shift + side, 0);
    else line(context, shift, 0, shift + side, side);
  }
}

/** A small square with the fill of an owner, or of "dark" or "unknown". */
export function swatch(kind) {
  const canvas = document.createElement("canvas");
  canvas.className = kind === "unknown" ? "swatch unknown" : "swatch";
  canvas.width = canvas.height = 28;
  canvas.setAttribute("aria-hidden", "true");
  const context = canvas.getContext("2d");
  if (kind === "unknown") return canvas;
  const fills = new Fills(context, 2);
  context.fillStyle = kind === "dark" ? fills.dark() : fills.owner(kind);
  context.fillRect(0, 0, 28, 28);
  return canvas;
}
