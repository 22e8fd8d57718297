// Pedelec for a web page: sessions with agents on the user's machine, over one
// WebSocket to the daemon. See README.md beside this file.

import { PedelecError, sessionError } from "./errors.js";
import { Link, gone, socketURL } from "./link.js";
import { PedelecSession, internal } from "./session.js";

export { PedelecError, PedelecSession };

export const version = "1.0.0";

const requestTimeoutMs = 30_000;
const connectTimeoutMs = 10_000;

// The daemon lets the user decide for 60 s; a folder picker has no limit of its own.
const approvalTimeoutMs = 75_000;
const pickerTimeoutMs = 60 * 60_000;

export class Pedelec {
  #options;
  #link = null;
  #opening = null;
  #approval = null;
  #sessions = new Map(); // sessionId → Set of handles that events go to
  #seen = new Map(); // sessionId → last event of a handle that lost its connection
  #leaving = new Map(); // sessionId → the promise that its subscription is given up
  #closed = false;

  constructor(options = {}) {
    if (typeof options.endpoint === "string") socketURL(options.endpoint);
    else if (typeof options.endpoint !== "function") throw new PedelecError("INVALID_INPUT", "An endpoint is needed, like 127.0.0.1:4567.");
    this.#options = { requestTimeoutMs, connectTimeoutMs, WebSocket: globalThis.WebSocket, ...options };
  }

  ping() {
    return this.#request("ping", undefined, { approve: false });
  }

  // requestApproval asks the user, and resolves when pages of this origin may act.
  requestApproval() {
    this.#approval ??= this.#ask().finally(() => (this.#approval = null));
    return this.#approval;
  }

  async listProviders() {
    const list = await this.#request("list_providers");
    if (!Array.isArray(list) || !list.every((p) => typeof p?.code === "string")) {
      throw new PedelecError("SDK_PROTOCOL_ERROR", "The list of providers cannot be read.");
    }
    return list;
  }

  getSettings() {
    return this.#request("get_settings");
  }

  pickWorkspaceFolder() {
    return this.#request("pick_workspace_folder", undefined, { timeoutMs: pickerTimeoutMs });
  }

  async createSession({ provider, effortLevel, skills, workspace, autoEndOnDisconnect = true } = {}) {
    const { manifest, inline } = splitSkills(skills);
    const chosen = provider ?? (await this.#defaultProvider());
    const payload = {
      provider: chosen,
      ...(effortLevel !== undefined && { effortLevel }),
      ...(manifest && { skills: manifest }),
      ...(workspace?.path !== undefined && { workspace: { path: workspace.path } }),
      autoEndOnDisconnect,
    };
    const answer = await this.#request("create_thread", payload);
    if (typeof answer?.threadId !== "string") throw new PedelecError("SDK_PROTOCOL_ERROR", "The new session has no id.");
    const { threadId: sessionId } = answer;
    try {
      return await this.#handle({ sessionId, provider: chosen, effortLevel: effortLevel ?? "default", inline });
    } catch (error) {
      this.#request("end_thread", { threadId: sessionId }, { approve: false }).catch(() => {});
      throw error;
    }
  }

  async resumeSession(sessionId, { afterSeq } = {}) {
    if (typeof sessionId !== "string" || sessionId.trim() === "") {
      throw new PedelecError("INVALID_INPUT", "The id of a session is needed.");
    }
    const session = await this.#handle({ sessionId }, afterSeq ?? this.#seen.get(sessionId));
    this.#seen.delete(sessionId);
    return session;
  }

  // close gives up the connection. Handles are detached by it.
  close() {
    this.#closed = true;
    this.#link?.close();
  }

  // handle makes a handle that is in step with the daemon. Events that come
  // before its caller can have registered handlers wait until then.
  async #handle(about, afterSeq) {
    const link = await this.#connect();
    const host = {
      request: (type, payload) => this.#send(link, type, payload, { approve: !unasked.includes(type) }),
      attach: (session) => this.#attach(link, session),
      release: (session) => this.#release(link, session),
      lost: () => link.closed,
    };
    const session = new PedelecSession(host, about);
    try {
      const snapshot = await this.#attach(link, session, afterSeq);
      session[internal].adopt(snapshot, afterSeq);
    } catch (error) {
      this.#release(link, session);
      throw sessionError(error);
    }
    if (session.getStatus() === "ended") this.#release(link, session);
    // A task of its own: all that follows the caller's await comes before it.
    setTimeout(() => session[internal].open(), 0);
    return session;
  }

  // attach subscribes. The daemon keeps one subscription of a session on a
  // connection, so a second handle takes it over from where the first one stands.
  async #attach(link, session, afterSeq) {
    const { sessionId } = session;
    await this.#leaving.get(sessionId);
    const others = this.#sessions.get(sessionId) ?? new Set();
    const cursors = [...others].map((other) => other.lastEventSeq);
    if (afterSeq !== undefined) cursors.push(afterSeq);
    this.#sessions.set(sessionId, others.add(session));
    session[internal].link = link;
    const payload = { threadId: sessionId, ...(cursors.length > 0 && { afterSeq: Math.min(...cursors) }) };
    const { snapshot } = (await this.#send(link, "subscribe_thread", payload)) ?? {};
    return snapshot;
  }

  // release takes a handle out of the registry, and gives the subscription up
  // with the last one.
  #release(link, session) {
    const { sessionId } = session;
    const handles = this.#sessions.get(sessionId);
    if (!handles?.delete(session) || handles.size > 0) return;
    this.#sessions.delete(sessionId);
    if (link.closed) return;
    const left = link.request("unsubscribe_thread", { threadId: sessionId }, this.#options.requestTimeoutMs).catch(() => {});
    const done = left.then(() => this.#leaving.get(sessionId) === done && this.#leaving.delete(sessionId));
    this.#leaving.set(sessionId, done);
  }

  async #defaultProvider() {
    const { defaultProvider } = (await this.getSettings()) ?? {};
    if (!defaultProvider) throw new PedelecError("DEFAULT_PROVIDER_NOT_SET", "No provider was given, and none is set as the default.");
    return defaultProvider;
  }

  async #ask() {
    this.#options.onApprovalRequired?.({ origin: globalThis.location?.origin });
    const link = await this.#connect();
    await link.request("request_approval", undefined, approvalTimeoutMs);
  }

  async #request(type, payload, options) {
    return this.#send(await this.#connect(), type, payload, options);
  }

  // send sends one request. When pages of this origin may not act yet, it asks
  // the user, and sends it again: it had no effect.
  async #send(link, type, payload, { approve = true, timeoutMs = this.#options.requestTimeoutMs } = {}) {
    try {
      return await link.request(type, payload, timeoutMs);
    } catch (error) {
      if (error.code !== "ORIGIN_NOT_APPROVED" || !approve) throw error;
    }
    await this.requestApproval();
    return link.request(type, payload, timeoutMs);
  }

  #connect() {
    if (this.#closed) return Promise.reject(gone());
    if (this.#link && !this.#link.closed) return Promise.resolve(this.#link);
    this.#opening ??= this.#open().finally(() => (this.#opening = null));
    return this.#opening;
  }

  async #open() {
    const { WebSocket, connectTimeoutMs } = this.#options;
    const url = socketURL(await this.#find());
    const link = await Link.open(url, WebSocket, connectTimeoutMs, { callerSdkVersion: version });
    link.onEvent = (event, at) => {
      for (const session of [...(this.#sessions.get(event.threadId) ?? [])]) session[internal].deliver(event, at);
    };
    link.onClose = (error) => this.#lost(link, error);
    this.#link = link;
    return link;
  }

  async #find() {
    const { endpoint } = this.#options;
    if (typeof endpoint === "string") return endpoint;
    try {
      return await endpoint();
    } catch (error) {
      throw new PedelecError("CORE_RUNTIME_UNAVAILABLE", error?.message ?? String(error));
    }
  }

  // lost detaches every handle of a connection, and remembers how far each had
  // come, so that a new one misses no message.
  #lost(link, error) {
    for (const session of this.#handlesOf(link)) {
      const { sessionId, lastEventSeq } = session;
      this.#seen.set(sessionId, Math.min(lastEventSeq, this.#seen.get(sessionId) ?? Infinity));
      this.#sessions.get(sessionId).delete(session);
      session[internal].detach(error);
    }
    for (const [sessionId, handles] of this.#sessions) if (handles.size === 0) this.#sessions.delete(sessionId);
    this.#leaving.clear();
  }

  #handlesOf(link) {
    return [...this.#sessions.values()].flatMap((handles) => [...handles]).filter((session) => session[internal].link === link);
  }
}

// unasked are the requests of a running session: they never ask for approval.
const unasked = ["send_text", "submit_tool_result", "end_thread"];

// splitSkills keeps the functions of a page here and gives the daemon the rest.
function splitSkills(skills) {
  const inline = new Map();
  if (!skills) return { inline };
  const tools = (skills.tools ?? []).map(({ handler, ...tool }) => {
    if (typeof handler === "function") inline.set(tool.name, handler);
    return tool;
  });
  return { manifest: { guidance: skills.guidance ?? "", tools }, inline };
}
