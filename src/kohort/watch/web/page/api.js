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

const segment = encodeURIComponent;

/** Whether a URL can name the group: browsers resolve "." and ".." in paths, however they are encoded. */
export const addressable = (groupId) => groupId !== "." && groupId !== ".." && groupId !== "";
export const groupPath = (groupId) => `/groups/${segment(groupId)}`;
export const rebalancePath = (groupId, generation) => `${groupPath(groupId)}/rebalances/${generation}`;

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
    for (const name of ["hello", "groups", "group", "rebalance", "source", "problem"]) {
      this.#source.addEventListener(name, (event) => this.dispatchEvent(new CustomEvent(name, { detail: JSON.parse(event.data) })));
    }
  }

  #change(state) {
    if (state === this.state) return;
    this.state = state;
    this.dispatchEvent(new CustomEvent("state"));
  }
}
