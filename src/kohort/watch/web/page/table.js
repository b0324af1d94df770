// A table of many rows: it has elements only for the rows in sight. Rows have one height, so that the window scrolls
// as if all were there, and roles and row numbers tell screen readers the whole size.

import { h, set, setText } from "./dom.js";

const NARROW = matchMedia("(max-width: 940px)"); // as in views.css
const MARGIN = 8; // rows above and below those in sight
const FEW = 50; // rows that all have elements: the browser's search and the reading cursor of screen readers find them
const MOST_NEW = 6; // rows that are made in one frame, and the milliseconds that they may take: then others run
const MOST_MILLIS = 8;
const MOST_PRINTED = 2000;
const NATURAL = new Intl.Collator("en", { numeric: true }); // orders-2 before orders-10

/**
 * A column: `key`, `label`, `cell(row)` (text or nodes), `signature(row)` (changes if the cell does; default: the
 * cell's text), `sort(row)` (number or string; null is last in either direction), `first` (1 or -1: direction of the
 * first click), `number` (aligned right), `hint` (title of the heading), `natural` (sort texts as people count).
 * An order without a column has `key`, `label` and `sort`.
 */
export class VirtualTable {
  rows = [];
  element;
  #columns;
  #orders;
  #key;
  #body;
  #heads = new Map();
  #made = new Map();
  #heights;
  #sorting;
  #onSort;
  #empty;
  #frame = 0;
  #printing = false;
  #listeners = new AbortController();

  /** `heights`: of a row in pixels, [wide, narrow]. `sorting`: {key, direction}. */
  constructor({ name, label, columns, orders = [], key, heights, sorting, onSort = null, empty = "Nothing to show." }) {
    this.#columns = columns;
    this.#orders = [...orders, ...columns.filter((column) => column.sort)];
    this.#key = key;
    this.#heights = heights;
    this.#sorting = sorting;
    this.#onSort = onSort;
    this.#body = h("tbody", { role: "rowgroup" });
    this.#empty = h("p", { class: "nothing" }, empty);
    const head = h("tr", { role: "row", "aria-rowindex": "1" }, columns.map((column) => this.#heading(column)));
    const table = h("table", { role: "table", class: `rows ${name}`, "aria-label": label }, h("thead", { role: "rowgroup" }, head), this.#body);
    this.element = h("div", { class: "table-place" }, onSort && this.#choice(), table, this.#empty);
    this.table = table;
    const signal = this.#listeners.signal;
    addEventListener("scroll", () => this.#soon(), { passive: true, signal });
    addEventListener("resize", () => this.#soon(), { passive: true, signal });
    NARROW.addEventListener("change", () => this.#again(), { signal });
    // Paper has no sight to scroll: it has all rows.
    addEventListener("beforeprint", () => this.#print(true), { signal });
    addEventListener("afterprint", () => this.#print(false), { signal });
    this.#body.addEventListener("keydown", (event) => this.#move(event));
    this.#showSorting();
  }

  close() {
    this.#listeners.abort();
    cancelAnimationFrame(this.#frame);
  }

  /** Whether a reader is in the rows, with the pointer or the keyboard: then they should stay where they are. */
  get held() {
    return this.#body.matches(":hover") || this.#body.contains(document.activeElement);
  }

  show(rows) {
    this.rows = rows;
    this.table.setAttribute("aria-rowcount", rows.length + 1);
    this.#empty.hidden = rows.length > 0;
    this.#render();
  }

  sortBy(sorting) {
    this.#sorting = sorting;
    this.#showSorting();
  }

  /** Sort rows by the present column; equal ones by their key. */
  sorted(rows) {
    const order = this.#orders.find((each) => each.key === this.#sorting.key) ?? this.#orders[0];
    const direction = this.#sorting.direction;
    const made = rows.map((row) => [order.sort(row), this.#key(row), row]);
    made.sort(([a, aKey], [b, bKey]) => {
      if (a !== b) {
        if (a === null) return 1;
        if (b === null) return -1;
        const natural = order.natural ? NATURAL.compare(a, b) : 0;
        if (natural) return direction * natural;
        if (a < b) return -direction;
        if (a > b) return direction;
      }
      return NATURAL.compare(aKey, bKey) || (aKey < bKey ? -1 : 1);
    });
    return made.map(([, , row]) => row);
  }

  get #height() {
    return this.#heights[NARROW.matches ? 1 : 0];
  }

  #again() {
    for (const { row } of this.#made.values()) row.remove();
    this.#made.clear();
    this.#render();
  }

  #soon() {
    if (!this.#frame) {
      this.#frame = requestAnimationFrame(() => {
        this.#frame = 0;
        this.#render();
      });
    }
  }

  #print(printing) {
    this.#printing = printing;
    this.#render();
  }

  /** Replace the words that are shown without rows. */
  set empty(text) {
    setText(this.#empty, text);
  }

  /** Show the rows in sight, and then those around them. Rows that are left are made in the next frames; `first` is not. */
  #render(first = null) {
    if (!this.element.isConnected) return;
    const height = this.#height;
    const top = this.#body.getBoundingClientRect().top;
    const count = this.rows.length;
    const seen = this.#printing ? [0, Math.min(count, MOST_PRINTED)] : [Math.floor(-top / height), Math.ceil((innerHeight - top) / height)];
    const from = count <= FEW ? 0 : Math.max(0, Math.min(count, seen[0] - MARGIN));
    const to = count <= FEW ? count : Math.min(count, Math.max(from, seen[1] + MARGIN));
    this.#body.style.setProperty("height", `${count * height}px`);
    const keys = this.rows.slice(from, to).map(this.#key);
    const wanted = new Set(keys);
    const focused = this.#body.contains(document.activeElement) ? document.activeElement.closest("tr") : null;
    for (const [key, { row }] of this.#made) {
      if (!wanted.has(key) && row !== focused) {
        row.remove();
        this.#made.delete(key);
      }
    }
    const missing = keys.map((key, place) => [key, from + place]).filter(([key]) => !this.#made.has(key));
    const away = ([key, index]) => (key === first ? -1 : Math.max(0, seen[0] - index, index - seen[1] + 1));
    missing.sort((a, b) => away(a) - away(b) || a[1] - b[1]);
    const began = performance.now();
    const later = new Set(missing.filter(([key, index], place) => {
      if (this.#printing) {
        this.#place(key, index, height);
        return false;
      }
      if (place >= MOST_NEW || (place > 0 && performance.now() - began > MOST_MILLIS)) return true;
      this.#place(key, index, height);
      return false;
    }).map(([key]) => key));
    if (later.size) this.#soon();
    let before = null;
    keys.forEach((key, place) => {
      if (later.has(key)) return;
      const row = this.#place(key, from + place, height);
      // In the document's order, so that Tab goes down the table. An element that is moved loses the focus.
      const follows = before ? before.nextSibling : this.#body.firstChild;
      if (follows !== row && (row !== focused || !row.isConnected)) this.#body.insertBefore(row, follows);
      before = row;
    });
  }

  #place(key, index, height) {
    let made = this.#made.get(key);
    if (!made) {
      const cells = this.#columns.map((column) =>
        h("td", { role: column.rowHeader ? "rowheader" : "cell", class: `c-${column.key}${column.number ? " number" : ""}` }));
      made = { row: h("tr", { role: "row" }, cells), cells, signatures: [] };
      this.#made.set(key, made);
    }
    made.row.setAttribute("aria-rowindex", index + 2);
    made.row.dataset.index = index;
    made.row.style.setProperty("transform", `translateY(${index * height}px)`);
    this.#columns.forEach((column, place) => {
      const row = this.rows[index];
      const signature = column.signature ? column.signature(row) : column.cell(row);
      if (made.signatures[place] === signature) return;
      made.signatures[place] = signature;
      set(made.cells[place], column.cell(row));
    });
    return made.row;
  }

  #heading(column) {
    const properties = { role: "columnheader", class: `c-${column.key}${column.number ? " number" : ""}`, title: column.hint };
    const cell = h("th", properties);
    if (column.sort && this.#onSort) cell.append(h("button", { type: "button", on: { click: () => this.#clicked(column) } }, column.label, h("span", { class: "arrow", "aria-hidden": "true" })));
    else cell.append(column.label);
    this.#heads.set(column.key, cell);
    return cell;
  }

  #clicked(column) {
    const again = this.#sorting.key === column.key;
    this.#onSort({ key: column.key, direction: again ? -this.#sorting.direction : (column.first ?? 1) });
  }

  /** On a narrow screen the headings are hidden; this choice sorts there. */
  #choice() {
    const options = this.#orders.map((order) => h("option", { value: order.key }, order.label));
    this.select = h("select", { on: { change: () => this.#clicked(this.#orders.find((order) => order.key === this.select.value)) } }, options);
    this.direction = h("button", { type: "button", class: "button", on: { click: () => this.#onSort({ ...this.#sorting, direction: -this.#sorting.direction }) } });
    return h("div", { class: "sort-choice" }, h("label", {}, "Sort by ", this.select), this.direction);
  }

  #showSorting() {
    for (const [key, cell] of this.#heads) {
      if (key === this.#sorting?.key) cell.setAttribute("aria-sort", this.#sorting.direction > 0 ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
    }
    if (this.select) {
      this.select.value = this.#sorting.key;
      setText(this.direction, this.#sorting.direction > 0 ? "↑ ascending" : "↓ descending");
    }
  }

  #move(event) {
    const row = event.target.closest("tr");
    if (!row || event.altKey || event.ctrlKey || event.metaKey) return;
    const index = Number(row.dataset.index);
    const page = Math.max(1, Math.floor(innerHeight / this.#height) - 2);
    const moves = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: this.rows.length - 1, PageDown: index + page, PageUp: index - page };
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.#focus(Math.max(0, Math.min(this.rows.length - 1, moves[event.key])));
  }

  /** Move the focus to the first row, if there is one. Returns the link or button that has it. */
  enter() {
    return this.rows.length ? this.#focus(0) : null;
  }

  #focus(index) {
    const height = this.#height;
    const top = this.#body.getBoundingClientRect().top + index * height;
    const covered = 110; // by what sticks to the top
    if (top < covered) scrollBy(0, top - covered);
    else if (top + height > innerHeight) scrollBy(0, top + height - innerHeight + 8);
    const key = this.#key(this.rows[index]);
    this.#render(key);
    const made = this.#made.get(key);
    const link = made?.row.querySelector("a, button");
    link?.focus({ preventScroll: true });
    return link;
  }
}

/** "-lag" and "lag" as {key, direction}; null if there is no such column. */
export function parseSorting(text, columns) {
  if (!text) return null;
  const key = text.replace(/^-/, "");
  return columns.some((column) => column.key === key && column.sort) ? { key, direction: text.startsWith("-") ? -1 : 1 } : null;
}

export const sortingText = ({ key, direction }) => (direction < 0 ? `-${key}` : key);
