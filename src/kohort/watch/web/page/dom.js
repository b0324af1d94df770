// Elements are made here and nowhere else. Text becomes text nodes, styles go through the CSSOM, so nothing that a
// cluster sends can become markup, and the page obeys its content security policy.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. `properties`: attributes; `on` has listeners, `style` has CSS properties, `dataset` has data-*. */
export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replace the contents of an element. */
export function set(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Replace the text of an element if it differs, so that nothing is painted or announced without need. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const unseen = (text) => h("span", { class: "unseen" }, text);

/** A fragment for a name that a stranger chose: characters that cannot be seen are shown as escapes. */
export function named(text, most = 200) {
  const fragment = document.createDocumentFragment();
  if (text === "") {
    fragment.append(h("span", { class: "escape" }, "(empty)"));
    return fragment;
  }
  const shown = text.length > most ? text.slice(0, most) : text;
  let from = 0;
  for (const match of shown.matchAll(UNSEEN)) {
    if (match.index > from) fragment.append(shown.slice(from, match.index));
    fragment.append(h("span", { class: "escape" }, escape(match[0])));
    from = match.index + match[0].length;
  }
  fragment.append(shown.slice(from) + (shown.length < text.length ? "…" : ""));
  return fragment;
}

/** The same as a string, for titles, labels and the canvas. */
export function visible(text, most = 200) {
  if (text === "") return "(empty)";
  const shown = text.length > most ? text.slice(0, most) + "…" : text;
  return shown.replaceAll(UNSEEN, escape);
}

// Control and format characters (zero width, direction overrides), other spaces than U+0020, private use, unassigned
// characters, halves of surrogate pairs, and spaces at either end.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\p{Cn}]|(?! )\p{Zs}|^ +| +$/gu;

function escape(characters) {
  return [...characters]
    .map((character) => {
      const code = character.codePointAt(0);
      return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
    })
    .join("");
}
