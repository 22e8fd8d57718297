// A handle of one session: its status, its turn, its handlers.
//
// The daemon's word goes before the page's: what the page sets early (running,
// ended) is only ever ahead of what the daemon is about to say. Events count
// once, in order, and those of an operation only while it is the active one.

import * as assets from "./assets.js";
import { PedelecError, disconnected, sessionError, wireError } from "./errors.js";
import { gone } from "./link.js";
import { Tools } from "./tools.js";

// internal is the door for the client that made a handle.
export const internal = Symbol("pedelec.session");

// What the daemon calls a status, and what a page does.
const statuses = {
  idle: "idle",
  starting: "running",
  running: "running",
  stopping: "running",
  waitingToolResult: "waiting_tool_result",
  ended: "ended",
  error: "error",
};

// Codes of a refusal that say nothing about the session's health.
const notAdmitted = ["SESSION_BUSY", "SESSION_ENDED", "SESSION_ERROR", "THREAD_ACCESS_DENIED", "THREAD_NOT_FOUND", "INVALID_INPUT"];

const failedCode = { user: "SEND_TEXT_FAILED", prepare: "PREPARE_FAILED" };

export class PedelecSession {
  #host; // what the client lends: request, attach, release, lost
  #status = "idle";
  #usage = Object.freeze({ totalTokens: undefined });
  #turn = null; // {id, kind, startedAt, resolve?, reject?}; an operation of another page has no promise
  #core = { status: "idle", turn: null }; // the same as the daemon last told it
  #seq = 0; // number of the last event that counted
  #cut = 0; // up to here the snapshot has told what became of everything
  #held = []; // events that wait until handlers can be there; null: none do
  #parts = []; // of a message that comes in several events
  #tools;
  #handlers = { chat: new Set(), delta: new Set(), error: new Set(), status: new Set(), ended: new Set() };
  #prepared = false;
  #preparing = null;
  #ending = null;
  #resuming = null;
  #uploading = false;
  #detached = false;

  constructor(host, { sessionId, provider = "", effortLevel, inline = new Map() }) {
    this.#host = host;
    this.#tools = new Tools(inline);
    Object.defineProperties(this, {
      sessionId: { value: sessionId, enumerable: true },
      provider: { value: provider, enumerable: true },
      effortLevel: { value: effortLevel, enumerable: true },
      sessionCreatedAt: { value: Date.now(), enumerable: true },
      [internal]: {
        value: {
          adopt: (snapshot, afterSeq) => this.#adopt(snapshot, afterSeq),
          deliver: (event, at) => this.#deliver(event, at),
          open: () => this.#open(),
          detach: (error) => this.#detach(error),
        },
      },
    });
  }

  get usage() {
    return this.#usage;
  }

  get lastEventSeq() {
    return this.#seq;
  }

  getStatus() {
    return this.#status;
  }

  onChat(handler) {
    return this.#on("chat", handler);
  }

  onChatDelta(handler) {
    return this.#on("delta", handler);
  }

  onError(handler) {
    return this.#on("error", handler);
  }

  onStatus(handler) {
    return this.#on("status", handler);
  }

  onEnded(handler) {
    return this.#on("ended", handler);
  }

  onTool(first, second) {
    const [name, handler] = typeof first === "function" ? [null, first] : [first, second];
    if (typeof handler !== "function") throw new PedelecError("INVALID_INPUT", "A handler is a function.");
    return this.#tools.add(name, handler);
  }

  prepare() {
    if (this.#preparing) return this.#preparing;
    if (this.#prepared && !this.#refusal("prepare")) return Promise.resolve();
    const turn = this.#operate("prepare", "prepare_thread", {});
    this.#preparing = turn;
    const done = () => (this.#preparing = null);
    turn.then(done, done);
    return turn;
  }

  sendText(text) {
    if (typeof text !== "string") return Promise.reject(new PedelecError("INVALID_INPUT", "The text must be a string."));
    return this.#operate("user", "send_text", { message: text });
  }

  // attached reports whether the connection that carries the handle still is.
  get attached() {
    return !this.#detached && !this.#host.lost();
  }

  // cancel stops the turn that runs; its promise rejects OPERATION_CANCELLED.
  async cancel() {
    if (!this.attached) throw this.#gone();
    if (!this.#turn) return false;
    const answer = await this.#request("cancel_operation", { operationId: this.#turn.id });
    return answer?.cancelled === true;
  }

  async uploadAsset(file, targetPath, { onProgress } = {}) {
    this.#mustLive();
    if (typeof file?.name !== "string" || !Number.isFinite(file.size)) {
      throw new PedelecError("INVALID_INPUT", "The first argument must be a File.");
    }
    if (targetPath !== undefined) assets.checkPath(targetPath);
    if (file.size > assets.maxAssetBytes) {
      throw new PedelecError("ASSET_TOO_LARGE", "A file may have 100 MiB.", { sizeBytes: file.size, limit: assets.maxAssetBytes });
    }
    if (this.#uploading) throw new PedelecError("SESSION_BUSY", "Another upload of this session is running.");
    this.#uploading = true;
    try {
      const ticket = await this.#request("create_asset_upload", {
        filename: file.name,
        sizeBytes: file.size,
        ...(file.type && { mimeType: file.type }),
        ...(targetPath !== undefined && { targetPath }),
      });
      return await this.#transfer(assets.put(ticket, file, targetPath, onProgress));
    } finally {
      this.#uploading = false;
    }
  }

  async listAssets() {
    this.#mustLive();
    return assets.readList(await this.#request("list_assets", {}));
  }

  async readAsset(path, type, { onProgress } = {}) {
    this.#mustLive();
    if (!["text", "json", "file", "blob"].includes(type)) {
      throw new PedelecError("INVALID_INPUT", 'The type is "text", "json", "file" or "blob".', { type });
    }
    assets.checkPath(path);
    const ticket = await this.#request("create_asset_download", { path });
    return this.#transfer(assets.get(ticket, type, onProgress));
  }

  end() {
    if (this.#status === "ended") return Promise.resolve();
    this.#ending ??= this.#end().finally(() => (this.#ending = null));
    return this.#ending;
  }

  resume() {
    if (!this.attached) return Promise.reject(this.#gone());
    if (this.#resuming) return this.#resuming;
    if (this.#status !== "ended") return Promise.resolve();
    this.#resuming = this.#resume().finally(() => (this.#resuming = null));
    return this.#resuming;
  }

  // ——— requests ———

  #request(type, payload) {
    return this.#host.request(type, { threadId: this.sessionId, ...payload }).catch((error) => {
      throw sessionError(error, "SDK_PROTOCOL_ERROR");
    });
  }

  #transfer(promise) {
    return promise.catch((error) => {
      throw sessionError(error, "SDK_PROTOCOL_ERROR");
    });
  }

  #gone() {
    const error = gone();
    error.message += " Attach to the session with resumeSession().";
    error.details = { sessionId: this.sessionId };
    return error;
  }

  #mustLive() {
    if (!this.attached) throw this.#gone();
    if (this.#status === "ended") throw ended();
  }

  // refusal says why an operation cannot begin, or nothing.
  #refusal(kind) {
    if (!this.attached) return this.#gone();
    if (this.#status === "ended") return ended();
    if (this.#turn) return new PedelecError("SESSION_BUSY", "A turn of this session is running.", { operationId: this.#turn.id });
    if (this.#status === "error" && kind === "user") {
      return new PedelecError("SESSION_ERROR", "The last turn failed; prepare the session, or end and resume it.");
    }
    return undefined;
  }

  // operate begins an operation and resolves when the daemon tells that it is
  // complete.
  #operate(kind, type, payload) {
    const refused = this.#refusal(kind);
    if (refused) return Promise.reject(refused);
    const turn = { id: operationId(), kind, startedAt: Date.now() };
    const outcome = new Promise((resolve, reject) => Object.assign(turn, { resolve, reject }));
    this.#turn = turn;
    this.#setStatus("running", "sdk");
    this.#request(type, { ...payload, operationId: turn.id }).then(
      (answer) => {
        if (answer?.operationId === turn.id) return;
        this.#refuse(turn, assets.protocolError("The daemon took another operation than was asked for.", answer));
      },
      (error) => this.#refuse(turn, error),
    );
    return outcome;
  }

  // refuse ends a turn that was never admitted, as far as we know: the session is
  // again what the daemon last told.
  #refuse(turn, error) {
    if (this.#turn !== turn) return; // settled by an event or an end
    const failed = sessionError(error, failedCode[turn.kind]);
    if (!notAdmitted.includes(failed.code)) this.#emitError(failed, "sdk");
    this.#turn = this.#core.turn;
    this.#setStatus(statuses[this.#core.status], "sdk");
    turn.reject(new PedelecError(failed.code, failed.message, { ...failed.details, operationId: turn.id }));
  }

  async #end() {
    try {
      if (!this.attached) throw this.#gone();
      await this.#request("end_thread", {});
    } catch (error) {
      if (this.#status === "ended") return; // an event has told of it
      this.#emitError(error, "sdk");
      throw error;
    }
    this.#markEnded("sdk");
  }

  async #resume() {
    this.#held = [];
    try {
      await this.#host.attach(this);
      const { snapshot } = (await this.#request("resume_thread", {})) ?? {};
      if (snapshot?.status !== "idle") {
        throw new PedelecError("SDK_LIFECYCLE_SYNC_ERROR", "The session is not idle after its resume.", { status: snapshot?.status });
      }
      this.#adopt(snapshot);
      setTimeout(() => this.#open(), 0); // the caller finds it idle, whatever comes next
    } catch (error) {
      this.#held = null;
      this.#host.release(this);
      throw error;
    }
  }

  // ——— what the daemon tells ———

  // adopt takes a snapshot for the truth. With a cursor, events from there on
  // follow, and messages among them are told though the snapshot is newer.
  #adopt(snapshot, afterSeq) {
    if (!statuses[snapshot?.status] || !Number.isSafeInteger(snapshot.latestSeq)) {
      throw new PedelecError("SDK_LIFECYCLE_SYNC_ERROR", "The snapshot of the session cannot be read.");
    }
    this.#cut = snapshot.latestSeq;
    this.#seq = Math.min(afterSeq ?? this.#cut, this.#cut);
    this.#count(snapshot.usage?.totalTokens);
    const active = snapshot.activeOperation;
    this.#turn = active
      ? { id: active.operationId, kind: active.operationKind, startedAt: Date.parse(active.startedAt) || Date.now() }
      : null;
    this.#core = { status: snapshot.status, turn: this.#turn };
    this.#setStatus(statuses[snapshot.status], "core", Date.now());
    if (snapshot.activeMessage?.text && active) {
      const { text } = snapshot.activeMessage;
      this.#held?.push([{ type: "assistant_delta", seq: this.#cut, operationId: active.operationId, text, recovered: true }, Date.now()]);
    }
    const pending = snapshot.pendingToolRequest;
    if (pending) this.#takeTool(pending, true, Date.now());
  }

  // open lets the events through that came while no handler could be there.
  #open() {
    const held = this.#held ?? [];
    this.#held = null;
    // What the snapshot has streamed so far follows the replay.
    const order = ([event]) => (event.recovered ? this.#cut : event.seq - 0.5);
    for (const [event, at] of held.sort((a, b) => order(a) - order(b))) this.#deliver(event, at);
  }

  #deliver(event, at) {
    if (this.#detached) return;
    if (this.#held) {
      this.#held.push([event, at]);
      return;
    }
    if (event.recovered) {
      this.#emitText("delta", "chat_delta", event, at);
      return;
    }
    if (event.seq <= this.#seq) return;
    this.#seq = event.seq ?? this.#seq;
    if (event.seq <= this.#cut) {
      if (event.type === "assistant_message") this.#message(event, at);
      return;
    }
    this.#follow(event);
    this.#apply(event, at);
  }

  // follow keeps what the daemon says of itself, whosever operation it is.
  #follow(event) {
    const core = this.#core;
    if (event.type === "ended") this.#core = { status: "ended", turn: null };
    if (event.type === "operation_completed" && core.turn?.id === event.operationId) core.turn = null;
    if (event.type !== "status_changed" || !statuses[event.status]) return;
    core.status = event.status;
    const busy = ["running", "waiting_tool_result"].includes(statuses[event.status]);
    if (busy && event.operationId && core.turn?.id !== event.operationId) {
      core.turn = this.#turn?.id === event.operationId ? this.#turn : { id: event.operationId, startedAt: Date.now() };
    }
  }

  #apply(event, at) {
    switch (event.type) {
      case "status_changed":
        this.#statusChanged(event, at);
        break;
      case "usage_updated":
        this.#count(event.totalTokens);
        break;
      case "ended":
        this.#markEnded("core", at);
        break;
      case "error":
        if (event.operationId === undefined || this.#isActive(event)) this.#emitError(wireError(event.error, "SESSION_ERROR"), "core", at);
        break;
      case "assistant_delta":
        if (this.#isActive(event) && this.#turn.kind !== "prepare") this.#emitText("delta", "chat_delta", event, at);
        break;
      case "assistant_message":
        if (this.#isActive(event) && this.#turn.kind !== "prepare") this.#message(event, at);
        break;
      case "tool_call":
        if (this.#isActive(event)) this.#takeTool(event, false, at);
        break;
      case "tool_result":
        this.#tools.over(event.requestId);
        break;
      case "operation_completed":
        this.#completed(event);
        break;
    }
  }

  #isActive(event) {
    return this.#turn !== null && event.operationId === this.#turn.id;
  }

  #statusChanged(event, at) {
    const status = statuses[event.status];
    if (!status) return;
    if (event.operationId !== undefined && !this.#turn && this.#core.turn) {
      this.#turn = this.#core.turn; // another page has begun an operation
    }
    const concerns = event.operationId === undefined ? !this.#turn || event.status === "stopping" : this.#isActive(event);
    if (!concerns) return;
    if (status === "running") this.#tools.over(); // answered, or out of time
    if (status === "ended") this.#markEnded("core", at);
    else this.#setStatus(status, "core", at);
  }

  #completed(event) {
    this.#parts = [];
    if (!this.#isActive(event)) return;
    const turn = this.#turn;
    this.#turn = null;
    this.#tools.over();
    if (!turn.resolve) return; // another page waits for it
    if (event.operationKind !== turn.kind) {
      turn.reject(assets.protocolError("The operation that was completed is of another kind.", { operationId: turn.id }));
    } else if (event.success) {
      if (turn.kind === "prepare") this.#prepared = true;
      turn.resolve();
    } else {
      const error = sessionError(wireError(event.error, failedCode[turn.kind]));
      turn.reject(new PedelecError(error.code, error.message, { ...error.details, operationId: turn.id }));
    }
  }

  // message joins the parts of a message that was too long for one event.
  #message(event, at) {
    if (event.part) {
      this.#parts[event.part.index] = event.text;
      if (event.part.index + 1 < event.part.count) return;
      event = { ...event, text: this.#parts.join("") };
      this.#parts = [];
    }
    this.#emitText("chat", "chat_message", event, at);
  }

  #takeTool({ requestId, toolName, args }, recovered, at) {
    this.#setStatus("waiting_tool_result", recovered ? "core" : "sdk", recovered ? at : undefined);
    const turn = this.#turn;
    const context = () => ({ ...this.#context("core", at, turn), type: "tool_call", toolRequestId: requestId, tool: toolName });
    this.#tools.take({ requestId, toolName, args }, recovered, context, (result) => void this.#submit(requestId, result));
  }

  async #submit(requestId, result) {
    try {
      await this.#request("submit_tool_result", { requestId, result });
    } catch (error) {
      if (this.#status === "ended") return; // nobody waits for it any more
      const details = { ...error.details, requestId, cause: error.code };
      this.#emitError(new PedelecError("SUBMIT_TOOL_RESULT_FAILED", error.message, details), "sdk");
    }
  }

  // count takes a valid total that is larger than what was known.
  #count(total) {
    if (!Number.isSafeInteger(total) || total < 0) return;
    if (total > (this.#usage.totalTokens ?? -1)) this.#usage = Object.freeze({ totalTokens: total });
  }

  #markEnded(source, at) {
    if (this.#status === "ended") return;
    const turn = this.#turn;
    this.#core = { status: "ended", turn: null };
    this.#tools.over();
    this.#parts = [];
    this.#setStatus("ended", source, at);
    this.#emit("ended", [{ ...this.#context(source, at), type: source === "core" ? "ended" : "sdk_ended" }]);
    this.#turn = null;
    turn?.reject?.(ended({ operationId: turn.id }));
    this.#host.release(this);
  }

  // detach makes the handle useless: its connection is gone. What the daemon
  // does is unknown from now on, so nothing is sent again.
  #detach(error) {
    if (this.#detached) return;
    this.#detached = true;
    const turn = this.#turn;
    const details = { ...error.details, sessionId: this.sessionId, ...(turn && { operationId: turn.id }) };
    const lost = new PedelecError(disconnected, error.message, details);
    this.#tools.over();
    if (this.#status !== "ended") {
      this.#emitError(lost, "sdk");
      this.#setStatus("error", "sdk");
    }
    this.#turn = null;
    turn?.reject?.(lost);
  }

  // ——— what the page is told ———

  #on(kind, handler) {
    if (typeof handler !== "function") throw new PedelecError("INVALID_INPUT", "A handler is a function.");
    this.#handlers[kind].add(handler);
    return () => void this.#handlers[kind].delete(handler);
  }

  #setStatus(status, source, at) {
    if (status === this.#status) return;
    const previousStatus = this.#status;
    this.#status = status;
    const type = source === "core" ? "status_changed" : "sdk_status_changed";
    this.#emit("status", [status, { ...this.#context(source, at), type, status, previousStatus }]);
  }

  #emitError(error, source, at) {
    this.#emit("error", [error, { ...this.#context(source, at), type: source === "core" ? "error" : "sdk_error" }]);
  }

  #emitText(kind, type, event, at) {
    const turn = this.#isActive(event) ? this.#turn : { id: event.operationId, kind: "user" };
    this.#emit(kind, [event.text, { ...this.#context("core", at, turn), type }]);
  }

  #context(source, at, turn = this.#turn) {
    return {
      sessionId: this.sessionId,
      provider: this.provider,
      ...(this.effortLevel !== undefined && { effortLevel: this.effortLevel }),
      sessionCreatedAt: this.sessionCreatedAt,
      ...(at !== undefined && { eventReceivedAt: at }),
      eventEmittedAt: Date.now(),
      ...(turn?.id !== undefined && { turnId: turn.id }),
      ...(turn?.startedAt !== undefined && { turnStartedAt: turn.startedAt }),
      ...(turn?.kind !== undefined && { turnKind: turn.kind }),
      source,
    };
  }

  // emit calls every handler; one that throws harms neither the others nor us.
  #emit(kind, values) {
    for (const handler of [...this.#handlers[kind]]) {
      try {
        handler(...values);
      } catch (error) {
        if (typeof reportError === "function") reportError(error);
        else console.error(error);
      }
    }
  }
}

function ended(details) {
  return new PedelecError("SESSION_ENDED", "The session has ended.", details);
}

function operationId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `operation_${Date.now()}_${Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("")}`;
}
