// One WebSocket to the daemon: requests with their answers, and events. A link
// that was lost stays lost; the client opens another one.

import { PedelecError, disconnected, wireError } from "./errors.js";

// The daemon takes so many requests of one connection at once; more wait here.
const maxInFlight = 32;

// The daemon closes a connection that sends a longer message.
export const maxMessageBytes = 1_048_576;

const utf8 = new TextEncoder();

// socketURL makes the address of the WebSocket from what a page was given:
// "127.0.0.1:4567", "http://127.0.0.1:4567" or the address itself.
export function socketURL(endpoint) {
  if (typeof endpoint !== "string" || !endpoint.trim()) {
    throw new PedelecError("INVALID_INPUT", "An endpoint is needed, like 127.0.0.1:4567.");
  }
  let url;
  try {
    url = new URL(/^[a-z]+:\/\//i.test(endpoint) ? endpoint : `ws://${endpoint}`);
  } catch {
    throw new PedelecError("INVALID_INPUT", `This is no endpoint: ${endpoint}`);
  }
  url.protocol = url.protocol === "https:" || url.protocol === "wss:" ? "wss:" : "ws:";
  if (url.pathname === "/") url.pathname = "/v1/ipc";
  return url.href;
}

export class Link {
  closed = false;
  onEvent = () => {};
  onClose = () => {};

  #socket;
  #envelope;
  #pending = new Map(); // requestId → {resolve, reject, timer}
  #queue = []; // requests that wait for a free place
  #count = 0;

  constructor(socket, envelope) {
    this.#socket = socket;
    this.#envelope = envelope;
    socket.onmessage = (message) => this.#receive(message.data, Date.now());
    socket.onerror = () => {}; // a close always follows
    socket.onclose = (close) => this.#lost(close);
  }

  // open resolves with a link, or rejects CORE_RUNTIME_UNAVAILABLE.
  static open(url, WebSocket, timeoutMs, envelope) {
    return new Promise((resolve, reject) => {
      const unavailable = (message) => reject(new PedelecError("CORE_RUNTIME_UNAVAILABLE", message, { url }));
      if (typeof WebSocket !== "function") {
        unavailable("There is no WebSocket here; give one in the options.");
        return;
      }
      let socket;
      try {
        socket = new WebSocket(url, ["pedelec.v1"]);
      } catch (error) {
        unavailable(`The connection cannot be opened: ${error.message}`);
        return;
      }
      const timer = setTimeout(() => {
        unavailable(`Pedelec did not answer in ${timeoutMs} ms.`);
        socket.onopen = socket.onclose = null;
        socket.close();
      }, timeoutMs);
      socket.onerror = () => {};
      socket.onclose = () => {
        clearTimeout(timer);
        unavailable("Pedelec cannot be reached. Does it run?");
      };
      socket.onopen = () => {
        clearTimeout(timer);
        resolve(new Link(socket, envelope));
      };
    });
  }

  // request resolves with the result of one request. Errors: those of the
  // daemon, SDK_BRIDGE_TIMEOUT, SDK_TRANSPORT_DISCONNECTED, MESSAGE_TOO_LARGE.
  request(type, payload, timeoutMs) {
    if (this.closed) return Promise.reject(gone());
    const requestId = `js_${Date.now()}_${++this.#count}`;
    const text = JSON.stringify({ requestId, type, ...this.#envelope, ...(payload && { payload }) });
    const bytes = text.length > maxMessageBytes / 4 ? utf8.encode(text).length : text.length;
    if (bytes > maxMessageBytes) {
      return Promise.reject(new PedelecError("MESSAGE_TOO_LARGE", "The request is too large.", { bytes, limit: maxMessageBytes }));
    }
    return new Promise((resolve, reject) => {
      const entry = { resolve, reject, text, requestId };
      entry.timer = setTimeout(() => {
        this.#settle(requestId);
        this.#queue = this.#queue.filter((waiting) => waiting !== entry);
        reject(new PedelecError("SDK_BRIDGE_TIMEOUT", `Pedelec did not answer ${type} in ${timeoutMs} ms.`, { type }));
      }, timeoutMs);
      this.#queue.push(entry);
      this.#send();
    });
  }

  close() {
    this.#socket.close(1000);
    this.#lost({ code: 1000 });
  }

  #send() {
    while (this.#pending.size < maxInFlight && this.#queue.length > 0) {
      const entry = this.#queue.shift();
      this.#pending.set(entry.requestId, entry);
      this.#socket.send(entry.text);
    }
  }

  #settle(requestId) {
    const entry = this.#pending.get(requestId);
    if (!entry) return undefined;
    clearTimeout(entry.timer);
    this.#pending.delete(requestId);
    if (!this.closed) this.#send();
    return entry;
  }

  #receive(data, receivedAt) {
    if (this.closed) return;
    let message;
    try {
      message = JSON.parse(data);
    } catch {
      return; // no word of the daemon's
    }
    if (message?.type === "thread_event" && message.event) {
      this.onEvent(message.event, receivedAt);
      return;
    }
    const entry = this.#settle(message?.requestId);
    if (!entry) return; // its caller has given up
    if (message.ok) entry.resolve(message.result);
    else entry.reject(wireError(message.error, "SDK_PROTOCOL_ERROR"));
  }

  #lost(close) {
    if (this.closed) return;
    this.closed = true;
    const entries = [...this.#pending.values(), ...this.#queue];
    this.#pending.clear();
    this.#queue = [];
    const error = gone(close);
    // The handles come first: they know more about what they were doing.
    this.onClose(error);
    for (const entry of entries) {
      clearTimeout(entry.timer);
      entry.reject(error);
    }
  }
}

export function gone(close) {
  const details = close?.code ? { closeCode: close.code, ...(close.reason && { reason: close.reason }) } : undefined;
  return new PedelecError(disconnected, "The connection to Pedelec is lost.", details);
}
