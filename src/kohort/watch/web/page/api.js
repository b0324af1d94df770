// The server's JSON and its events.

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** GET a document. Raises Refused with the server's sentence, or with one about the connection (status 0). */
export async function get(path, signal) {
  let response;
  try {
    response = await fetch(path, { signal, headers: { Accept: "application/json" }, cache: "no-store" });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Refused(0, "The server does not answer.");
  }
  let value = null;
  try {
    value = await response.json();
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Refused(response.status, `The server's answer is no JSON (status ${response.status}).`);
  }
  if (!response.ok) throw new Refused(response.status, String(value?.error ?? `The server answered with status ${response.status}.`));
  return value;
}

/** Encode a name. The half of a surrogate pair stands for a byte that is no UTF-8, as in Python's surrogateescape. */
const segment = (text) => text.replace(/[^\ud800-\udfff]+|[\ud800-\udbff][\udc00-\udfff]|[^]/g, (part) =>
  (part.isWellFormed() ? encodeURIComponent(part) : `%${(part.charCodeAt(0) & 0xff).toString(16).toUpperCase().padStart(2, "0")}`));

/** Decode a segment of a path; a byte that is no UTF-8 becomes the half of a surrogate pair again. */
export function fromSegment(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text.replace(/(?:%[0-9a-f]{2})+/gi, (bytes) => fromBytes(bytes.slice(1).split("%").map((each) => parseInt(each, 16))));
  }
}

function fromBytes(bytes) {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let text = "";
  for (let at = 0; at < bytes.length;) {
    const size = [1, 2, 3, 4].find((each) => {
      try {
        return decoder.decode(Uint8Array.from(bytes.slice(at, at + each))).length > 0;
      } catch {
        return false;
      }
    });
    text += size ? decoder.decode(Uint8Array.from(bytes.slice(at, at + size))) : String.fromCharCode(0xdc00 + bytes[at]);
    at += size ?? 1;
  }
  return text;
}

/**
 * Path of a group's view; with "/api" before it, of its JSON. Browsers resolve "." and ".." in paths, however they are
 * encoded, and a path has no empty segment: these are in the query.
 */
export function groupPath(groupId, rest = "", query = "") {
  const inQuery = groupId === "." || groupId === ".." || groupId === "";
  const parts = [inQuery ? `id=${groupId}` : "", query].filter(Boolean).join("&");
  return `${inQuery ? "/group" : `/groups/${segment(groupId)}`}${rest}${parts ? `?${parts}` : ""}`;
}
export const rebalancePath = (groupId, generation) => groupPath(groupId, `/rebalances/${generation}`);

/**
 * The server's events: each is dispatched with its parsed data as `detail`. "open" is dispatched at each connection,
 * "state" when `state` changes: "connecting", "live" or "lost".
 */
export class Feed extends EventTarget {
  state = "connecting";
  #source = null;
  #timer = null;
  #delay = 1000;
  #url;

  constructor(groupId = null) {
    super();
    this.#url = groupId === null ? "/events" : `/events?group=${segment(groupId)}`;
    this.#connect();
  }

  close() {
    clearTimeout(this.#timer);
    this.#source.close();
  }

  #connect() {
    this.#source = new EventSource(this.#url);
    this.#source.addEventListener("open", () => {
      this.#delay = 1000;
      this.#change("live");
      this.dispatchEvent(new CustomEvent("open"));
    });
    this.#source.addEventListener("error", () => {
      this.#change("lost");
      if (this.#source.readyState !== EventSource.CLOSED) return; // the browser connects again
      // After an answer that is no stream, such as a proxy's 502, the browser gives up; this page does not.
      this.#timer = setTimeout(() => this.#connect(), this.#delay);
      this.#delay = Math.min(this.#delay * 2, 15_000);
    });
    for (const name of ["hello", "groups", "group", "rebalance", "source", "problem", "solved"]) {
      this.#source.addEventListener(name, (event) => this.dispatchEvent(new CustomEvent(name, { detail: JSON.parse(event.data) })));
    }
  }

  #change(state) {
    if (state === this.state) return;
    this.state = state;
    this.dispatchEvent(new CustomEvent("state"));
  }
}
